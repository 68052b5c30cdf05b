//! Sends by deadpool-postgres.

use std::time::Duration;

use deadpool_postgres::{Manager, Pool};
use sendoff_core::{Outbox, Wake};
use tokio_postgres::NoTls;

use crate::drivers::{bare, full, ids, rows_are_as_sent};
use crate::stage::{message, migrated};

fn pool(url: &str) -> Pool {
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(2).build().unwrap()
}

#[tokio::test]
async fn messages_sent_by_deadpool_arrive_as_they_are_one_or_many() {
    let (store, url) = migrated().await;
    let pool = pool(&url);
    let outbox = Outbox::new("test");
    let wake = Wake::new();
    let mut client = pool.get().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    outbox.send(&mut transaction, &full("1")).await.unwrap();
    outbox.send(&mut transaction, &bare("2")).await.unwrap();
    outbox.send_all(&mut transaction, &[full("3"), bare("4")]).await.unwrap();
    wake.commit(transaction).await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), wake.woken()).await.unwrap();
    rows_are_as_sent(&store).await;
}

#[tokio::test]
async fn a_rollback_a_savepoint_and_a_duplicate_of_deadpool_send_nothing() {
    let (store, url) = migrated().await;
    let pool = pool(&url);
    let outbox = Outbox::new("test");
    let mut client = pool.get().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    outbox.send(&mut transaction, &message("gone", "k")).await.unwrap();
    transaction.rollback().await.unwrap();

    let mut transaction = client.transaction().await.unwrap();
    outbox.send(&mut transaction, &message("kept", "k")).await.unwrap();
    let mut savepoint = transaction.savepoint("before").await.unwrap();
    outbox.send(&mut savepoint, &message("undone", "k")).await.unwrap();
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();

    let mut transaction = client.transaction().await.unwrap();
    outbox.send(&mut transaction, &message("with it", "k")).await.unwrap();
    let error = outbox.send(&mut transaction, &message("kept", "k")).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "23505");
    transaction.commit().await.unwrap();
    assert_eq!(ids(&store).await, ["kept"]);
}

#[tokio::test]
async fn a_step_on_deadpool_that_is_cancelled_sends_nothing_and_does_not_poison_the_pool() {
    let (store, url) = migrated().await;
    let pool = pool(&url);
    let outbox = Outbox::new("test");
    for micros in (0..3_000).step_by(100) {
        let step = async {
            let mut client = pool.get().await.unwrap();
            let mut transaction = client.transaction().await.unwrap();
            outbox.send(&mut transaction, &bare(&format!("lost {micros}"))).await.unwrap();
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(Duration::from_micros(micros), step).await;
    }
    let mut client = pool.get().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    outbox.send(&mut transaction, &bare("kept")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(ids(&store).await, ["kept"]);
}
