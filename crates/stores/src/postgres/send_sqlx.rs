//! Sends in the caller's own transaction, with sqlx 0.9.
//!
//! The statement is one that sqlx prepares and caches on the connection, as it does with the
//! caller's own, unless the transaction says otherwise ([`Within::unnamed`]). Types are given by the numbers
//! that PostgreSQL has always had for them: asked for by name, they would cost queries of their own.

use std::borrow::Cow;

use sendoff_core::Message;
use sendoff_core::outbox::Transaction;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::{AssertSqlSafe, Encode, PgConnection, Postgres, SqlSafeStr, SqlStr, Type};

use super::schema_name::{SchemaName, USUAL};
use super::send::parts;
use super::sql;
use super::wire::Time;
use super::within::Within;

/// sqlx 0.9, as [`Transaction`]'s driver. Callers never write it.
#[derive(Debug)]
pub struct Sqlx;

/// The text of a jsonb value.
pub(super) struct JsonText(pub(super) String);

impl Type<Postgres> for JsonText {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(3802))
    }
}

impl PgHasArrayType for JsonText {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(3807))
    }
}

impl Encode<'_, Postgres> for JsonText {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        // The version of jsonb's binary format, then the text.
        buffer.push(1);
        buffer.extend(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

/// A timestamptz.
struct DueAt(Time);

impl Type<Postgres> for DueAt {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for DueAt {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for DueAt {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend(&self.0.micros().to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Transaction<Sqlx> for sqlx::Transaction<'_, Postgres> {
    type Error = sqlx::Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self, &USUAL, true, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        sqlx::Transaction::commit(self).await
    }
}

impl Transaction<Sqlx> for Within<sqlx::Transaction<'_, Postgres>> {
    type Error = sqlx::Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        let (transaction, schema, named) = self.parts();
        insert_all(transaction, schema, named, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        self.into_inner().commit().await
    }
}

/// A statement of ours for a schema, as sqlx takes it.
pub(super) fn text(schema: &SchemaName, template: &'static str) -> SqlStr {
    match schema.sql(template) {
        Cow::Borrowed(text) => text.into_sql_str(),
        // Ours, but for a name that is quoted.
        Cow::Owned(text) => AssertSqlSafe(text).into_sql_str(),
    }
}

async fn insert_all(
    connection: &mut PgConnection,
    schema: &SchemaName,
    named: bool,
    messages: &[Message],
) -> Result<(), sqlx::Error> {
    for part in parts(messages) {
        let query = match part {
            [message] => sqlx::query(text(schema, sql::INSERT_SQL))
                .bind(message.id())
                .bind(message.source())
                .bind(message.topic())
                .bind(message.key())
                .bind(JsonText(message.headers().to_json()))
                .bind(message.body().as_ref())
                .bind(message.due_at().map(|at| DueAt(Time(at)))),
            many => {
                let column = |of: fn(&Message) -> &str| many.iter().map(of).collect::<Vec<_>>();
                let keys: Vec<Option<&str>> = many.iter().map(Message::key).collect();
                let headers: Vec<JsonText> =
                    many.iter().map(|m| JsonText(m.headers().to_json())).collect();
                let bodies: Vec<&[u8]> = many.iter().map(|m| m.body().as_ref()).collect();
                let due_ats: Vec<Option<DueAt>> =
                    many.iter().map(|m| m.due_at().map(|at| DueAt(Time(at)))).collect();
                sqlx::query(text(schema, sql::INSERT_MANY))
                    .bind(column(Message::id))
                    .bind(column(Message::source))
                    .bind(column(Message::topic))
                    .bind(keys)
                    .bind(headers)
                    .bind(bodies)
                    .bind(due_ats)
            }
        };
        query.persistent(named).execute(&mut *connection).await?;
    }
    Ok(())
}
