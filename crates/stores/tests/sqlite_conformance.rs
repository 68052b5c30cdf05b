//! The suite of every store, on SQLite.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_conformance::store::{Facts, OpenTransaction, PlainRow, Store, Subject};
use sendoff_core::outbox::BlockingTransaction;
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, Message, Result};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore, kind_of};
use tempfile::TempDir;

/// A file in a folder of its own.
struct Sqlite {
    _folder: TempDir,
    path: PathBuf,
}

fn mapped(error: rusqlite::Error) -> Error {
    Error::new(kind_of(&error), "using the database as a service does").caused_by(error)
}

fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path).map_err(mapped)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(mapped)?;
    Ok(connection)
}

impl Sqlite {
    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        connect(&self.path)?.execute(sql, params).map(drop).map_err(mapped)
    }
}

#[async_trait]
impl Subject for Sqlite {
    const FACTS: Facts = Facts { lanes: 1, one_writer: true, draws_first: false };

    async fn empty() -> Result<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        Ok(Self { _folder: folder, path })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        let options = SqliteOptions { create: true, ..SqliteOptions::default() };
        Ok(Arc::new(SqliteStore::open(&self.path, options)?))
    }

    async fn begin(&self) -> Result<Box<dyn OpenTransaction>> {
        Ok(Box::new(service::begin(&self.path)?))
    }

    async fn insert(&self, row: PlainRow) -> Result<()> {
        self.execute(
            "INSERT INTO sendoff_outbox (id, source, topic, key, headers, body, due_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                row.id,
                row.source,
                row.topic,
                row.key,
                row.headers,
                row.body.as_ref(),
                row.due_at.map(|due_at| due_at.as_microsecond()),
            ),
        )
    }

    async fn now(&self) -> Result<Timestamp> {
        let millis = connect(&self.path)?
            .query_row("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)", [], |row| row.get(0))
            .map_err(mapped)?;
        Ok(Timestamp::from_millisecond(millis).unwrap())
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn age_pairs(&self, by: Duration) -> Result<()> {
        let micros = i64::try_from(by.as_micros()).unwrap();
        self.execute("UPDATE sendoff_message_key SET sent_at = sent_at - ?1", [micros])
    }

    async fn delete(&self, id: &str) -> Result<()> {
        self.execute("DELETE FROM sendoff_outbox WHERE id = ?1", [id])
    }

    async fn set_schema_version(&self, version: u32, usable_from: Option<u32>) -> Result<()> {
        self.execute("DELETE FROM sendoff_schema_version WHERE version > ?1", [version])?;
        self.execute(
            "INSERT OR IGNORE INTO sendoff_schema_version (version, applied_at, checksum, usable_from)
             VALUES (?1, 0, '', ?2)",
            (version, usable_from),
        )
    }
}

/// A transaction of rusqlite lives on a thread of its own, as rusqlite is used beside async code.
mod service {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;

    enum Step {
        Send(Vec<Message>),
        Execute(String),
        Commit,
    }

    pub(super) struct Open(mpsc::Sender<(Step, oneshot::Sender<Result<()>>)>);

    pub(super) fn begin(path: &Path) -> Result<Open> {
        let mut connection = connect(path)?;
        let (steps, todo) = mpsc::channel::<(Step, oneshot::Sender<Result<()>>)>();
        std::thread::spawn(move || {
            let mut transaction = Some(connection.transaction().unwrap());
            for (step, reply) in todo {
                let done = match (step, &transaction) {
                    (Step::Send(messages), Some(transaction)) => transaction.append(&messages),
                    (Step::Execute(sql), Some(transaction)) => transaction.execute_batch(&sql),
                    (Step::Commit, Some(_)) => {
                        transaction.take().map_or(Ok(()), BlockingTransaction::commit)
                    }
                    (_, None) => Ok(()),
                };
                let _ = reply.send(done.map_err(mapped));
            }
        });
        Ok(Open(steps))
    }

    impl Open {
        async fn step(&self, step: Step) -> Result<()> {
            let (reply, answer) = oneshot::channel();
            self.0.send((step, reply)).unwrap();
            answer.await.unwrap()
        }
    }

    #[async_trait]
    impl OpenTransaction for Open {
        async fn send(&mut self, messages: &[Message]) -> Result<()> {
            self.step(Step::Send(messages.to_vec())).await
        }

        async fn draw(&mut self) -> Result<Option<i64>> {
            Ok(None)
        }

        async fn savepoint(&mut self, name: &str) -> Result<()> {
            self.step(Step::Execute(format!("SAVEPOINT {name}"))).await
        }

        async fn rollback_to(&mut self, name: &str) -> Result<()> {
            self.step(Step::Execute(format!("ROLLBACK TO {name}"))).await
        }

        async fn commit(self: Box<Self>) -> Result<()> {
            self.step(Step::Commit).await
        }

        async fn rollback(self: Box<Self>) -> Result<()> {
            self.step(Step::Execute("ROLLBACK".to_owned())).await
        }
    }
}

sendoff_conformance::store_suite!(Sqlite);

mod relays {
    use super::Sqlite;

    sendoff_conformance::relay_suite!(Sqlite);
}
