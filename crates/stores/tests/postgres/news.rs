//! Wake-ups: LISTEN, and the waker that notifies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sendoff_conformance::servers::Proxy;
use sendoff_core::Outbox;
use sendoff_core::store::{OutboxDesk, OutboxStore};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore, PostgresWaker};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::stage::{PATIENCE, connect, eventually, message, migrated, open, through};

/// Takes the news that every new connection tells.
async fn settled(store: &PostgresStore) {
    timeout(PATIENCE, store.news()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_another_process_is_news() {
    let (store, url) = migrated().await;
    settled(&store).await;
    let waker = PostgresWaker::new(&url, PostgresOptions::default()).unwrap();
    let mut client = connect(&url).await;
    for n in 0..20 {
        let mut transaction = client.transaction().await.unwrap();
        let outbox = Outbox::new("test");
        outbox.send(&mut transaction, &message(&n.to_string(), "k")).await.unwrap();
        waker.commit(transaction).await.unwrap();
        timeout(PATIENCE, store.news()).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_desk_sent_is_news_after_its_commit() {
    let (store, url) = migrated().await;
    settled(&store).await;
    let desk = open(&url);
    for n in 0..20 {
        desk.send_all(&[message(&n.to_string(), "k")]).await.unwrap();
        timeout(PATIENCE, store.news()).await.unwrap().unwrap();
        assert_eq!(store.stats().await.unwrap().pending, n + 1);
    }
    assert!(desk.send_all(&[message("0", "k")]).await.is_err(), "a duplicate");
    let none = timeout(Duration::from_millis(200), store.news()).await;
    assert!(none.is_err(), "what was not sent is no news");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_that_come_while_nobody_waits_are_not_lost() {
    let (store, url) = migrated().await;
    settled(&store).await;
    let client = connect(&url).await;
    client.batch_execute("NOTIFY sendoff_outbox").await.unwrap();
    // The relay drops its wait at every poll and begins another.
    eventually("the news", || async { timeout(Duration::from_millis(1), store.news()).await.ok() })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_lost_its_connection_tells_once_and_listens_again() {
    let (store, url) = migrated().await;
    settled(&store).await;
    let client = connect(&url).await;
    let ended: i64 = client
        .query_one(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
              WHERE query LIKE 'LISTEN%' AND datname = current_database()",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert_eq!(ended, 1, "it listens on one connection");
    // What was sent in the gap is found by the look that follows this.
    timeout(PATIENCE, store.news()).await.unwrap().unwrap();
    let waker = PostgresWaker::new(&url, PostgresOptions::default()).unwrap();
    waker.wake();
    timeout(PATIENCE, store.news()).await.unwrap().unwrap();
    let quiet = timeout(Duration::from_millis(200), store.news()).await;
    assert!(quiet.is_err(), "and then it is quiet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_on_a_dead_line_notices_and_listens_on_a_new_one() {
    let (_, url) = migrated().await;
    let config: tokio_postgres::Config = url.parse().unwrap();
    let proxy = Proxy::to_port(config.get_ports()[0]).await.unwrap();
    let options = PostgresOptions {
        heartbeat: Duration::from_millis(100),
        answer_timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(500),
        ..PostgresOptions::default()
    };
    let store = PostgresStore::new(&through(&url, proxy.port()), options).unwrap();
    settled(&store).await;
    proxy.stall();
    let client = connect(&url).await;
    // The server sees the old connection until it is closed by the one that notices.
    let listens = "SELECT count(*) FROM pg_stat_activity \
                    WHERE query LIKE 'LISTEN%' OR query LIKE 'SELECT 1%' \
                      AND datname = current_database() AND pid <> pg_backend_pid()";
    let before: i64 = client.query_one(listens, &[]).await.unwrap().get(0);
    assert!(before >= 1);
    tokio::time::sleep(Duration::from_millis(600)).await;
    proxy.resume();
    // News come since it connected anew, though nothing was notified.
    timeout(PATIENCE, store.news()).await.unwrap().unwrap();
    eventually("a notification over the new line", || async {
        client.batch_execute("NOTIFY sendoff_outbox").await.unwrap();
        timeout(Duration::from_millis(100), store.news()).await.ok()
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_wake_ups_are_a_burst_and_then_one_notification_a_millisecond() {
    let (_, url) = migrated().await;
    let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                assert_eq!(notification.payload(), "");
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    client.batch_execute("LISTEN sendoff_outbox").await.unwrap();
    let waker = PostgresWaker::new(&url, PostgresOptions::default()).unwrap();
    waker.wake();
    eventually("the first", || async { (heard.load(Ordering::SeqCst) > 0).then_some(()) }).await;
    let begun = Instant::now();
    let mut called = 0_u64;
    while begun.elapsed() < Duration::from_millis(200) {
        waker.wake();
        called += 1;
        if called.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
    let most = u64::try_from(begun.elapsed().as_millis()).unwrap() + 2 + 8;
    // One more, so that the last one is known to be through.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let heard = heard.load(Ordering::SeqCst) - 1;
    assert!(heard >= 1 && heard <= most, "{heard} of {called} calls, at most {most}");
    assert!(called > 2 * most, "the calls did not wait: {called}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waker_without_a_server_takes_wake_ups_all_the_same() {
    // Port 1 refuses.
    let url = "postgres://nobody@127.0.0.1:1/none";
    let waker = PostgresWaker::new(url, PostgresOptions::default()).unwrap();
    let begun = Instant::now();
    for _ in 0..10_000 {
        waker.wake();
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
}
