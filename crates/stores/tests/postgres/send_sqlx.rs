//! Sends by sqlx.

use std::time::Duration;

use sendoff_core::store::OutboxDesk;
use sendoff_core::{Outbox, Wake};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Acquire, PgPool};

use crate::drivers::{bare, full, ids, rows_are_as_sent};
use crate::stage::{message, migrated};

async fn pool(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(2).connect(url).await.unwrap()
}

#[tokio::test]
async fn messages_sent_by_sqlx_arrive_as_they_are_one_or_many() {
    let (store, url) = migrated().await;
    let pool = pool(&url).await;
    let outbox = Outbox::new("test");
    let wake = Wake::new();
    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &full("1")).await.unwrap();
    outbox.send(&mut transaction, &bare("2")).await.unwrap();
    outbox.send_all(&mut transaction, &[full("3"), bare("4")]).await.unwrap();
    outbox.send_all(&mut transaction, &[]).await.unwrap();
    wake.commit(transaction).await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), wake.woken()).await.unwrap();
    rows_are_as_sent(&store).await;
}

#[tokio::test]
async fn a_rollback_a_savepoint_and_a_duplicate_of_sqlx_send_nothing() {
    let (store, url) = migrated().await;
    let pool = pool(&url).await;
    let outbox = Outbox::new("test");
    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &message("gone", "k")).await.unwrap();
    transaction.rollback().await.unwrap();

    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &message("kept", "k")).await.unwrap();
    let mut savepoint = transaction.begin().await.unwrap();
    outbox.send(&mut savepoint, &message("undone", "k")).await.unwrap();
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();

    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &message("with it", "k")).await.unwrap();
    let error = outbox.send(&mut transaction, &message("kept", "k")).await.unwrap_err();
    assert!(error.as_database_error().unwrap().is_unique_violation());
    transaction.commit().await.unwrap();

    assert_eq!(ids(&store).await, ["kept"]);
    assert_eq!(store.stats().await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_begin_of_sqlx_that_is_cancelled_sends_nothing_and_takes_nothing_along() {
    let (store, url) = migrated().await;
    let pool = pool(&url).await;
    let outbox = Outbox::new("test");
    // Dropped at any point: while beginning, while sending, before the commit.
    for micros in (0..2_000).step_by(100) {
        let step = async {
            let mut transaction = pool.begin().await.unwrap();
            outbox.send(&mut transaction, &bare(&format!("lost {micros}"))).await.unwrap();
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(Duration::from_micros(micros), step).await;
    }
    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &bare("kept")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(ids(&store).await, ["kept"]);
}
