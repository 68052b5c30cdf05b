//! The product as a user runs it: store, publisher and relay, started and stopped.
//!
//! Settings are the defaults unless a measurement is about one. Nothing may fail in a measurement,
//! so the first thing that a relay reports ends it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use sendoff_brokers::nats::{NatsOptions, NatsPublisher};
use sendoff_core::relay::{Progress, RelaySettings, Report, Tally};
use sendoff_core::store::OutboxDesk;
use sendoff_core::{Publisher, Relay, Wake};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::failure::{Doing, Failure, Result};
use crate::ground::Ground;

/// Makes the schema where it is not there.
///
/// # Errors
/// Those of the database.
pub(crate) async fn migrate(ground: &Ground) -> Result<()> {
    store(ground, PostgresOptions::default())?
        .migrate()
        .await
        .doing("migrating the product's schema")?;
    Ok(())
}

/// The product's publisher to a stream.
///
/// # Errors
/// Where the address is not one.
pub(crate) fn publisher(address: &str) -> Result<NatsPublisher> {
    NatsPublisher::new(address, NatsOptions::default()).doing("making the publisher")
}

/// What differs from the defaults.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// The relay's settings.
    pub(crate) settings: RelaySettings,
    /// How processes tell each other of commits.
    pub(crate) options: PostgresOptions,
    /// The wake-up that writers in this process give.
    pub(crate) wake: Wake,
}

/// A relay that runs.
#[derive(Debug)]
pub(crate) struct RunningRelay {
    progress: Progress,
    complaints: Complaints,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Tally>,
}

impl RunningRelay {
    /// Starts a relay from the ground's database to `publisher`.
    ///
    /// # Errors
    /// Where a setting is out of range.
    pub(crate) fn start(
        ground: &Ground,
        publisher: Arc<dyn Publisher>,
        setup: Setup,
    ) -> Result<Self> {
        let complaints = Complaints::default();
        let hook = complaints.clone();
        let store = Arc::new(store(ground, setup.options)?);
        let relay = Relay::builder(store, publisher)
            .settings(setup.settings)
            .wake(setup.wake)
            .report(move |report| hook.add(report))
            .build()
            .doing("building the relay")?;
        let progress = relay.progress();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(relay.run(async move {
            // A sender that was dropped stops it too.
            let _ = stopped.await;
        }));
        Ok(Self { progress, complaints, stop, running })
    }

    /// How far it is.
    pub(crate) fn tally(&self) -> Tally {
        self.progress.tally()
    }

    /// Stops it in good order.
    ///
    /// # Errors
    /// The first thing that it reported, if there was one.
    pub(crate) async fn stop(self) -> Result<Tally> {
        drop(self.stop);
        let tally = self.running.await.doing("stopping the relay")?;
        self.complaints.check()?;
        Ok(tally)
    }
}

/// A store on the ground's database.
///
/// # Errors
/// Where an option is out of range.
pub(crate) fn store(ground: &Ground, options: PostgresOptions) -> Result<PostgresStore> {
    PostgresStore::new(ground.url(), options).doing("making the store")
}

/// The first thing that a relay reported.
#[derive(Debug, Clone, Default)]
struct Complaints(Arc<Mutex<String>>);

impl Complaints {
    fn add(&self, report: &Report) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.is_empty() {
            return;
        }
        // Writing to a string does not fail. The message itself is not quoted.
        let _ = match report {
            Report::Quarantined { seq, error, .. } => {
                write!(text, "row {seq} quarantined: {error}")
            }
            Report::PublishFailed { seq, error, .. } => write!(text, "row {seq} failed: {error}"),
            Report::TargetDown { error, .. } => write!(text, "the target is down: {error}"),
            Report::StoreFailed(error) => write!(text, "the store failed: {error}"),
            Report::Fenced { seqs } => write!(text, "{} verdicts fenced", seqs.len()),
            _ => write!(text, "something that this program does not know"),
        };
    }

    fn check(&self) -> Result<()> {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if text.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the relay reported, in a measurement where nothing may fail: {text}"
        )))
    }
}
