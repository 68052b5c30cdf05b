//! The relay process: the library as a user would put it together, and the wrappers that mark.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sendoff::file::FilePublisher;
use sendoff::nats::{NatsOptions, NatsPublisher};
use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::relay::{Backoff, Hold, RelaySettings, RowLockRelay, RowLockSettings, Tally};
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::{ClaimStore, OutboxStore};
use sendoff::{Publisher, Relay};
use tokio::signal::unix::{SignalKind, signal};

use crate::failed;
use crate::marks::Marks;
use crate::watched::{Trouble, WatchedClaims, WatchedPublisher, WatchedStore};

/// A kind of relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Mode {
    /// Lanes and leases.
    #[default]
    Lanes,
    /// Row locks. Nothing holds back what comes behind a message in quarantine, so there is no poison.
    RowLocks,
}

impl Mode {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lanes => "lanes",
            Self::RowLocks => "row-locks",
        }
    }
}

/// So many messages are claimed at once.
const BATCH: usize = 4;

/// What a relay process is told.
#[derive(Debug, Clone, clap::Args)]
pub struct RelayArguments {
    /// `postgres://...` or `sqlite:PATH`.
    #[arg(long)]
    pub store: String,
    /// `nats://.../STREAM` or `file:PATH`.
    #[arg(long)]
    pub to: String,
    /// Where to write marks: a file that is not there.
    #[arg(long)]
    pub marks: PathBuf,
    /// Poisonous messages fail until this file is there.
    #[arg(long)]
    pub healed: PathBuf,
    /// The lease, in milliseconds.
    #[arg(long)]
    pub lease_ms: u64,
    /// What a failed message holds back.
    #[arg(long, default_value_t = Hold::Key)]
    pub hold: Hold,
    /// The kind of relay.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Of so many messages one fails the first time.
    #[arg(long, default_value_t = 40)]
    pub fails_one_in: u128,
    /// Of so many messages one fails for a second or two in each process.
    #[arg(long, default_value_t = 400)]
    pub stubborn_one_in: u128,
}

/// Runs a relay until SIGTERM, or until the harness is gone.
///
/// # Errors
/// Where the store, the publisher, the relay or the marks cannot be made.
pub async fn run(arguments: RelayArguments) -> io::Result<Tally> {
    let mut term = signal(SignalKind::terminate())?;
    let marks = Arc::new(Marks::create(&arguments.marks)?);
    let (store, claims) = open_store(&arguments.store)?;
    let lease = Duration::from_millis(arguments.lease_ms);
    let publish_timeout = lease.mul_f64(0.6);
    let publisher = Arc::new(WatchedPublisher::new(
        open_publisher(&arguments.to)?,
        marks.clone(),
        Trouble {
            fails_one_in: arguments.fails_one_in,
            stubborn_one_in: arguments.stubborn_one_in,
            healed: (arguments.mode == Mode::Lanes).then_some(arguments.healed),
        },
        publish_timeout,
    ));
    let harness_gone = harness_gone();
    let stop = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = harness_gone => {}
        }
    };
    if arguments.mode == Mode::RowLocks {
        let claims = Arc::new(WatchedClaims::new(claims, marks));
        let relay = RowLockRelay::builder(claims, publisher)
            .settings(RowLockSettings {
                batch: BATCH,
                publish_timeout,
                poll: Duration::from_millis(25),
                ..RowLockSettings::default()
            })
            .report(|report| eprintln!("{report:?}"))
            .build()
            .map_err(|error| failed("building the relay", error))?;
        return Ok(relay.run(stop).await);
    }
    let store = Arc::new(WatchedStore::new(store, marks));
    let relay = Relay::builder(store, publisher.clone())
        .settings(RelaySettings {
            lease,
            publish_timeout,
            poll: Duration::from_millis(25),
            hold: arguments.hold,
            backoff: Backoff { first: Duration::from_millis(20), max: Duration::from_millis(300) },
            ..RelaySettings::default()
        })
        .report(|report| eprintln!("{report:?}"))
        .build()
        .map_err(|error| failed("building the relay", error))?;
    publisher.name_relay(relay.id().as_str());
    Ok(relay.run(stop).await)
}

/// Standard input is a pipe from the harness: it ends when the harness does.
fn harness_gone() -> tokio::sync::oneshot::Receiver<()> {
    let (gone, seen) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let ended = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        drop(ended);
        gone.send(())
    });
    seen
}

/// The two sides of a store that relays have.
type Sides = (Arc<dyn OutboxStore>, Arc<dyn ClaimStore>);

fn open_store(url: &str) -> io::Result<Sides> {
    let doing = "opening the store";
    if let Some(path) = url.strip_prefix("sqlite:") {
        let store = SqliteStore::open(path.as_ref(), SqliteOptions::default());
        let store = Arc::new(store.map_err(|error| failed(doing, error))?);
        return Ok((store.clone(), store));
    }
    let store = PostgresStore::new(url, PostgresOptions::default());
    let store = Arc::new(store.map_err(|error| failed(doing, error))?);
    Ok((store.clone(), store))
}

fn open_publisher(url: &str) -> io::Result<Arc<dyn Publisher>> {
    let doing = "opening the publisher";
    if let Some(path) = url.strip_prefix("file:") {
        let publisher = FilePublisher::open(Path::new(path));
        return Ok(Arc::new(publisher.map_err(|error| failed(doing, error))?));
    }
    let publisher = NatsPublisher::new(url, NatsOptions::default());
    Ok(Arc::new(publisher.map_err(|error| failed(doing, error))?))
}
