//! One send by each driver, in a transaction of its own: for what has to hold of all of them alike.

use diesel_async::{AsyncConnection, AsyncPgConnection};
use sea_orm::{ConnectOptions, Database, TransactionTrait};
use sendoff_core::outbox::Transaction as _;
use sendoff_core::{Message, Outbox};
use sendoff_stores::postgres::SchemaName;
use sendoff_stores::postgres::send::InTransaction;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::stage::{connect, message};

/// Sends by every driver into a schema, one message and then two, and gives the ids that committed.
///
/// The connections name no statement where the driver lets its user say so.
pub(crate) async fn send_by_every_driver(url: &str, schema: &SchemaName) -> Vec<String> {
    let mut ids = Vec::new();
    let mut messages = |driver: &str| {
        let messages: Vec<Message> =
            (1..=3).map(|n| message(&format!("{driver}-{n}"), "k")).collect();
        ids.extend(messages.iter().map(|message| message.id().to_owned()));
        messages
    };
    by_tokio_postgres(url, schema, &messages("tokio")).await;
    by_deadpool(url, schema, &messages("deadpool")).await;
    by_diesel(url, schema, &messages("diesel")).await;
    by_sea_orm(url, schema, &messages("sea-orm")).await;
    by_sqlx(url, schema, &messages("sqlx")).await;
    ids.sort();
    ids
}

async fn by_tokio_postgres(url: &str, schema: &SchemaName, messages: &[Message]) {
    let outbox = Outbox::new("test");
    let mut client = connect(url).await;
    let mut transaction = schema.on(client.transaction().await.unwrap());
    outbox.send(&mut transaction, &messages[0]).await.unwrap();
    outbox.send_all(&mut transaction, &messages[1..]).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn by_deadpool(url: &str, schema: &SchemaName, messages: &[Message]) {
    let outbox = Outbox::new("test");
    let manager = deadpool_postgres::Manager::new(url.parse().unwrap(), tokio_postgres::NoTls);
    let pool = deadpool_postgres::Pool::builder(manager).max_size(2).build().unwrap();
    let mut client = pool.get().await.unwrap();
    let mut transaction = schema.on(client.transaction().await.unwrap());
    outbox.send(&mut transaction, &messages[0]).await.unwrap();
    outbox.send_all(&mut transaction, &messages[1..]).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn by_diesel(url: &str, schema: &SchemaName, messages: &[Message]) {
    let outbox = Outbox::new("test");
    let mut connection = AsyncPgConnection::establish(url).await.unwrap();
    connection
        .transaction(async |connection| {
            let mut transaction = schema.on(InTransaction::of(connection)?);
            outbox.send(&mut transaction, &messages[0]).await?;
            outbox.send_all(&mut transaction, &messages[1..]).await
        })
        .await
        .unwrap();
}

async fn by_sea_orm(url: &str, schema: &SchemaName, messages: &[Message]) {
    let outbox = Outbox::new("test");
    let mut options = ConnectOptions::new(url);
    options.max_connections(2).sqlx_logging(false);
    options.map_sqlx_postgres_opts(|options| options.statement_cache_capacity(0));
    let database = Database::connect(options).await.unwrap();
    let mut transaction = schema.on(database.begin().await.unwrap());
    outbox.send(&mut transaction, &messages[0]).await.unwrap();
    outbox.send_all(&mut transaction, &messages[1..]).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn by_sqlx(url: &str, schema: &SchemaName, messages: &[Message]) {
    let outbox = Outbox::new("test");
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.statement_cache_capacity(0);
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
    let mut transaction = schema.on(pool.begin().await.unwrap());
    outbox.send(&mut transaction, &messages[0]).await.unwrap();
    outbox.send_all(&mut transaction, &messages[1..]).await.unwrap();
    transaction.commit().await.unwrap();
}
