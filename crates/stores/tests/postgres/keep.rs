//! What is kept of published messages: partitions that come and go, and who may send again.

use std::time::Duration;

use sendoff_core::store::{KeptDesk, KeptLook, OutboxDesk, OutboxStore, Retention};
use sendoff_core::{ErrorKind, Message};
use sendoff_stores::postgres::PostgresStore;
use tokio_postgres::Client;

use crate::stage::{Owner, connect, message, migrated, open, published};

const HOUR: Duration = Duration::from_secs(3_600);

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// Sends messages with these ids and publishes all that is there.
async fn publish(store: &PostgresStore, owner: &Owner, ids: &[&str]) {
    let messages: Vec<Message> = ids.iter().map(|id| message(id, "k")).collect();
    store.send_all(&messages).await.unwrap();
    let rows = owner.rows(store).await;
    let verdicts: Vec<_> = rows.iter().map(|row| owner.verdict(row, published())).collect();
    let settled = store.settle(&owner.id, &verdicts).await.unwrap();
    assert_eq!(settled.published, rows.len() as u64);
}

async fn kept(store: &PostgresStore) -> Vec<String> {
    let look = KeptLook { rows_max: 100, ..KeptLook::default() };
    store.kept(&look).await.unwrap().into_iter().map(|kept| kept.id).collect()
}

#[tokio::test]
async fn partitions_are_made_ahead_bounded_in_number_and_dropped_whole() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let owner = Owner::of(&store).await;
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'sendoff.kept'::regclass";
    assert_eq!(number(&client, partitions).await, 1, "before anybody asks, only the rest");
    store.set_retention(Retention::KeepFor(7 * 24 * HOUR)).await.unwrap();
    let made = number(&client, partitions).await;
    assert!((3..=5).contains(&made), "{made}");
    publish(&store, &owner, &["1", "2"]).await;
    assert_eq!(number(&client, "SELECT count(*) FROM sendoff.kept_rest").await, 0);
    let ahead = "SELECT (extract(epoch FROM max(to_at) - now()) / 3600)::bigint \
                   FROM sendoff.kept_partition";
    assert!(number(&client, ahead).await >= 22, "two spans of 11 hours");

    // A month passes: what is behind goes, and the next ones are there.
    client
        .batch_execute(
            "UPDATE sendoff.kept_partition SET from_at = from_at - interval '30 days', \
                                               to_at = to_at - interval '30 days'",
        )
        .await
        .unwrap();
    store.sweep(1_000).await.unwrap();
    assert_eq!(kept(&store).await, [""; 0], "dropped with their partition");
    let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'kept\\_2%' AND relkind = 'r'";
    assert_eq!(number(&client, tables).await, number(&client, partitions).await - 1);
    publish(&store, &owner, &["3"]).await;
    assert_eq!(kept(&store).await, ["3"]);
    assert_eq!(number(&client, "SELECT count(*) FROM sendoff.kept_rest").await, 0);

    // However long is kept, there are some twenty.
    store.set_retention(Retention::KeepFor(3_000 * 24 * HOUR)).await.unwrap();
    let made = number(&client, partitions).await;
    assert!(made <= 24, "{made}");
}

#[tokio::test]
async fn a_missing_partition_loses_and_blocks_no_settlement() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let owner = Owner::of(&store).await;
    // Set with SQL by somebody who makes no partition, as by an operator.
    client.batch_execute("UPDATE sendoff.retention SET keeps = true").await.unwrap();
    publish(&store, &owner, &["1"]).await;
    let rest = "SELECT count(*) FROM sendoff.kept_rest";
    assert_eq!(number(&client, rest).await, 0, "the first settlement made one");
    client
        .batch_execute(
            "DO $$ DECLARE p record; BEGIN \
               FOR p IN SELECT name FROM sendoff.kept_partition LOOP \
                 EXECUTE format('DROP TABLE sendoff.%I', p.name); \
               END LOOP; \
             END $$; \
             DELETE FROM sendoff.kept_partition",
        )
        .await
        .unwrap();
    publish(&store, &owner, &["2"]).await;
    assert_eq!(kept(&store).await, ["2"]);
    assert_eq!(number(&client, rest).await, 1, "it went to the rest");
    store.sweep(1_000).await.unwrap();
    publish(&store, &owner, &["3"]).await;
    assert_eq!(kept(&store).await, ["2", "3"]);
    assert_eq!(number(&client, rest).await, 1, "the next one has its partition again");
    client
        .batch_execute("UPDATE sendoff.kept_rest SET published_at = now() - interval '8 days'")
        .await
        .unwrap();
    store.sweep(1_000).await.unwrap();
    assert_eq!(kept(&store).await, ["3"], "the rest is emptied as a whole");
}

#[tokio::test]
async fn a_reader_of_what_is_kept_delays_a_settlement_by_a_moment_only() {
    let (store, url) = migrated().await;
    let owner = Owner::of(&store).await;
    store.set_retention(Retention::KeepFor(HOUR)).await.unwrap();
    publish(&store, &owner, &["1"]).await;
    let mut reader = connect(&url).await;
    let reading = reader.transaction().await.unwrap();
    reading.query("SELECT count(*) FROM sendoff.kept", &[]).await.unwrap();
    let client = connect(&url).await;
    client
        .batch_execute("UPDATE sendoff.kept_partition SET to_at = to_at - interval '9 days'")
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    store.sweep(1_000).await.unwrap();
    publish(&store, &owner, &["2"]).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(kept(&store).await.len(), 2, "nothing was dropped while somebody reads");
    reading.rollback().await.unwrap();
    store.sweep(1_000).await.unwrap();
    assert!(!kept(&store).await.contains(&"1".to_owned()), "now it is");
}

#[tokio::test]
async fn a_role_that_only_sends_can_neither_send_again_nor_keep() {
    let (store, url) = migrated().await;
    let owner = Owner::of(&store).await;
    store.set_retention(Retention::KeepFor(HOUR)).await.unwrap();
    publish(&store, &owner, &["1"]).await;
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let role = format!("sender_{name}");
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA sendoff TO {role}; \
             GRANT INSERT ON sendoff.outbox TO {role}"
        ))
        .await
        .unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let host = server.rsplit_once('@').unwrap().1;
    let sender_url = format!("postgres://{role}@{host}/{name}");
    let sender = connect(&sender_url).await;
    for refused in [
        "SELECT sendoff.resend(ARRAY[now()], ARRAY[1])",
        "SELECT sendoff.keep_turn()",
        "SELECT 1 FROM sendoff.kept",
        "UPDATE sendoff.retention SET keeps = false",
        "INSERT INTO sendoff.resent VALUES (1)",
    ] {
        let error = sender.batch_execute(refused).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{refused}: {error}");
    }
    let again = "INSERT INTO sendoff.outbox (id, source, topic) VALUES ('1', 'test', 't')";
    let error = sender.batch_execute(again).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "23505", "a pair is still sent one time");
    let error = open(&sender_url).retention().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    drop(sender);
    client.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_relays_role_of_before_goes_on_after_the_migration() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let role = format!("relay_{name}");
    // Granted under version 2: what version 3 made is not in it.
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA sendoff TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON sendoff.outbox, sendoff.message_key, \
                sendoff.lane, sendoff.relay, sendoff.tally, sendoff.total TO {role}; \
             GRANT SELECT ON sendoff.schema_version, sendoff.outbox_seq_seq TO {role}; \
             DELETE FROM sendoff.schema_version WHERE version = 3; \
             DROP FUNCTION sendoff.keep_turn(), sendoff.resend(timestamptz[], bigint[]); \
             DROP TABLE sendoff.kept, sendoff.retention, sendoff.resent, sendoff.kept_partition"
        ))
        .await
        .unwrap();
    store.migrate().await.unwrap();
    store.set_retention(Retention::KeepFor(HOUR)).await.unwrap();
    let (server, _) = url.rsplit_once('/').unwrap();
    let host = server.rsplit_once('@').unwrap().1;
    let relay = open(&format!("postgres://{role}@{host}/{name}"));
    let owner = Owner::of(&relay).await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let row = owner.rows(&relay).await.pop().unwrap();
    let settled = relay.settle(&owner.id, &[owner.verdict(&row, published())]).await.unwrap();
    assert_eq!(settled.published, 1);
    assert_eq!(kept(&store).await, ["1"]);
    drop(relay);
    client.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await.unwrap();
}
