//! Writers: connections that commit business rows, with or without a message in the transaction.
//!
//! What a user's service does, over and over. How many there are, for how long and what is compared
//! with what is `measure`'s business.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use sendoff_core::{Message, Outbox, Wake};
use sendoff_stores::postgres::{PostgresOptions, PostgresWaker};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

use crate::failure::{Doing, Result};
use crate::ground::Ground;
use crate::workload::{BODY_BYTES, SOURCE, TOPIC};

/// What a transaction writes beside its business row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Nothing.
    BusinessOnly,
    /// One message.
    One(Wakes),
    /// So many messages, with one statement.
    Many(u64),
}

/// Whether and how relays are woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakes {
    /// Not at all: a relay polls.
    No,
    /// By the product's waker, after the commit, on a connection of its own.
    AfterCommit,
    /// By NOTIFY in the caller's transaction, which the product never does; for comparison.
    InTransaction,
}

/// Who is told of a commit.
#[derive(Debug, Clone)]
pub(crate) enum Woken {
    /// Nobody.
    No,
    /// A relay in this process.
    InProcess(Wake),
    /// Relays in other processes, by the product's waker.
    ByNotification(PostgresWaker),
}

impl Woken {
    fn after_commit(&self) {
        match self {
            Self::No => {}
            Self::InProcess(wake) => wake.wake(),
            Self::ByNotification(waker) => waker.wake(),
        }
    }
}

impl Writing {
    /// How many messages a transaction has.
    pub(crate) fn messages(self) -> u64 {
        match self {
            Self::BusinessOnly => 0,
            Self::One(_) => 1,
            Self::Many(count) => count,
        }
    }
}

/// Makes the business table where it is not there.
///
/// # Errors
/// Those of the database.
pub(crate) async fn create_business(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS business (\
                 id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
                 customer text NOT NULL, amount bigint NOT NULL, \
                 placed_at timestamptz NOT NULL DEFAULT now())",
        )
        .await
        .doing("creating the business table")
}

/// Connected writers.
#[derive(Debug)]
pub(crate) struct Writers {
    each: Vec<Arc<Mutex<Writer>>>,
    committed: Arc<AtomicU64>,
}

impl Writers {
    /// Connects them and lets each commit once, so that every statement is prepared.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn connect(
        ground: &Ground,
        connections: usize,
        writing: Writing,
    ) -> Result<Self> {
        let committed = Arc::new(AtomicU64::new(0));
        let woken = match writing {
            Writing::One(Wakes::AfterCommit) => Woken::ByNotification(waker(ground)?),
            _ => Woken::No,
        };
        let connecting = (0..connections).map(|_| {
            let (woken, committed) = (woken.clone(), Arc::clone(&committed));
            async move {
                let mut writer = Writer::connect(ground, writing, woken).await?;
                writer.commit_one(None).await?;
                committed.fetch_add(1, Ordering::Relaxed);
                Ok(Arc::new(Mutex::new(writer)))
            }
        });
        // All at once: so many commits one after the other take seconds on a slow disk.
        let each = try_join_all(connecting).await?;
        Ok(Self { each, committed })
    }

    /// How many transactions committed so far.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// All of them commit one transaction after the other until `until` has come.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) async fn write_until(&self, until: Instant) -> Result<()> {
        let mut running = JoinSet::new();
        for writer in &self.each {
            let (writer, committed) = (Arc::clone(writer), Arc::clone(&self.committed));
            running.spawn(async move {
                let mut writer = writer.lock().await;
                while Instant::now() < until {
                    writer.commit_one(None).await?;
                    committed.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.doing("writing")??;
        }
        Ok(())
    }
}

/// The product's waker.
///
/// # Errors
/// Where the URL is not one.
pub(crate) fn waker(ground: &Ground) -> Result<PostgresWaker> {
    PostgresWaker::new(ground.url(), PostgresOptions::default()).doing("making the waker")
}

/// One connection that commits.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Client,
    insert: Statement,
    writing: Writing,
    outbox: Outbox,
    body: bytes::Bytes,
    woken: Woken,
}

impl Writer {
    /// Connects.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn connect(ground: &Ground, writing: Writing, woken: Woken) -> Result<Self> {
        let client = ground.connect().await?;
        let insert = client
            .prepare("INSERT INTO business (customer, amount) VALUES ($1, $2)")
            .await
            .doing("preparing the business insert")?;
        Ok(Self {
            client,
            insert,
            writing,
            outbox: Outbox::new(SOURCE),
            body: vec![b'x'; BODY_BYTES].into(),
            woken,
        })
    }

    /// Commits one transaction and tells whom it may concern. `id` is its message's, where it is
    /// not to be a new one. Answers when the commit had returned.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn commit_one(&mut self, id: Option<String>) -> Result<Instant> {
        const DOING: &str = "writing a business row";
        let customer = format!("customer-{}", fastrand::u32(..10_000));
        let messages = self.messages(&customer, id)?;
        let mut transaction = self.client.transaction().await.doing(DOING)?;
        transaction.execute(&self.insert, &[&customer, &1_i64]).await.doing(DOING)?;
        let sent = match messages.as_slice() {
            [] => Ok(()),
            [message] => self.outbox.send(&mut transaction, message).await,
            many => self.outbox.send_all(&mut transaction, many).await,
        };
        sent.doing("sending")?;
        if self.writing == Writing::One(Wakes::InTransaction) {
            transaction.batch_execute("NOTIFY sendoff_outbox").await.doing(DOING)?;
        }
        transaction.commit().await.doing(DOING)?;
        let committed_at = Instant::now();
        self.woken.after_commit();
        Ok(committed_at)
    }

    fn messages(&self, customer: &str, mut id: Option<String>) -> Result<Vec<Message>> {
        (0..self.writing.messages())
            .map(|_| {
                let message = self.outbox.message(TOPIC).key(customer).body(self.body.clone());
                let message = match id.take() {
                    Some(id) => message.id(id),
                    None => message,
                };
                message.build().doing("making a message")
            })
            .collect()
    }
}
