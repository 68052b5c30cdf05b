//! The disk is full: under a tablespace, where the server refuses what needs room, and under the
//! whole cluster, where it ends because it cannot write its log.
//!
//! Each case runs this very test program again, for one case, with a small file system of its own
//! that goes away with it. Where none can be mounted, something that looks the same to a client
//! stands in: a trigger that refuses as the server does, and a server that is killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_conformance::servers::{Postgres, PostgresConfig};
use sendoff_core::error::Retry;
use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::relay::{Backoff, RelaySettings, Report};
use sendoff_core::store::{OutboxDesk, Stats};
use sendoff_core::{ErrorKind, Message, Outbox, PublishError, Relay};
use sendoff_stores::postgres::{PostgresStore, error_kind};
use tokio::sync::oneshot;
use tokio_postgres::Client;

use crate::stage::{connect, eventually, open};

const ROLE: &str = "SENDOFF_TEST_ROLE";
const FOLDER: &str = "SENDOFF_TEST_FOLDER";

/// Where a case runs.
enum Disk {
    /// On a small file system that is mounted here.
    Small(PathBuf),
    /// On the machine's own: no other can be mounted.
    StandIn,
}

impl Disk {
    /// Leaves no room on it.
    fn fill(&self) {
        let Self::Small(folder) = self else { return };
        let mut ballast = std::fs::File::create(folder.join("ballast")).unwrap();
        for page in [1 << 20, 4_096, 1] {
            while std::io::Write::write_all(&mut ballast, &vec![0; page]).is_ok() {}
        }
    }

    fn make_room(&self) {
        let Self::Small(folder) = self else { return };
        std::fs::remove_file(folder.join("ballast")).unwrap();
    }
}

/// Private servers keep their data in the folder for temporary files.
const SERVERS_TOO: &str = "export TMPDIR=\"$SENDOFF_TEST_FOLDER\";";

/// Runs the test `name` of this file once more, on a file system of `size`, after the shell's `before`;
/// where that is the case already, answers with it.
fn on_a_small_disk(name: &str, size: &str, before: &str) -> Option<Disk> {
    let role = std::env::var(ROLE).ok();
    let folder = std::env::var(FOLDER).map(PathBuf::from).unwrap_or_default();
    match role.as_deref() {
        Some("on a small disk") => return Some(Disk::Small(folder)),
        Some("stand-in") => return Some(Disk::StandIn),
        _ => {}
    }
    let temporary = tempfile::tempdir().unwrap();
    // A name space of its own: what is mounted in it goes with its last process.
    let space: &[&str] = if rustix::process::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--user", "--map-current-user", "--keep-caps", "--mount"]
    };
    let mount = format!("mount -t tmpfs -o size={size},mode=1777 tmpfs \"${FOLDER}\"");
    let in_space = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(space).args(["sh", "-c", script, "sh"]).env(FOLDER, temporary.path());
        command
    };
    let mountable = in_space(&mount).status().is_ok_and(|status| status.success());
    let (mut command, role) = if mountable {
        (in_space(&format!("{mount} && {before} exec \"$@\"")), "on a small disk")
    } else {
        eprintln!("no file system can be mounted here: what looks like a full disk stands in");
        let mut plain = Command::new("env");
        plain.env(FOLDER, temporary.path());
        (plain, "stand-in")
    };
    let output = command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("full_disk::{name}"), "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("1 passed"), "the case was not run: {told}");
    None
}

/// A relay that runs, and what it reported of the store.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<sendoff_core::relay::Tally>,
    ready: sendoff_core::relay::Readiness,
    failures: Arc<Mutex<Vec<(ErrorKind, String)>>>,
}

fn relay(url: &str, target: &MemoryPublisher) -> Running {
    let failures: Arc<Mutex<Vec<(ErrorKind, String)>>> = Arc::default();
    let heard = Arc::clone(&failures);
    let relay = Relay::builder(Arc::new(open(url)), Arc::new(target.clone()))
        .settings(RelaySettings {
            // No lease lapses while the disk is full, so nothing has to be published twice.
            lease: Duration::from_secs(60),
            poll: Duration::from_millis(20),
            backoff: Backoff { first: Duration::from_millis(20), max: Duration::from_millis(80) },
            ..RelaySettings::default()
        })
        .report(move |report| {
            if let Report::StoreFailed(error) = report {
                heard.lock().unwrap().push((error.kind(), error.to_string()));
            }
        })
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ready = relay.readiness();
    let task = tokio::spawn(relay.run(async move { drop(stopped.await) }));
    Running { stop: Some(stop), task, ready, failures }
}

impl Running {
    async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

/// A message of 20 kB that do not compress.
fn message(id: &str, key: &str) -> Message {
    let mut random = id.bytes().fold(7_u64, |seed, byte| seed * 31 + u64::from(byte));
    let body: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 56) as u8
    })
    .take(20_000)
    .collect();
    Message::builder("shop", "placed").id(id).key(key).body(body).build().unwrap()
}

/// An order and its message, in one transaction.
async fn place(client: &mut Client, id: &str) -> Result<(), tokio_postgres::Error> {
    let mut transaction = client.transaction().await?;
    transaction.execute("INSERT INTO orders (id) VALUES ($1)", &[&id]).await?;
    Outbox::new("shop").send(&mut transaction, &message(id, "k")).await?;
    transaction.commit().await
}

async fn orders(url: &str) -> BTreeSet<String> {
    let rows = connect(url).await.query("SELECT id FROM orders", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn drained(store: &PostgresStore) -> Stats {
    eventually("everything is published", || async {
        let stats = store.stats().await.ok()?;
        (stats.pending + stats.held + stats.quarantined == 0).then_some(stats)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_tablespace_is_told_loses_nothing_and_is_forgotten_once_there_is_room() {
    const NAME: &str =
        "a_full_tablespace_is_told_loses_nothing_and_is_forgotten_once_there_is_room";
    let Some(disk) = on_a_small_disk(NAME, "24m", "") else { return };
    let server = Postgres::start().unwrap();
    let url = match &disk {
        Disk::Small(folder) => database_on(&server, folder),
        Disk::StandIn => server.create_database("shop").unwrap(),
    };
    let store = open(&url);
    store.migrate().await.unwrap();
    let mut client = connect(&url).await;
    client.batch_execute("CREATE TABLE orders (id text PRIMARY KEY)").await.unwrap();
    let target = MemoryPublisher::new();
    target.always(On::Any, Act::Refuse(PublishError::unreachable("not yet")));
    let relay = relay(&url, &target);
    for n in 0..40 {
        place(&mut client, &format!("{n:03}")).await.unwrap();
    }

    disk.fill();
    if matches!(disk, Disk::StandIn) {
        client.batch_execute(REFUSING).await.unwrap();
    }
    // The sender is told, by the driver's error, and nothing of his transaction is there.
    let error = send_until_refused(&mut client).await;
    assert_eq!(error_kind(&error), ErrorKind::DiskFull, "{error:?}");
    assert_eq!(error.code().unwrap().code(), "53100");
    let error = store.send_all(&many()).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::DiskFull, Retry::Later), "{error}");
    assert!(error.to_string().contains("free space"), "{error}");
    assert!(store.find("many-0", None).await.unwrap().is_empty());
    let committed = orders(&url).await;
    assert!(!committed.contains("refused"));
    assert!(store.find("refused", None).await.unwrap().is_empty());

    // The relay publishes, and cannot write that it did: it says so and forgets nothing.
    target.clear();
    target.next(1, On::Id("003".into()), Act::Refuse(PublishError::failed("not this one yet")));
    eventually("the relay says so", || async {
        let failures = relay.failures.lock().unwrap();
        failures.iter().any(|(kind, _)| *kind == ErrorKind::DiskFull).then_some(())
    })
    .await;
    assert!(!relay.ready.is_ready());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(store.stats().await.unwrap().pending > 0, "it was not settled");

    disk.make_room();
    if matches!(disk, Disk::StandIn) {
        client.batch_execute("DROP FUNCTION refuse CASCADE").await.unwrap();
    }
    let stats = drained(&store).await;
    assert_eq!(stats.published, committed.len() as u64);
    assert_eq!(target.tally().repeated, 0, "what was published is not published again");
    let delivered: Vec<String> = target.ids();
    assert_eq!(delivered, committed.into_iter().collect::<Vec<_>>(), "in the key's order");
    eventually("it is ready again", || async { relay.ready.is_ready().then_some(()) }).await;
    place(&mut client, "refused").await.unwrap();
    store.send_all(&many()).await.unwrap();
    drained(&store).await;
    assert_eq!(target.ids().len() as u64, stats.published + 1 + many().len() as u64);
    relay.stop().await;
}

/// As a server without room refuses, for hosts where it cannot be without.
const REFUSING: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
       RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; \
     CREATE TRIGGER refuse BEFORE INSERT ON sendoff.outbox FOR EACH STATEMENT \
       EXECUTE FUNCTION refuse(); \
     CREATE TRIGGER refuse BEFORE INSERT ON sendoff.tally FOR EACH STATEMENT \
       EXECUTE FUNCTION refuse()";

/// A database in a tablespace in this folder.
fn database_on(server: &Postgres, folder: &Path) -> String {
    let place = folder.join("tablespace");
    let place = place.display();
    for sql in [
        // By the server itself, so that the folder belongs to the account that it runs under.
        format!("COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; mkdir -m 700 {place}'"),
        format!("CREATE TABLESPACE small LOCATION '{place}'"),
        "CREATE DATABASE shop TABLESPACE small".to_owned(),
    ] {
        server.execute("postgres", &sql).unwrap();
    }
    let url = server.url();
    format!("{}/shop", url.rsplit_once('/').unwrap().0)
}

/// Pages that were there already take a few more messages. The one that is refused is tried again
/// under the id `refused`, for the error.
async fn send_until_refused(client: &mut Client) -> tokio_postgres::Error {
    for n in 40..1_000 {
        if place(client, &format!("{n:03}")).await.is_err() {
            return place(client, "refused").await.unwrap_err();
        }
    }
    panic!("the disk is not full")
}

fn many() -> Vec<Message> {
    (0..20).map(|n| message(&format!("many-{n}"), "many")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_since_it_cannot_write_its_log_loses_nothing_that_committed() {
    const NAME: &str =
        "a_server_that_ends_since_it_cannot_write_its_log_loses_nothing_that_committed";
    let Some(disk) = on_a_small_disk(NAME, "256m", SERVERS_TOO) else { return };
    let mut server = match &disk {
        Disk::Small(_) => on_this_disk(),
        Disk::StandIn => Postgres::start().unwrap(),
    };
    let url = server.create_database("shop").unwrap();
    let store = open(&url);
    store.migrate().await.unwrap();
    let mut client = connect(&url).await;
    client.batch_execute("CREATE TABLE orders (id text PRIMARY KEY)").await.unwrap();
    let target = MemoryPublisher::new();
    let relay = relay(&url, &target);
    disk.fill();
    let mut acknowledged = BTreeSet::new();
    let refused = loop {
        let id = format!("{:05}", acknowledged.len());
        match place(&mut client, &id).await {
            Ok(()) => acknowledged.insert(id),
            Err(error) => break error,
        };
        if matches!(disk, Disk::StandIn) && acknowledged.len() == 100 {
            server.kill_hard().unwrap();
        }
        assert!(acknowledged.len() < 10_000, "the disk is not full");
    };
    // Tables that cannot grow are refused in good order. The log was made in advance; where it ends,
    // the server does.
    let kinds = [ErrorKind::DiskFull, ErrorKind::Unreachable];
    assert!(kinds.contains(&error_kind(&refused)), "{refused:?}");
    let log = "SELECT pg_logical_emit_message(true, 'ballast', repeat('x', 1000000))";
    eventually("the server ends", || async {
        let error = client.execute(log, &[]).await.err()?;
        assert!(kinds.contains(&error_kind(&error)), "{error:?}");
        client.is_closed().then_some(())
    })
    .await;
    eventually("the relay says so", || async {
        (!relay.ready.is_ready() && !relay.failures.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    for (kind, text) in relay.failures.lock().unwrap().iter() {
        assert!(kinds.contains(kind) || *kind == ErrorKind::Timeout, "{text}");
    }
    disk.make_room();
    server.restart().unwrap();
    drained(&store).await;
    eventually("it is ready again", || async { relay.ready.is_ready().then_some(()) }).await;
    let committed = orders(&url).await;
    assert!(committed.is_superset(&acknowledged), "what was acknowledged is there");
    let delivered: BTreeSet<String> = target.ids().into_iter().collect();
    assert_eq!(delivered, committed, "what committed arrived, and nothing else did");
    relay.stop().await;
}

/// A cluster whose folder is on the small disk.
fn on_this_disk() -> Postgres {
    let settings = [("max_wal_size", "32MB"), ("min_wal_size", "32MB"), ("wal_recycle", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Postgres::start_with(PostgresConfig { settings: settings.into(), ..PostgresConfig::default() })
        .unwrap()
}
