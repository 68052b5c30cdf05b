//! The disk is full: under a tablespace, where the server refuses what needs room, and under the
//! whole cluster, where it ends because it cannot write its log.
//!
//! Where no small disk can be had, something that looks the same to a client stands in: a trigger
//! that refuses as the server does, and a server that is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use sendoff_conformance::servers::{Disk, Postgres, PostgresConfig};
use sendoff_core::error::Retry;
use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::store::OutboxDesk;
use sendoff_core::{ErrorKind, Message, Outbox, PublishError};
use sendoff_stores::postgres::error_kind;
use tokio_postgres::Client;

use crate::running::{drained, relay};
use crate::stage::{connect, eventually, open};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_tablespace_is_told_loses_nothing_and_is_forgotten_once_there_is_room() {
    const NAME: &str =
        "full_disk::a_full_tablespace_is_told_loses_nothing_and_is_forgotten_once_there_is_room";
    let Some(disk) = Disk::small(NAME, "24m", false).unwrap() else { return };
    let server = Postgres::start().unwrap();
    let url = match disk.folder() {
        Some(folder) => database_on(&server, folder),
        None => server.create_database("shop").unwrap(),
    };
    let store = open(&url);
    store.migrate().await.unwrap();
    let mut client = connect(&url).await;
    client.batch_execute("CREATE TABLE orders (id text PRIMARY KEY)").await.unwrap();
    let target = MemoryPublisher::new();
    target.always(On::Any, Act::Refuse(PublishError::unreachable("not yet")));
    let relay = relay(open(&url), &target);
    for n in 0..40 {
        place(&mut client, &format!("{n:03}")).await.unwrap();
    }

    disk.fill().unwrap();
    if disk.folder().is_none() {
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

    disk.make_room().unwrap();
    if disk.folder().is_none() {
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
        "full_disk::a_server_that_ends_since_it_cannot_write_its_log_loses_nothing_that_committed";
    let Some(disk) = Disk::small(NAME, "256m", true).unwrap() else { return };
    let mut server = match disk.folder() {
        Some(_) => on_this_disk(),
        None => Postgres::start().unwrap(),
    };
    let url = server.create_database("shop").unwrap();
    let store = open(&url);
    store.migrate().await.unwrap();
    let mut client = connect(&url).await;
    client.batch_execute("CREATE TABLE orders (id text PRIMARY KEY)").await.unwrap();
    let target = MemoryPublisher::new();
    let relay = relay(open(&url), &target);
    disk.fill().unwrap();
    let mut acknowledged = BTreeSet::new();
    let refused = loop {
        let id = format!("{:05}", acknowledged.len());
        match place(&mut client, &id).await {
            Ok(()) => acknowledged.insert(id),
            Err(error) => break error,
        };
        if disk.folder().is_none() && acknowledged.len() == 100 {
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
    disk.make_room().unwrap();
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
