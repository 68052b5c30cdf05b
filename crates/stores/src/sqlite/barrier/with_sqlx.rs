//! Barriers in sqlx's transactions.

use sendoff_core::Error;
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierTransaction, Change, Changed, Created,
    Outcomes, Page, Plan, Status, plain,
};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Acquire, Decode, Row, Sqlite, SqliteConnection, TypeInfo, ValueRef};

use super::ledger::Ledger;
use super::read;
use super::statements::{Fields, Statements, Value, odd};
use crate::sqlite::send::Sqlx09;
use crate::sqlite::sql::barrier as on;

/// A connection in a transaction.
struct Connected<'a>(&'a mut SqliteConnection);

type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

fn bound(sql: &'static str, values: Vec<Value>) -> Query {
    values.into_iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Null => query.bind(None::<i64>),
        Value::Integer(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
        Value::Blob(bytes) => query.bind(bytes),
    })
}

impl Statements for Connected<'_> {
    type Error = sqlx::Error;

    async fn query(
        &mut self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Fields>, sqlx::Error> {
        let rows = bound(sql, values).fetch_all(&mut *self.0).await?;
        rows.iter().map(fields).collect()
    }

    async fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> Result<u64, sqlx::Error> {
        Ok(bound(sql, values).execute(&mut *self.0).await?.rows_affected())
    }

    fn unexpected(error: Error) -> sqlx::Error {
        sqlx::Error::Decode(Box::new(error))
    }
}

fn fields(row: &SqliteRow) -> Result<Fields, sqlx::Error> {
    let mut values = Vec::with_capacity(row.len());
    for at in 0..row.len() {
        let raw = row.try_get_raw(at)?;
        let name = raw.type_info().name().to_owned();
        values.push(match name.as_str() {
            _ if raw.is_null() => Value::Null,
            "INTEGER" | "BOOLEAN" => {
                Value::Integer(Decode::<Sqlite>::decode(raw).map_err(sqlx::Error::Decode)?)
            }
            "TEXT" => Value::Text(Decode::<Sqlite>::decode(raw).map_err(sqlx::Error::Decode)?),
            "BLOB" => Value::Blob(Decode::<Sqlite>::decode(raw).map_err(sqlx::Error::Decode)?),
            other => return Err(Connected::unexpected(odd(format!("a value is {other}")))),
        });
    }
    Ok(Fields::new(values))
}

/// A call that is all or nothing, also where the caller drops the future (a savepoint that is dropped
/// is rolled back), and that waits for the write lock before it reads.
macro_rules! call {
    ($transaction:ident, $work:path $(, $given:expr)*) => {{
        let mut savepoint = $transaction.begin().await?;
        sqlx::query(on::LOCK).execute(&mut *savepoint).await?;
        let answer = $work(&mut Ledger(Connected(&mut savepoint)) $(, $given)*).await?;
        savepoint.commit().await?;
        Ok(answer)
    }};
}

impl BarrierTransaction<Sqlx09> for sqlx::Transaction<'_, Sqlite> {
    async fn create_barrier(&mut self, plan: &Plan) -> Result<Answer<Created>, sqlx::Error> {
        call!(self, plain::create, plan)
    }

    async fn ack_members(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>, sqlx::Error> {
        call!(self, plain::ack, batch)
    }

    async fn change_barrier(
        &mut self,
        id: &BarrierId,
        change: &Change,
    ) -> Result<Answer<Changed>, sqlx::Error> {
        call!(self, plain::change, id, change)
    }

    async fn barrier_status(&mut self, id: &BarrierId) -> Result<Option<Status>, sqlx::Error> {
        plain::status(&mut Ledger(Connected(&mut *self)), id).await
    }

    async fn barrier_outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>, sqlx::Error> {
        read::outcomes(&mut Ledger(Connected(&mut *self)), page).await
    }
}
