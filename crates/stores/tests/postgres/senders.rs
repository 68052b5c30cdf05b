//! One send by each driver, in a transaction of its own: for what has to hold of all of them alike.

use diesel_async::{AsyncConnection, AsyncPgConnection};
use sea_orm::{ConnectOptions, Database, TransactionTrait};
use sendoff_core::outbox::Transaction as _;
use sendoff_core::{Message, Outbox};
use sendoff_stores::postgres::SchemaName;
use sendoff_stores::postgres::send::InTransaction;
use sqlx::postgres::PgPoolOptions;

use crate::stage::{connect, message};

/// Three messages of a driver's own.
fn messages(driver: &str) -> Vec<Message> {
    (1..=3).map(|n| message(&format!("{driver}-{n}"), "k")).collect()
}

fn sorted(sent: &[Vec<Message>]) -> Vec<String> {
    let mut ids: Vec<String> = sent.iter().flatten().map(|sent| sent.id().to_owned()).collect();
    ids.sort();
    ids
}

/// Sends by every driver into a schema, one message and then two, and gives the ids that committed.
pub(crate) async fn send_by_every_driver(url: &str, schema: &SchemaName) -> Vec<String> {
    let ids = send_without_names(url, schema).await;
    let sent = [messages("diesel"), messages("sea-orm")];
    by_diesel(url, schema, &sent[0]).await;
    by_sea_orm(url, schema, &sent[1]).await;
    let mut ids = [ids, sorted(&sent)].concat();
    ids.sort();
    ids
}

/// The same by every driver that can do without names for statements: not by diesel-async, which has some
/// when it connects, nor by SeaORM.
pub(crate) async fn send_without_names(url: &str, schema: &SchemaName) -> Vec<String> {
    let sent = [messages("tokio"), messages("deadpool"), messages("sqlx")];
    by_tokio_postgres(url, schema, &sent[0]).await;
    by_deadpool(url, schema, &sent[1]).await;
    by_sqlx(url, schema, &sent[2]).await;
    sorted(&sent)
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
    let database = Database::connect(options).await.unwrap();
    let mut transaction = schema.on(database.begin().await.unwrap());
    outbox.send(&mut transaction, &messages[0]).await.unwrap();
    outbox.send_all(&mut transaction, &messages[1..]).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn by_sqlx(url: &str, schema: &SchemaName, messages: &[Message]) {
    let outbox = Outbox::new("test");
    let pool = PgPoolOptions::new().max_connections(2).connect(url).await.unwrap();
    let mut transaction = schema.on(pool.begin().await.unwrap()).unnamed();
    outbox.send(&mut transaction, &messages[0]).await.unwrap();
    outbox.send_all(&mut transaction, &messages[1..]).await.unwrap();
    transaction.commit().await.unwrap();
}
