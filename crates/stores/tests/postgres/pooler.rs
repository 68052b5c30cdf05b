//! Everything through a pooler in transaction mode, which gives each transaction another of the server's
//! connections. The suites run through it too.

use std::time::Duration;

use sendoff_conformance::servers::pooled;
use sendoff_core::ErrorKind;
use sendoff_core::memory::MemoryPublisher;
use sendoff_core::store::{OutboxDesk, OutboxStore};
use sendoff_stores::postgres::{Pooler, PostgresOptions, PostgresStore, SchemaName};

use crate::running::{drained, relay};
use crate::senders::send_without_names;
use crate::stage::{connect, database, eventually, message, open};

async fn pooled_database() -> (String, String) {
    let direct = database().await;
    let url = direct.clone();
    let through = tokio::task::spawn_blocking(move || pooled(&url)).await.unwrap().unwrap();
    (direct, through)
}

fn through_pooler(url: &str) -> PostgresStore {
    let options = PostgresOptions { pooler: Pooler::Transaction, ..PostgresOptions::default() };
    PostgresStore::new(url, options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_send_and_two_relays_publish_through_a_pooler() {
    let (direct, url) = pooled_database().await;
    let store = through_pooler(&url);
    store.migrate().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        connect(&direct).await.batch_execute("DELETE FROM sendoff.message_key").await.unwrap();
        ids = send_without_names(&url, &SchemaName::default()).await;
    }
    let target = MemoryPublisher::new();
    let relays = [relay(through_pooler(&url), &target), relay(through_pooler(&url), &target)];
    let all = 3 * u64::try_from(ids.len()).unwrap();
    assert_eq!(drained(&store).await.published, all);
    // What comes while they run is found by polling.
    store.send_all(&[message("late", "k")]).await.unwrap();
    eventually("the late one", || async {
        target.ids().iter().any(|id| id == "late").then_some(())
    })
    .await;
    for relay in relays {
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_set_or_prepared_stays_on_the_servers_connections() {
    let (direct, url) = pooled_database().await;
    let store = through_pooler(&url);
    store.migrate().await.unwrap();
    let target = MemoryPublisher::new();
    let relay = relay(through_pooler(&url), &target);
    for n in 0..20 {
        store.send_all(&[message(&n.to_string(), "k")]).await.unwrap();
    }
    drained(&store).await;
    relay.stop().await;
    // The next client of the pooler meets the connections that were used.
    let usual = connect(&direct).await;
    let ask = "SELECT current_setting('search_path'), current_setting('enable_seqscan'), \
               current_setting('statement_timeout'), current_setting('plan_cache_mode'), \
               (SELECT count(*) FROM pg_prepared_statements)::text, \
               (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
                   AND pid = pg_backend_pid())::text, \
               (SELECT count(*) FROM pg_listening_channels())::text";
    let settings = |client: tokio_postgres::Client| async move {
        let answer = client.simple_query(ask).await.unwrap();
        let row = answer.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        (0..7).map(|n| row.unwrap().get(n).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = settings(usual).await;
    for _ in 0..20 {
        assert_eq!(settings(connect(&url).await).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_not_told_of_the_pooler_fails_with_what_to_set() {
    let (direct, url) = pooled_database().await;
    open(&direct).migrate().await.unwrap();
    // So many connections of the server are used in turn.
    let mut clients = Vec::new();
    for _ in 0..5 {
        let client = connect(&url).await;
        client.batch_execute("BEGIN").await.unwrap();
        clients.push(client);
    }
    for client in clients {
        client.batch_execute("COMMIT").await.unwrap();
    }
    let store = open(&url);
    let advice = eventually("a statement is not known again", || async {
        store.stats().await.err().map(|error| error.to_string())
    })
    .await;
    assert!(advice.contains("postgres.pooler"), "{advice}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_news_come_through_a_pooler_and_calls_still_end_in_time() {
    let (direct, url) = pooled_database().await;
    open(&direct).migrate().await.unwrap();
    let store = through_pooler(&url);
    let news = tokio::time::timeout(Duration::from_millis(200), store.news()).await;
    assert!(news.is_err(), "it listens");

    let options = PostgresOptions {
        pooler: Pooler::Transaction,
        desk_timeout: Duration::from_millis(500),
        ..PostgresOptions::default()
    };
    let store = PostgresStore::new(&url, options).unwrap();
    store.stats().await.unwrap();
    let mut client = connect(&direct).await;
    let blocker = client.transaction().await.unwrap();
    blocker.batch_execute("LOCK TABLE sendoff.outbox").await.unwrap();
    let error = store.stats().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Conflict), "{error}");
    blocker.rollback().await.unwrap();
    store.stats().await.unwrap();
}
