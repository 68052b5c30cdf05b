//! Sends by SeaORM.

use std::time::Duration;

use sea_orm::{ConnectOptions, Database, DatabaseConnection, SqlErr, TransactionTrait};
use sendoff_core::{Outbox, Wake};

use crate::drivers::{bare, full, ids, rows_are_as_sent};
use crate::stage::{message, migrated};

async fn connect(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(2).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

#[tokio::test]
async fn messages_sent_by_sea_orm_arrive_as_they_are_one_or_many() {
    let (store, url) = migrated().await;
    let database = connect(&url).await;
    let outbox = Outbox::new("test");
    let wake = Wake::new();
    let mut transaction = database.begin().await.unwrap();
    outbox.send(&mut transaction, &full("1")).await.unwrap();
    outbox.send(&mut transaction, &bare("2")).await.unwrap();
    outbox.send_all(&mut transaction, &[full("3"), bare("4")]).await.unwrap();
    wake.commit(transaction).await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), wake.woken()).await.unwrap();
    rows_are_as_sent(&store).await;
}

#[tokio::test]
async fn a_rollback_a_savepoint_and_a_duplicate_of_sea_orm_send_nothing() {
    let (store, url) = migrated().await;
    let database = connect(&url).await;
    let outbox = Outbox::new("test");
    let mut transaction = database.begin().await.unwrap();
    outbox.send(&mut transaction, &message("gone", "k")).await.unwrap();
    transaction.rollback().await.unwrap();

    let mut transaction = database.begin().await.unwrap();
    outbox.send(&mut transaction, &message("kept", "k")).await.unwrap();
    let mut savepoint = transaction.begin().await.unwrap();
    outbox.send(&mut savepoint, &message("undone", "k")).await.unwrap();
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();

    let mut transaction = database.begin().await.unwrap();
    outbox.send(&mut transaction, &message("with it", "k")).await.unwrap();
    let error = outbox.send(&mut transaction, &message("kept", "k")).await.unwrap_err();
    assert!(matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))), "{error}");
    transaction.commit().await.unwrap();
    assert_eq!(ids(&store).await, ["kept"]);
}

#[tokio::test]
async fn a_step_on_sea_orm_that_is_cancelled_sends_nothing_and_does_not_poison_the_pool() {
    let (store, url) = migrated().await;
    let database = connect(&url).await;
    let outbox = Outbox::new("test");
    for micros in (0..3_000).step_by(100) {
        let step = async {
            let mut transaction = database.begin().await.unwrap();
            outbox.send(&mut transaction, &bare(&format!("lost {micros}"))).await.unwrap();
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(Duration::from_micros(micros), step).await;
    }
    let mut transaction = database.begin().await.unwrap();
    outbox.send(&mut transaction, &bare("kept")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(ids(&store).await, ["kept"]);
}
