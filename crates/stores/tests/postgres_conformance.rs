//! The suite for stores, on PostgreSQL: as it is mostly used, in a schema with an awkward name, and through
//! a pooler in transaction mode.
#![cfg(feature = "postgres")]
#![allow(clippy::expect_used, reason = "a test's own set-up has nobody to hand an error to")]

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_conformance::servers::fresh_database;
use sendoff_conformance::store::{Facts, OpenTransaction, PlainRow, Store, Subject};
use sendoff_core::outbox::Transaction;
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, Message, Result};
use sendoff_stores::postgres::{PostgresStore, SchemaName, error_kind};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

mod place;

use place::{Named, Place, Pooled, Usual};

/// A database of one case.
struct Database<P> {
    /// As the store and the callers' transactions come to it.
    through: String,
    client: Client,
    place: PhantomData<P>,
}

fn failed(error: &tokio_postgres::Error) -> Error {
    Error::new(error_kind(error), "running a case's own statement").detail(format!("{error:?}"))
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.map_err(|error| failed(&error))?;
    tokio::spawn(connection);
    Ok(client)
}

fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

#[async_trait]
impl<P: Place> Subject for Database<P> {
    const FACTS: Facts = Facts { lanes: 64, one_writer: false, draws_first: true };

    async fn empty() -> Result<Self> {
        let url = tokio::task::spawn_blocking(fresh_database)
            .await
            .expect("the task ends")
            .expect("a database");
        let client = connect(&url).await?;
        let through = P::through(&url).await;
        Ok(Self { through, client, place: PhantomData })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::new(&self.through, P::options())?))
    }

    async fn begin(&self) -> Result<Box<dyn OpenTransaction>> {
        Ok(Box::new(Open::begin(connect(&self.through).await?, P::schema()).await?))
    }

    async fn insert(&self, row: PlainRow) -> Result<()> {
        let due_at = row.due_at.map(micros);
        let body: &[u8] = &row.body;
        let params: [(&(dyn ToSql + Sync), Type); 7] = [
            (&row.id, Type::TEXT),
            (&row.source, Type::TEXT),
            (&row.topic, Type::TEXT),
            (&row.key, Type::TEXT),
            (&row.headers, Type::TEXT),
            (&body, Type::BYTEA),
            (&due_at, Type::INT8),
        ];
        let statement = &P::sql(
            "INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at) \
             VALUES ($1, $2, $3, $4, $5::jsonb, $6, \
                     timestamptz 'epoch' + $7 * interval '1 microsecond')",
        );
        self.client
            .execute_typed(statement, &params)
            .await
            .map(drop)
            .map_err(|error| failed(&error))
    }

    async fn delete(&self, id: &str) -> Result<()> {
        self.client
            .execute(&P::sql("DELETE FROM sendoff.outbox WHERE id = $1"), &[&id])
            .await
            .map(drop)
            .map_err(|error| failed(&error))
    }

    async fn now(&self) -> Result<Timestamp> {
        let row = self
            .client
            .query_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", &[])
            .await
            .map_err(|error| failed(&error))?;
        Timestamp::from_microsecond(row.get(0))
            .map_err(|error| Error::invalid("reading the time", error.to_string()))
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn age_pairs(&self, by: Duration) -> Result<()> {
        let by = i64::try_from(by.as_micros()).expect("no such age");
        self.client
            .execute(
                &P::sql(
                    "UPDATE sendoff.message_key \
                        SET sent_at = sent_at - $1::bigint * interval '1 microsecond', \
                            kept_at = kept_at - $1::bigint * interval '1 microsecond'",
                ),
                &[&by],
            )
            .await
            .map(drop)
            .map_err(|error| failed(&error))
    }

    async fn set_schema_version(&self, version: u32, usable_from: Option<u32>) -> Result<()> {
        let usable_from = usable_from.map_or("NULL".to_owned(), |from| from.to_string());
        self.client
            .batch_execute(&P::sql(&format!(
                "DELETE FROM sendoff.schema_version WHERE version > {version}; \
                 INSERT INTO sendoff.schema_version (version, checksum, usable_from) \
                 VALUES ({version}, '', {usable_from}) \
                 ON CONFLICT DO NOTHING"
            )))
            .await
            .map_err(|error| failed(&error))
    }
}

/// What is asked of an open transaction, and where the answer goes.
enum Ask {
    Send(Vec<Message>, oneshot::Sender<Result<()>>),
    Draw(oneshot::Sender<Result<Option<i64>>>),
    Run(String, oneshot::Sender<Result<()>>),
    End(bool, oneshot::Sender<Result<()>>),
}

/// A driver's transaction borrows its connection, so both live in a task of their own.
struct Open(mpsc::UnboundedSender<Ask>);

impl Open {
    async fn begin(mut client: Client, schema: SchemaName) -> Result<Self> {
        let (ask, mut asked) = mpsc::unbounded_channel();
        let (begun, begins) = oneshot::channel();
        tokio::spawn(async move {
            let mut transaction = match client.transaction().await {
                Ok(transaction) => schema.on(transaction),
                Err(error) => return drop(begun.send(Err(failed(&error)))),
            };
            let _ = begun.send(Ok(()));
            let mut drawn: Option<i64> = None;
            while let Some(ask) = asked.recv().await {
                match ask {
                    Ask::Send(messages, answer) => {
                        let sent = match drawn.take() {
                            None => transaction.append(&messages).await,
                            Some(seq) => send_at(&transaction, &schema, seq, &messages[0]).await,
                        };
                        let _ = answer.send(sent.map_err(|error| failed(&error)));
                    }
                    Ask::Draw(answer) => {
                        let draw = format!("SELECT nextval('{}.outbox_seq_seq')", schema.quoted());
                        let row = transaction.query_typed_one(&draw, &[]).await;
                        drawn = row.as_ref().ok().map(|row| row.get(0));
                        let _ = answer.send(row.map(|_| drawn).map_err(|error| failed(&error)));
                    }
                    Ask::Run(statement, answer) => {
                        let run = transaction.batch_execute(&statement).await;
                        let _ = answer.send(run.map_err(|error| failed(&error)));
                    }
                    Ask::End(commits, answer) => {
                        let ended = if commits {
                            Transaction::commit(transaction).await
                        } else {
                            transaction.into_inner().rollback().await
                        };
                        let _ = answer.send(ended.map_err(|error| failed(&error)));
                        return;
                    }
                }
            }
        });
        begins.await.expect("an answer")?;
        Ok(Self(ask))
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<Result<T>>) -> Ask) -> Result<T> {
        let (answer, answers) = oneshot::channel();
        assert!(self.0.send(ask(answer)).is_ok(), "the transaction is open");
        answers.await.expect("an answer")
    }
}

/// The insert of a program that drew its position earlier.
async fn send_at(
    transaction: &tokio_postgres::Transaction<'_>,
    schema: &SchemaName,
    seq: i64,
    message: &Message,
) -> std::result::Result<(), tokio_postgres::Error> {
    let body: &[u8] = message.body();
    transaction
        .execute(
            &format!(
                "INSERT INTO {}.outbox (seq, id, source, topic, key, body) \
                 OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5, $6)",
                schema.quoted()
            ),
            &[&seq, &message.id(), &message.source(), &message.topic(), &message.key(), &body],
        )
        .await
        .map(drop)
}

#[async_trait]
impl OpenTransaction for Open {
    async fn send(&mut self, messages: &[Message]) -> Result<()> {
        self.ask(|answer| Ask::Send(messages.to_vec(), answer)).await
    }

    async fn draw(&mut self) -> Result<Option<i64>> {
        self.ask(Ask::Draw).await
    }

    async fn savepoint(&mut self, name: &str) -> Result<()> {
        self.ask(|answer| Ask::Run(format!("SAVEPOINT \"{name}\""), answer)).await
    }

    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.ask(|answer| Ask::Run(format!("ROLLBACK TO SAVEPOINT \"{name}\""), answer)).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.ask(|answer| Ask::End(true, answer)).await
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.ask(|answer| Ask::End(false, answer)).await
    }
}

type Postgres = Database<Usual>;

sendoff_conformance::store_suite!(Postgres);

mod in_another_schema {
    type Postgres = super::Database<super::Named>;

    sendoff_conformance::store_suite!(Postgres);
}

mod through_a_pooler {
    type Postgres = super::Database<super::Pooled>;

    sendoff_conformance::store_suite!(Postgres);
}

mod relays {
    use super::Postgres;

    sendoff_conformance::relay_suite!(Postgres);
}

mod relays_through_a_pooler {
    type Postgres = super::Database<super::Pooled>;

    sendoff_conformance::relay_suite!(Postgres);
}
