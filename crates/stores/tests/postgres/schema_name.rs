//! Outboxes in schemas of their own: side by side, sharing nothing.

use std::time::Duration;

use sendoff_core::barrier::{Barriers, Outcome};
use sendoff_core::memory::MemoryPublisher;
use sendoff_core::store::{OutboxDesk, OutboxStore, SchemaState};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore, PostgresWaker, SchemaName};

use crate::running::{drained, relay};
use crate::senders::send_by_every_driver;
use crate::stage::{Owner, connect, database, message, open};

const AWKWARD: &str = "Übel \"x\"";

fn options(schema: &str) -> PostgresOptions {
    PostgresOptions { schema: SchemaName::new(schema).unwrap(), ..PostgresOptions::default() }
}

fn in_schema(url: &str, schema: &str) -> PostgresStore {
    PostgresStore::new(url, options(schema)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_makes_its_own_schema_and_touches_no_other() {
    let url = database().await;
    let store = in_schema(&url, AWKWARD);
    assert_eq!(store.migrate().await.unwrap().state, SchemaState::Current);
    let client = connect(&url).await;
    let outside: Vec<String> = client
        .query(
            "SELECT n.nspname || ': ' || c.relname FROM pg_class c JOIN pg_namespace n \
                 ON n.oid = c.relnamespace WHERE c.oid >= 16384 AND n.nspname NOT LIKE 'pg_toast%' \
                AND n.nspname <> 'Übel \"x\"' \
             UNION ALL SELECT n.nspname || '(): ' || p.proname FROM pg_proc p JOIN pg_namespace n \
                 ON n.oid = p.pronamespace WHERE p.oid >= 16384 AND n.nspname <> 'Übel \"x\"' \
             UNION ALL SELECT nspname FROM pg_namespace WHERE nspname = 'sendoff'",
            &[],
        )
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
    // Nothing that was written for the usual schema is left in a body, but in values.
    let left: Vec<String> = client
        .query(
            "SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
              WHERE n.nspname = 'Übel \"x\"' AND p.prosrc ~ '(^|[^$''\"\\w-])sendoff\\.'",
            &[],
        )
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    // Its version is checked as any other's, and it has the same checksums as any other.
    assert_eq!(open(&url).schema().await.unwrap().version, 0);
    open(&url).migrate().await.unwrap();
    let different: i64 = client
        .query_one(
            "SELECT count(*) FROM sendoff.schema_version a \
               FULL JOIN \"Übel \"\"x\"\"\".schema_version b USING (version, checksum) \
              WHERE a.applied_at IS NULL OR b.applied_at IS NULL",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert_eq!(different, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_outboxes_of_one_database_have_their_own_lanes_ids_and_barriers() {
    let url = database().await;
    let names = ["sendoff", AWKWARD, "shop.outbox"];
    for name in names {
        let store = in_schema(&url, name);
        store.migrate().await.unwrap();
        store.send_all(&[message("1", name)]).await.unwrap();
    }
    for name in names {
        let store = in_schema(&url, name);
        let owner = Owner::of(&store).await;
        assert_eq!(owner.lanes.len(), 64, "of {name}, while the others have theirs");
        let rows = owner.rows(&store).await;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].key.as_deref(), Some(name));

        let schema = SchemaName::new(name).unwrap();
        let barriers = Barriers::new();
        let mut client = connect(&url).await;
        let mut transaction = schema.on(client.transaction().await.unwrap());
        let plan = barriers.plan("batch").unwrap().members([name]).build().unwrap();
        barriers.create(&mut transaction, &plan).await.unwrap();
        let acked = barriers.ack(&mut transaction, "batch", name, Outcome::ok()).await.unwrap();
        assert!(acked.complete);
        transaction.into_inner().commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_driver_sends_into_the_schema_that_is_named_and_a_relay_of_it_publishes() {
    let url = database().await;
    let store = in_schema(&url, AWKWARD);
    store.migrate().await.unwrap();
    open(&url).migrate().await.unwrap();
    let ids = send_by_every_driver(&url, &SchemaName::new(AWKWARD).unwrap()).await;
    assert_eq!(open(&url).stats().await.unwrap().pending, 0, "nothing came into another schema");
    let target = MemoryPublisher::new();
    let relay = relay(in_schema(&url, AWKWARD), &target);
    assert_eq!(drained(&store).await.published, u64::try_from(ids.len()).unwrap());
    relay.stop().await;
    let mut arrived = target.ids();
    arrived.sort();
    assert_eq!(arrived, ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_of_one_schema_wakes_no_relay_of_another() {
    let url = database().await;
    let (one, other) = (in_schema(&url, AWKWARD), in_schema(&url, "other"));
    one.migrate().await.unwrap();
    other.migrate().await.unwrap();
    // The first news is that it listens.
    for store in [&one, &other] {
        tokio::time::timeout(Duration::from_secs(30), store.news()).await.unwrap().unwrap();
    }
    let waker = PostgresWaker::new(&url, options(AWKWARD)).unwrap();
    waker.wake();
    tokio::time::timeout(Duration::from_secs(30), one.news()).await.unwrap().unwrap();
    let heard = tokio::time::timeout(Duration::from_millis(300), other.news()).await;
    assert!(heard.is_err(), "the other one heard it");
}
