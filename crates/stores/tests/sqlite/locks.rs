//! Locks: what waits, what is told as a conflict, and what goes on beside a writer or a reader.

use std::time::{Duration, Instant};

use rusqlite::{TransactionBehavior, ffi};
use sendoff_core::error::Retry;
use sendoff_core::store::{OutboxDesk, OutboxStore, Outcome, RelayId};
use sendoff_core::{ErrorKind, Outbox};
use sendoff_stores::sqlite::{SqliteOptions, kind_of};

use super::shop::{Shop, ids, message, verdict};

#[tokio::test]
async fn a_lock_that_is_not_let_go_in_time_is_a_conflict_to_be_tried_again() {
    let shop = Shop::with(SqliteOptions {
        busy_timeout: Duration::from_millis(50),
        ..SqliteOptions::default()
    })
    .await;
    let mut service = shop.connection();
    let transaction = service.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let begun = Instant::now();
    let error = shop.store.send_all(&[message("a")]).await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.retry(), Retry::Now);
    assert!(error.to_string().contains("write lock"), "{error}");
    // Reads are not touched by it.
    assert!(shop.rows().await.is_empty());
    drop(transaction);
    shop.send(&[message("a")]).await;
    assert_eq!(ids(&shop.rows().await), ["a"]);
}

#[tokio::test]
async fn a_short_transaction_of_another_is_waited_for() {
    let shop = Shop::open().await;
    let mut service = shop.connection();
    let transaction = service.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    Outbox::new("shop").send_blocking(&transaction, &message("first")).unwrap();
    let messages = [message("second")];
    let mut send = std::pin::pin!(shop.store.send_all(&messages));
    let early = tokio::time::timeout(Duration::from_millis(30), send.as_mut()).await;
    assert!(early.is_err(), "the lock is held");
    transaction.commit().unwrap();
    send.await.unwrap();
    assert_eq!(ids(&shop.rows().await), ["first", "second"]);
}

#[tokio::test]
async fn a_transaction_that_read_before_somebody_wrote_is_told_to_run_again() {
    let shop = Shop::open().await;
    let mut service = shop.connection();
    let transaction = service.transaction().unwrap();
    let orders: i64 =
        transaction.query_row("SELECT count(*) FROM sendoff_outbox", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 0);
    shop.send(&[message("other")]).await;
    let error = Outbox::new("shop").send_blocking(&transaction, &message("late")).unwrap_err();
    assert_eq!(error.sqlite_error().unwrap().extended_code, ffi::SQLITE_BUSY_SNAPSHOT);
    assert_eq!(kind_of(&error), ErrorKind::Conflict);
    assert_eq!(kind_of(&error).retry(), Retry::Now);
}

#[tokio::test]
async fn a_reader_that_stays_open_stops_neither_sends_nor_looks_nor_settlements() {
    let shop = Shop::open().await;
    let mut reader = shop.connection();
    let snapshot = reader.transaction().unwrap();
    let seen: i64 =
        snapshot.query_row("SELECT count(*) FROM sendoff_outbox", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 0);
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    for n in 0..50 {
        shop.send(&[message(&n.to_string())]).await;
        let rows = shop.rows().await;
        assert_eq!(rows.len(), 1);
        let published = Outcome::Published { releases: false };
        shop.settle(&relay, epoch, &rows[0], published).await;
    }
    assert_eq!(shop.store.stats().await.unwrap().published, 50);
    drop(snapshot);
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_the_job_whole_or_not_begun() {
    let shop = Shop::open().await;
    let relay = RelayId::new();
    let epoch = shop.take(&relay).await;
    for n in 0..100_u64 {
        let (one, other) = (message(&format!("{n}-a")), message(&format!("{n}-b")));
        shop.send(&[one, other]).await;
        let rows = shop.rows().await;
        let verdicts: Vec<_> = rows
            .iter()
            .map(|row| verdict(epoch, row, Outcome::Published { releases: false }))
            .collect();
        {
            let mut settle = std::pin::pin!(shop.store.settle(&relay, &verdicts));
            // Polled once at least, then dropped at a point that differs from round to round.
            let _ = tokio::time::timeout(Duration::from_micros(n * 10), settle.as_mut()).await;
        }
        // What this one reads comes after the settlement, if there was one.
        let settled = shop.store.settle(&relay, &[]).await.unwrap();
        assert_eq!(settled.published, 0);
        let left = shop.rows().await.len();
        assert!(left == 0 || left == rows.len(), "{left} of {}", rows.len());
        let published = shop.store.stats().await.unwrap().published;
        assert_eq!(published, 2 * (n + 1) - u64::try_from(left).unwrap());
    }
}

#[tokio::test]
async fn the_log_is_cut_when_the_store_is_dropped() {
    let shop = Shop::open().await;
    let body = vec![7; 1 << 20];
    let outbox = Outbox::new("shop");
    shop.send(&[outbox.message("t").body(body).build().unwrap()]).await;
    let log = shop.path.with_extension("db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 1 << 20);
    // Somebody else keeps the file open, so SQLite alone would leave the log.
    let service = shop.connection();
    let rows: i64 =
        service.query_row("SELECT count(*) FROM sendoff_outbox", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
    drop(shop.store);
    super::shop::wait_until("the log is cut", || std::fs::metadata(&log).unwrap().len() == 0);
    drop(service);
}
