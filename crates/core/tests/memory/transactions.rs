//! Transactions that wait for each other, news, and what a debug print shows.

use std::future::Future;
use std::time::Duration;

use sendoff_core::memory::{MemoryStore, PlainRow};
use sendoff_core::outbox::Transaction;
use sendoff_core::store::{OutboxDesk, OutboxStore};
use sendoff_core::{ErrorKind, Message, Outbox};

fn message(id: &str) -> Message {
    Message::builder("shop", "orders").id(id).build().expect("a valid message")
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("it ends in time")
}

async fn ends_at_once(what: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::from_millis(20), what).await.is_ok()
}

#[tokio::test]
async fn two_transactions_that_wait_for_each_other_are_told_so() {
    let store = MemoryStore::new();
    let (mut one, mut other) = (store.begin(), store.begin());
    one.append(&[message("1")]).await.unwrap();
    other.append(&[message("2")]).await.unwrap();
    let waiting = tokio::spawn(async move {
        let result = one.append(&[message("2")]).await;
        (one, result)
    });
    // The first one waits for the second now, so the second may not wait for it.
    tokio::task::yield_now().await;
    let error = in_time(other.append(&[message("1")])).await.expect_err("they would never end");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("run the transaction again"), "{error}");
    other.rollback();
    let (one, result) = in_time(waiting).await.unwrap();
    result.unwrap();
    one.commit().await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 2);
}

#[tokio::test]
async fn a_write_that_was_cancelled_waits_for_nobody() {
    let store = MemoryStore::new();
    let (mut one, mut other) = (store.begin(), store.begin());
    one.append(&[message("1")]).await.unwrap();
    other.append(&[message("2")]).await.unwrap();
    assert!(!ends_at_once(async { one.append(&[message("2")]).await.unwrap() }).await);
    // No false deadlock: the second may wait for the first, which ends.
    let waiting = tokio::spawn(async move {
        other.append(&[message("1")]).await.unwrap();
        other.commit().await.unwrap();
    });
    tokio::task::yield_now().await;
    one.rollback();
    in_time(waiting).await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 2);
}

#[tokio::test]
async fn a_failed_write_leaves_the_rest_of_its_transaction() {
    let store = MemoryStore::new();
    let mut transaction = store.begin();
    transaction.append(&[message("1")]).await.unwrap();
    let error = transaction.append(&[message("2"), message("1")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Duplicate);
    transaction.commit().await.unwrap();
    assert!(store.find("2", None).await.unwrap().is_empty());
    assert_eq!(store.stats().await.unwrap().pending, 1);
}

#[tokio::test]
async fn an_unknown_savepoint_is_told() {
    let store = MemoryStore::new();
    let error = store.begin().rollback_to("nowhere").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn news_tell_each_handle_of_each_commit_once() {
    let store = MemoryStore::new();
    let other = store.another();
    let outbox = Outbox::new("shop");
    let heard =
        |of: MemoryStore| async move { ends_at_once(async { of.news().await.unwrap() }).await };
    assert!(!heard(store.clone()).await, "nothing was sent");
    let mut transaction = store.begin();
    outbox.send(&mut transaction, &message("1")).await.unwrap();
    assert!(!heard(store.clone()).await, "nothing was committed");
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.news().await }
    });
    tokio::task::yield_now().await;
    transaction.commit().await.unwrap();
    in_time(waiting).await.unwrap().unwrap();
    assert!(heard(store.clone()).await, "what came before the wait counts");
    assert!(!heard(store).await, "once");
    assert!(!heard(other).await, "once");
}

#[tokio::test]
async fn a_debug_print_shows_no_payload() {
    let store = MemoryStore::new();
    let row = PlainRow {
        id: "1".to_owned(),
        source: "shop".to_owned(),
        topic: "orders".to_owned(),
        headers: r#"{"a": "s3cr3t"}"#.to_owned(),
        body: "s3cr3t".into(),
        ..PlainRow::default()
    };
    let mut transaction = store.begin();
    let printed = format!("{row:?}");
    transaction.insert(row).await.unwrap();
    for printed in [printed, format!("{transaction:?}"), format!("{store:?}")] {
        assert!(!printed.contains("s3cr3t"), "{printed}");
    }
}
