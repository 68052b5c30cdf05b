//! The suite of barriers, on SQLite: once in rusqlite's transactions and once in sqlx's.

#![cfg(feature = "sqlx-0_9-sqlite")]
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_conformance::barrier::{End, OpenTransaction, Store, Subject, WrittenKeys};
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierResult, Barriers, Change, Changed,
    Continuation, Created, Failed, Outcomes, Page, Plan, Status,
};
use sendoff_core::{Error, Message, Result};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore, kind_of};
use tempfile::TempDir;

/// A file in a folder of its own.
struct File {
    _folder: TempDir,
    path: PathBuf,
}

fn mapped(error: rusqlite::Error) -> Error {
    Error::new(kind_of(&error), "using the database as a service does").caused_by(error)
}

fn connect(path: &Path) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(path).map_err(mapped)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(mapped)?;
    Ok(connection)
}

/// Every time that is stored, as if it had been an earlier one.
const AGE: &str = "
    UPDATE sendoff_barrier SET created_at = created_at - @by, deadline_at = deadline_at - @by,
        completed_at = completed_at - @by, expires_at = expires_at - @by;
    UPDATE sendoff_barrier_member SET resolved_at = resolved_at - @by;
    UPDATE sendoff_barrier_group SET last_ack_at = last_ack_at - @by;
    UPDATE sendoff_barrier_evidence SET at = at - @by;
    UPDATE sendoff_outbox SET due_at = due_at - @by WHERE due_at IS NOT NULL;";

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        Self { _folder: folder, path }
    }

    fn open(&self) -> Result<Arc<dyn Store>> {
        let options = SqliteOptions { create: true, ..SqliteOptions::default() };
        let store = SqliteStore::open(&self.path, options)?;
        Ok(Arc::new(store.with_key_source(Arc::new(WrittenKeys))))
    }

    fn age(&self, by: Duration) -> Result<()> {
        let sql = AGE.replace("@by", &by.as_micros().to_string());
        connect(&self.path)?.execute_batch(&sql).map_err(mapped)
    }

    fn lost(&self, acks: &[(&str, bool)]) -> Result<String> {
        let connection = connect(&self.path)?;
        let made = "DROP TABLE IF EXISTS lost; CREATE TABLE lost (member TEXT, ok INTEGER)";
        connection.execute_batch(made).map_err(mapped)?;
        for ack in acks {
            connection.execute("INSERT INTO lost VALUES (?1, ?2)", *ack).map_err(mapped)?;
        }
        Ok("SELECT member, ok FROM lost".to_owned())
    }
}

fn told<E>(failed: Failed<E>, mapped: impl Fn(E) -> Error) -> Error {
    match failed {
        Failed::Driver(error) => mapped(error),
        Failed::Refused(refusal) => Error::invalid("hydrating", refusal.to_string()),
    }
}

macro_rules! subject {
    ($name:ident, $begin:expr) => {
        struct $name(File);

        #[async_trait]
        impl Subject for $name {
            async fn empty() -> Result<Self> {
                Ok(Self(File::new()))
            }

            async fn open(&self) -> Result<Arc<dyn Store>> {
                self.0.open()
            }

            async fn begin(&self) -> Result<Box<dyn OpenTransaction>> {
                Ok(Box::new($begin(&self.0.path).await?))
            }

            async fn age(&self, by: Duration) -> Result<()> {
                self.0.age(by)
            }

            async fn lost(&self, acks: &[(&str, bool)]) -> Result<Option<String>> {
                self.0.lost(acks).map(Some)
            }
        }

        sendoff_conformance::barrier_suite!($name);
    };
}

mod in_rusqlite {
    use std::sync::mpsc;

    use rusqlite::Transaction;
    use sendoff_core::barrier::BlockingBarrierTransaction;
    use sendoff_core::outbox::BlockingTransaction;
    use tokio::sync::oneshot;

    use super::*;

    type Step = Box<dyn FnOnce(&mut Option<Transaction<'_>>) + Send>;

    /// A transaction of rusqlite lives on a thread of its own, as rusqlite is used beside async code.
    struct Open(mpsc::Sender<Step>);

    async fn begin(path: &Path) -> Result<Open> {
        let mut connection = connect(path)?;
        let (steps, todo) = mpsc::channel::<Step>();
        std::thread::spawn(move || {
            let mut transaction = Some(connection.transaction().unwrap());
            for step in todo {
                step(&mut transaction);
            }
        });
        Ok(Open(steps))
    }

    impl Open {
        async fn step<T: Send + 'static>(
            &self,
            step: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
        ) -> Result<T> {
            self.owning(|transaction| step(transaction.as_ref().unwrap())).await
        }

        async fn owning<T: Send + 'static>(
            &self,
            step: impl FnOnce(&mut Option<Transaction<'_>>) -> rusqlite::Result<T> + Send + 'static,
        ) -> Result<T> {
            let (reply, answer) = oneshot::channel();
            let step: Step = Box::new(move |transaction| {
                let _ = reply.send(step(transaction).map_err(mapped));
            });
            self.0.send(step).unwrap();
            answer.await.unwrap()
        }

        async fn run(&self, sql: String) -> Result<()> {
            self.step(move |transaction| transaction.execute_batch(&sql)).await
        }
    }

    #[async_trait]
    impl OpenTransaction for Open {
        async fn create(&mut self, plan: &Plan) -> Result<Answer<Created>> {
            let plan = plan.clone();
            self.step(move |transaction| transaction.create_barrier(&plan)).await
        }

        async fn ack(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
            let batch = batch.clone();
            self.step(move |transaction| transaction.ack_members(&batch)).await
        }

        async fn change(&mut self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
            let (id, change) = (id.clone(), change.clone());
            self.step(move |transaction| transaction.change_barrier(&id, &change)).await
        }

        async fn status(&mut self, id: &BarrierId) -> Result<Option<Status>> {
            let id = id.clone();
            self.step(move |transaction| transaction.barrier_status(&id)).await
        }

        async fn hydrate(&mut self, continuation: &Continuation) -> Result<Option<BarrierResult>> {
            let continuation = continuation.clone();
            let hydrated = self.step(move |transaction| {
                let barriers = Barriers::of_tenant(continuation.tenant.as_str());
                Ok(barriers.hydrate_blocking(transaction, &continuation))
            });
            hydrated.await?.map_err(|failed| told(failed, mapped))
        }

        async fn outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>> {
            let page = page.clone();
            self.step(move |transaction| transaction.barrier_outcomes(&page)).await
        }

        async fn send(&mut self, message: &Message) -> Result<()> {
            let message = message.clone();
            self.step(move |transaction| transaction.append(&[message])).await
        }

        async fn savepoint(&mut self, name: &str) -> Result<()> {
            self.run(format!("SAVEPOINT {name}")).await
        }

        async fn rollback_to(&mut self, name: &str) -> Result<()> {
            self.run(format!("ROLLBACK TO {name}")).await
        }

        async fn end(self: Box<Self>, end: End) -> Result<()> {
            self.owning(move |transaction| {
                let transaction = transaction.take().unwrap();
                match end {
                    End::Commit => BlockingTransaction::commit(transaction),
                    End::Rollback => transaction.rollback(),
                }
            })
            .await
        }
    }

    subject!(Rusqlite, begin);
}

mod in_sqlx {
    use sendoff_core::ErrorKind;
    use sendoff_core::barrier::BarrierTransaction;
    use sendoff_core::outbox::Transaction;
    use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
    use sqlx::{Sqlite, SqlitePool};

    use super::*;

    struct Open {
        transaction: sqlx::Transaction<'static, Sqlite>,
        _pool: SqlitePool,
    }

    fn mapped(error: sqlx::Error) -> Error {
        Error::new(ErrorKind::Unexpected, "using the database as a service does").caused_by(error)
    }

    async fn begin(path: &Path) -> Result<Open> {
        let options = SqliteConnectOptions::new().filename(path);
        let options = options.busy_timeout(Duration::from_secs(10));
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options);
        let pool = pool.await.map_err(mapped)?;
        Ok(Open { transaction: pool.begin().await.map_err(mapped)?, _pool: pool })
    }

    #[async_trait]
    impl OpenTransaction for Open {
        async fn create(&mut self, plan: &Plan) -> Result<Answer<Created>> {
            self.transaction.create_barrier(plan).await.map_err(mapped)
        }

        async fn ack(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
            self.transaction.ack_members(batch).await.map_err(mapped)
        }

        async fn change(&mut self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
            self.transaction.change_barrier(id, change).await.map_err(mapped)
        }

        async fn status(&mut self, id: &BarrierId) -> Result<Option<Status>> {
            self.transaction.barrier_status(id).await.map_err(mapped)
        }

        async fn hydrate(&mut self, continuation: &Continuation) -> Result<Option<BarrierResult>> {
            let barriers = Barriers::of_tenant(continuation.tenant.as_str());
            let hydrated = barriers.hydrate(&mut self.transaction, continuation).await;
            hydrated.map_err(|failed| told(failed, mapped))
        }

        async fn outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>> {
            self.transaction.barrier_outcomes(page).await.map_err(mapped)
        }

        async fn send(&mut self, message: &Message) -> Result<()> {
            self.transaction.append(std::slice::from_ref(message)).await.map_err(mapped)
        }

        async fn savepoint(&mut self, name: &str) -> Result<()> {
            let sql = sqlx::AssertSqlSafe(format!("SAVEPOINT {name}"));
            sqlx::query(sql).execute(&mut *self.transaction).await.map(drop).map_err(mapped)
        }

        async fn rollback_to(&mut self, name: &str) -> Result<()> {
            let sql = sqlx::AssertSqlSafe(format!("ROLLBACK TO {name}"));
            sqlx::query(sql).execute(&mut *self.transaction).await.map(drop).map_err(mapped)
        }

        async fn end(self: Box<Self>, end: End) -> Result<()> {
            let ended = match end {
                End::Commit => Transaction::commit(self.transaction).await,
                End::Rollback => self.transaction.rollback().await,
            };
            ended.map_err(mapped)
        }
    }

    subject!(Sqlx, begin);
}
