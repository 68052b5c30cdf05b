//! Sends in the caller's own transaction, with SeaORM 2.

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement, Value};
use sendoff_core::Message;
use sendoff_core::outbox::Transaction;

use super::schema_name::{SchemaName, USUAL};
use super::send::parts;
use super::sql;
use super::within::Within;

/// SeaORM 2, as [`Transaction`]'s driver. Callers never write it.
#[derive(Debug)]
pub struct SeaOrm;

impl Transaction<SeaOrm> for DatabaseTransaction {
    type Error = DbErr;

    /// On PostgreSQL only: a transaction of another database is refused, with nothing sent.
    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self, &USUAL, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        DatabaseTransaction::commit(self).await
    }
}

impl Transaction<SeaOrm> for Within<DatabaseTransaction> {
    type Error = DbErr;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        let (transaction, schema, _) = self.parts();
        insert_all(transaction, schema, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        self.into_inner().commit().await
    }
}

async fn insert_all(
    transaction: &DatabaseTransaction,
    schema: &SchemaName,
    messages: &[Message],
) -> Result<(), DbErr> {
    let backend = transaction.get_database_backend();
    if backend != DbBackend::Postgres {
        return Err(DbErr::Custom(format!(
            "sending a message: SeaORM's transaction is on {backend:?}, and this sends on \
             PostgreSQL; write the plain INSERT of sendoff's documentation instead"
        )));
    }
    for part in parts(messages) {
        // Rows rather than arrays: SeaORM's arrays take no NULL.
        for rows in part.chunks(sql::INSERT_ROWS_MAX) {
            let text = schema.sql_of(sql::insert_rows(rows.len()));
            let values = rows.iter().flat_map(row);
            transaction.execute_raw(Statement::from_sql_and_values(backend, text, values)).await?;
        }
    }
    Ok(())
}

fn text(value: impl Into<String>) -> Value {
    Value::String(Some(value.into()))
}

fn due_at(message: &Message) -> Value {
    Value::BigInt(message.due_at().map(|due_at| due_at.as_microsecond()))
}

fn key(message: &Message) -> Value {
    Value::String(message.key().map(str::to_owned))
}

fn body(message: &Message) -> Value {
    Value::Bytes(Some(message.body().to_vec()))
}

fn row(message: &Message) -> [Value; 7] {
    [
        text(message.id()),
        text(message.source()),
        text(message.topic()),
        key(message),
        text(message.headers().to_json()),
        body(message),
        due_at(message),
    ]
}
