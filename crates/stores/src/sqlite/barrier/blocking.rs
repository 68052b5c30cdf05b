//! Barriers in rusqlite's transactions and savepoints.

use futures_util::FutureExt;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Savepoint, ToSql, Transaction, params_from_iter};
use sendoff_core::Error;
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BlockingBarrierTransaction, Change, Changed, Created,
    Outcomes, Page, Plan, Status, plain,
};

use super::ledger::Ledger;
use super::read;
use super::statements::{Fields, Statements, Value, odd};
use crate::sqlite::send::Rusqlite;
use crate::sqlite::sql::barrier as on;

/// A connection in a transaction.
pub(super) struct Blocking<'a>(pub(super) &'a Connection);

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Statements for Blocking<'_> {
    type Error = rusqlite::Error;

    async fn query(
        &mut self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> rusqlite::Result<Vec<Fields>> {
        let mut statement = self.0.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|at| value(row.get_ref(at)?));
            all.push(Fields::new(values.collect::<rusqlite::Result<_>>()?));
        }
        Ok(all)
    }

    async fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> rusqlite::Result<u64> {
        let changed = self.0.prepare_cached(sql)?.execute(params_from_iter(values))?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    fn unexpected(error: Error) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, Box::new(error))
    }
}

pub(super) fn value(value: ValueRef<'_>) -> rusqlite::Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(text) => {
            let text = String::from_utf8(text.to_vec());
            Value::Text(text.map_err(|_| Blocking::unexpected(odd("a text is not UTF-8")))?)
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Real(_) => return Err(Blocking::unexpected(odd("a number has a fraction"))),
    })
}

/// What a future gives that never waits.
pub(super) fn now<T>(future: impl Future<Output = rusqlite::Result<T>>) -> rusqlite::Result<T> {
    match future.now_or_never() {
        Some(done) => done,
        None => Err(Blocking::unexpected(odd("a statement that blocks did not end"))),
    }
}

/// A call that is all or nothing, also where the caller goes on after an error, and that waits for the
/// write lock before it reads.
fn call<T, F: Future<Output = rusqlite::Result<T>>>(
    connection: &Connection,
    work: impl FnOnce() -> F,
) -> rusqlite::Result<T> {
    connection.prepare_cached(on::BEGIN_CALL)?.execute([])?;
    let done = connection
        .prepare_cached(on::LOCK)
        .and_then(|mut lock| lock.execute([]))
        .and_then(|_| now(work()));
    match &done {
        Ok(_) => {
            connection.prepare_cached(on::END_CALL)?.execute([])?;
        }
        // A full disk, for one, has rolled back the whole transaction already.
        Err(_) if connection.is_autocommit() => {}
        Err(_) => connection.execute_batch(on::UNDO_CALL)?,
    }
    done
}

fn create(connection: &Connection, plan: &Plan) -> rusqlite::Result<Answer<Created>> {
    let mut ledger = Ledger(Blocking(connection));
    call(connection, || async move { plain::create(&mut ledger, plan).await })
}

fn ack(connection: &Connection, batch: &AckBatch) -> rusqlite::Result<Answer<AckedBatch>> {
    let mut ledger = Ledger(Blocking(connection));
    call(connection, || async move { plain::ack(&mut ledger, batch).await })
}

fn change(
    connection: &Connection,
    id: &BarrierId,
    change: &Change,
) -> rusqlite::Result<Answer<Changed>> {
    let mut ledger = Ledger(Blocking(connection));
    call(connection, || async move { plain::change(&mut ledger, id, change).await })
}

fn status(connection: &Connection, id: &BarrierId) -> rusqlite::Result<Option<Status>> {
    now(plain::status(&mut Ledger(Blocking(connection)), id))
}

fn outcomes(connection: &Connection, page: &Page) -> rusqlite::Result<Option<Outcomes>> {
    now(read::outcomes(&mut Ledger(Blocking(connection)), page))
}

macro_rules! in_a_transaction {
    ($transaction:ty) => {
        impl BlockingBarrierTransaction<Rusqlite> for $transaction {
            fn create_barrier(&self, plan: &Plan) -> rusqlite::Result<Answer<Created>> {
                create(self, plan)
            }

            fn ack_members(&self, batch: &AckBatch) -> rusqlite::Result<Answer<AckedBatch>> {
                ack(self, batch)
            }

            fn change_barrier(
                &self,
                id: &BarrierId,
                asked: &Change,
            ) -> rusqlite::Result<Answer<Changed>> {
                change(self, id, asked)
            }

            fn barrier_status(&self, id: &BarrierId) -> rusqlite::Result<Option<Status>> {
                status(self, id)
            }

            fn barrier_outcomes(&self, page: &Page) -> rusqlite::Result<Option<Outcomes>> {
                outcomes(self, page)
            }
        }
    };
}

in_a_transaction!(Transaction<'_>);
in_a_transaction!(Savepoint<'_>);
