//! Sends by diesel-async.

use std::time::Duration;

use diesel::result::{DatabaseErrorKind, Error};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncPgConnection, SimpleAsyncConnection,
    TransactionManager,
};
use sendoff_core::{Outbox, Wake};
use sendoff_stores::postgres::send::InTransaction;

use crate::drivers::{bare, full, ids, rows_are_as_sent};
use crate::stage::{message, migrated};

async fn connect(url: &str) -> AsyncPgConnection {
    AsyncPgConnection::establish(url).await.unwrap()
}

#[tokio::test]
async fn messages_sent_by_diesel_arrive_as_they_are_one_or_many() {
    let (store, url) = migrated().await;
    let mut connection = connect(&url).await;
    let outbox = Outbox::new("test");
    connection
        .transaction(async |connection| {
            let mut transaction = InTransaction::of(connection)?;
            outbox.send(&mut transaction, &full("1")).await?;
            outbox.send(&mut transaction, &bare("2")).await?;
            outbox.send_all(&mut transaction, &[full("3"), bare("4")]).await
        })
        .await
        .unwrap();
    rows_are_as_sent(&store).await;
}

#[tokio::test]
async fn diesel_outside_a_transaction_is_refused_and_sends_nothing() {
    let (store, url) = migrated().await;
    let mut connection = connect(&url).await;
    assert!(matches!(InTransaction::of(&mut connection), Err(Error::NotInTransaction)));
    let failed: Result<(), Error> =
        connection.transaction(async |_| Err(Error::RollbackTransaction)).await;
    assert!(failed.is_err());
    assert!(matches!(InTransaction::of(&mut connection), Err(Error::NotInTransaction)));
    assert!(ids(&store).await.is_empty());
}

#[tokio::test]
async fn a_rollback_a_savepoint_and_a_duplicate_of_diesel_send_nothing() {
    let (store, url) = migrated().await;
    let mut connection = connect(&url).await;
    let outbox = Outbox::new("test");
    let gone: Result<(), Error> = connection
        .transaction(async |connection| {
            outbox.send(&mut InTransaction::of(connection)?, &message("gone", "k")).await?;
            Err(Error::RollbackTransaction)
        })
        .await;
    assert_eq!(gone, Err(Error::RollbackTransaction));

    connection
        .transaction(async |connection| {
            outbox.send(&mut InTransaction::of(connection)?, &message("kept", "k")).await?;
            let undone: Result<(), Error> = connection
                .transaction(async |savepoint| {
                    outbox
                        .send(&mut InTransaction::of(savepoint)?, &message("undone", "k"))
                        .await?;
                    Err(Error::RollbackTransaction)
                })
                .await;
            assert_eq!(undone, Err(Error::RollbackTransaction));
            Ok::<(), Error>(())
        })
        .await
        .unwrap();

    let twice: Result<(), Error> = connection
        .transaction(async |connection| {
            let mut transaction = InTransaction::of(connection)?;
            outbox.send(&mut transaction, &message("with it", "k")).await?;
            outbox.send(&mut transaction, &message("kept", "k")).await
        })
        .await;
    assert!(
        matches!(twice, Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _))),
        "{twice:?}"
    );
    assert_eq!(ids(&store).await, ["kept"]);
}

#[tokio::test]
async fn a_transaction_of_diesel_that_was_begun_by_hand_commits_and_wakes() {
    let (store, url) = migrated().await;
    let mut connection = connect(&url).await;
    AnsiTransactionManager::begin_transaction(&mut connection).await.unwrap();
    let mut transaction = InTransaction::of(&mut connection).unwrap();
    Outbox::new("test").send(&mut transaction, &bare("1")).await.unwrap();
    let wake = Wake::new();
    wake.commit(transaction).await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), wake.woken()).await.unwrap();
    assert_eq!(ids(&store).await, ["1"]);
}

#[tokio::test]
async fn a_connection_of_diesel_that_was_cancelled_in_a_transaction_sends_nothing_more() {
    let (store, url) = migrated().await;
    let mut connection = connect(&url).await;
    let outbox = Outbox::new("test");
    let step = connection.transaction(async |connection| {
        outbox.send(&mut InTransaction::of(connection)?, &bare("lost")).await?;
        connection.batch_execute("SELECT pg_sleep(5)").await?;
        Ok::<(), Error>(())
    });
    assert!(tokio::time::timeout(Duration::from_millis(300), step).await.is_err());
    // The transaction is still open on the server: the connection must not be used again, and a pool
    // of diesel's does not. Closing it rolls back.
    drop(connection);
    let mut connection = connect(&url).await;
    connection
        .transaction(async |connection| {
            outbox.send(&mut InTransaction::of(connection)?, &bare("kept")).await
        })
        .await
        .unwrap();
    assert_eq!(ids(&store).await, ["kept"]);
}
