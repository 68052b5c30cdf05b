//! Sends in the caller's own transaction, with tokio-postgres.
//!
//! A send is one statement, without a round trip to prepare it and without a name on the server, so
//! that it works behind a pooler in transaction mode. Only transactions can send: forgetting to
//! open one does not compile.

use sendoff_core::Message;
use sendoff_core::outbox::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::schema_name::{SchemaName, USUAL};
use super::sql;
use super::wire::{Json, Time};
use super::within::Within;

/// tokio-postgres, as [`Transaction`]'s driver. Callers never write it.
#[derive(Debug)]
pub struct TokioPostgres;

#[cfg(feature = "deadpool-postgres-0_14")]
pub use super::send_deadpool::Deadpool;
#[cfg(feature = "diesel-async-0_9")]
pub use super::send_diesel::{Diesel, InTransaction};
#[cfg(feature = "sea-orm-2")]
pub use super::send_sea_orm::SeaOrm;
#[cfg(feature = "sqlx-0_9-postgres")]
pub use super::send_sqlx::Sqlx;

/// Bodies of one statement together have at most about this many bytes (PostgreSQL takes a message
/// of 1 GiB). More of them are sent in several statements, in order.
const STATEMENT_BYTES_MAX: usize = 64 << 20;

impl Transaction<TokioPostgres> for tokio_postgres::Transaction<'_> {
    type Error = tokio_postgres::Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self, &USUAL, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        tokio_postgres::Transaction::commit(self).await
    }
}

impl Transaction<TokioPostgres> for Within<tokio_postgres::Transaction<'_>> {
    type Error = tokio_postgres::Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        let (transaction, schema, _) = self.parts();
        insert_all(transaction, schema, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        self.into_inner().commit().await
    }
}

pub(super) async fn insert_all(
    transaction: &tokio_postgres::Transaction<'_>,
    schema: &SchemaName,
    messages: &[Message],
) -> Result<(), tokio_postgres::Error> {
    for part in parts(messages) {
        match part {
            [message] => insert_one(transaction, schema, message).await?,
            many => insert_many(transaction, schema, many).await?,
        }
    }
    Ok(())
}

/// The messages in parts that one statement can take.
pub(super) fn parts(messages: &[Message]) -> impl Iterator<Item = &[Message]> {
    let mut bytes: usize = 0;
    messages.chunk_by(move |_, next| {
        bytes += next.size_bytes();
        if bytes <= STATEMENT_BYTES_MAX {
            return true;
        }
        bytes = 0;
        false
    })
}

async fn insert_one(
    transaction: &tokio_postgres::Transaction<'_>,
    schema: &SchemaName,
    message: &Message,
) -> Result<(), tokio_postgres::Error> {
    let headers = Json(message.headers().to_json());
    let body: &[u8] = message.body();
    let due_at = message.due_at().map(Time);
    let params: [(&(dyn ToSql + Sync), Type); 7] = [
        (&message.id(), Type::TEXT),
        (&message.source(), Type::TEXT),
        (&message.topic(), Type::TEXT),
        (&message.key(), Type::TEXT),
        (&headers, Type::JSONB),
        (&body, Type::BYTEA),
        (&due_at, Type::TIMESTAMPTZ),
    ];
    transaction.execute_typed(&schema.sql(sql::INSERT_SQL), &params).await?;
    Ok(())
}

async fn insert_many(
    transaction: &tokio_postgres::Transaction<'_>,
    schema: &SchemaName,
    messages: &[Message],
) -> Result<(), tokio_postgres::Error> {
    let ids: Vec<&str> = messages.iter().map(Message::id).collect();
    let sources: Vec<&str> = messages.iter().map(Message::source).collect();
    let topics: Vec<&str> = messages.iter().map(Message::topic).collect();
    let keys: Vec<Option<&str>> = messages.iter().map(Message::key).collect();
    let headers: Vec<Json<String>> = messages.iter().map(|m| Json(m.headers().to_json())).collect();
    let bodies: Vec<&[u8]> = messages.iter().map(|m| m.body().as_ref()).collect();
    let due_ats: Vec<Option<Time>> = messages.iter().map(|m| m.due_at().map(Time)).collect();
    let params: [(&(dyn ToSql + Sync), Type); 7] = [
        (&ids, Type::TEXT_ARRAY),
        (&sources, Type::TEXT_ARRAY),
        (&topics, Type::TEXT_ARRAY),
        (&keys, Type::TEXT_ARRAY),
        (&headers, Type::JSONB_ARRAY),
        (&bodies, Type::BYTEA_ARRAY),
        (&due_ats, Type::TIMESTAMPTZ_ARRAY),
    ];
    transaction.execute_typed(&schema.sql(sql::INSERT_MANY), &params).await?;
    Ok(())
}
