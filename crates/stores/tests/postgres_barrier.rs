//! The suite of barriers, on PostgreSQL, as it is mostly used, in a schema with an awkward name, and through
//! a pooler in transaction mode: the desk on the store's own connections, and transactions of sqlx. Those of tokio-postgres run in the races.
#![cfg(feature = "sqlx-0_9-postgres")]
#![allow(clippy::expect_used, reason = "a test's own set-up has nobody to hand an error to")]

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_conformance::barrier::{End, OpenTransaction, Store, Subject, WrittenKeys};
use sendoff_conformance::servers::fresh_database;
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierResult, BarrierTransaction, Barriers, Change,
    Changed, Continuation, Created, Failed, Outcomes, Page, Plan, Status,
};
use sendoff_core::outbox::Transaction;
use sendoff_core::{Error, ErrorKind, Message, Result};
use sendoff_stores::postgres::{Pooler, PostgresStore, Within};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool, Postgres};

mod place;

use place::{Named, Place, Pooled, Usual};

/// A database of one case.
struct Database<P> {
    /// As the store and the callers' transactions come to it.
    through: String,
    pool: PgPool,
    /// The test's own way.
    direct: PgPool,
    place: PhantomData<P>,
}

async fn pool(url: &str) -> Result<PgPool> {
    PgPoolOptions::new().max_connections(4).connect(url).await.map_err(failed)
}

fn failed(error: sqlx::Error) -> Error {
    let kind = match error.as_database_error().and_then(|error| error.code()) {
        Some(code) if code == "23505" => ErrorKind::Duplicate,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, "running a case's own statement").caused_by(error)
}

#[async_trait]
impl<P: Place> Subject for Database<P> {
    async fn empty() -> Result<Self> {
        let url = tokio::task::spawn_blocking(fresh_database)
            .await
            .expect("the task ends")
            .expect("a database");
        let through = P::through(&url).await;
        let (pool, direct) = (pool(&through).await?, pool(&url).await?);
        Ok(Self { through, pool, direct, place: PhantomData })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        let store = PostgresStore::new(&self.through, P::options())?;
        Ok(Arc::new(store.with_key_source(Arc::new(WrittenKeys))))
    }

    async fn begin(&self) -> Result<Box<dyn OpenTransaction>> {
        let transaction = self.pool.begin().await.map_err(failed)?;
        let transaction = P::schema().on(transaction);
        Ok(Box::new(Open(if P::options().pooler == Pooler::Transaction {
            transaction.unnamed()
        } else {
            transaction
        })))
    }

    async fn age(&self, by: Duration) -> Result<()> {
        let shift = format!("interval '{} microseconds'", by.as_micros());
        for (table, columns) in [
            (
                "barrier",
                &[
                    "created_at",
                    "opened_at",
                    "deadline_at",
                    "closing_at",
                    "completed_at",
                    "expires_at",
                ][..],
            ),
            ("barrier_member", &["resolved_at"]),
            ("barrier_evidence", &["at"]),
            ("outbox", &["due_at", "retry_at"]),
        ] {
            let set: Vec<String> =
                columns.iter().map(|column| format!("{column} = {column} - {shift}")).collect();
            let update = P::sql(&format!("UPDATE sendoff.{table} SET {}", set.join(", ")));
            sqlx::query(AssertSqlSafe(update)).execute(&self.direct).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn lost(&self, acks: &[(&str, bool)]) -> Result<Option<String>> {
        let create = "CREATE TABLE IF NOT EXISTS lost (member text, ok boolean)";
        sqlx::query(create).execute(&self.direct).await.map_err(failed)?;
        for (member, ok) in acks {
            sqlx::query("INSERT INTO lost VALUES ($1, $2)")
                .bind(member)
                .bind(ok)
                .execute(&self.direct)
                .await
                .map_err(failed)?;
        }
        Ok(Some("SELECT member, ok FROM lost".to_owned()))
    }
}

struct Open(Within<sqlx::Transaction<'static, Postgres>>);

#[async_trait]
impl OpenTransaction for Open {
    async fn create(&mut self, plan: &Plan) -> Result<Answer<Created>> {
        self.0.create_barrier(plan).await.map_err(failed)
    }

    async fn ack(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
        self.0.ack_members(batch).await.map_err(failed)
    }

    async fn change(&mut self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
        self.0.change_barrier(id, change).await.map_err(failed)
    }

    async fn status(&mut self, id: &BarrierId) -> Result<Option<Status>> {
        self.0.barrier_status(id).await.map_err(failed)
    }

    async fn hydrate(&mut self, continuation: &Continuation) -> Result<Option<BarrierResult>> {
        let barriers = Barriers::of_tenant(continuation.tenant.as_str());
        barriers.hydrate(&mut self.0, continuation).await.map_err(|error| match error {
            Failed::Driver(error) => failed(error),
            Failed::Refused(refusal) => Error::invalid("hydrating", refusal.to_string()),
        })
    }

    async fn outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>> {
        self.0.barrier_outcomes(page).await.map_err(failed)
    }

    async fn send(&mut self, message: &Message) -> Result<()> {
        self.0.append(std::slice::from_ref(message)).await.map_err(failed)
    }

    async fn savepoint(&mut self, name: &str) -> Result<()> {
        let text = AssertSqlSafe(format!("SAVEPOINT \"{name}\""));
        sqlx::query(text).execute(&mut **self.0).await.map(drop).map_err(failed)
    }

    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        let text = AssertSqlSafe(format!("ROLLBACK TO SAVEPOINT \"{name}\""));
        sqlx::query(text).execute(&mut **self.0).await.map(drop).map_err(failed)
    }

    async fn end(self: Box<Self>, end: End) -> Result<()> {
        match end {
            End::Commit => self.0.commit().await.map_err(failed),
            End::Rollback => self.0.into_inner().rollback().await.map_err(failed),
        }
    }
}

type Postgresql = Database<Usual>;

sendoff_conformance::barrier_suite!(Postgresql);

mod in_another_schema {
    type Postgresql = super::Database<super::Named>;

    sendoff_conformance::barrier_suite!(Postgresql);
}

mod through_a_pooler {
    type Postgresql = super::Database<super::Pooled>;

    sendoff_conformance::barrier_suite!(Postgresql);
}
