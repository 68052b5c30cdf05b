//! The ground that a run stands on: a database and a broker of its own, and how to read the truth
//! and the deliveries from them.
//!
//! What does not belong here: when to strike; that is [`crate::round`]'s.

mod broker;
mod store;
mod verdicts;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sendoff::store::OutboxDesk;

use crate::ledger::{Arrival, Committed};
use crate::writers::Books;

use broker::Broker;
use store::Store;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// A private PostgreSQL.
    Postgres,
    /// An SQLite file.
    Sqlite,
}

/// Which broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A private NATS server with JetStream.
    Nats,
    /// A file of JSON lines.
    File,
}

/// A database and a broker of the run's own.
pub struct Ground {
    store: Store,
    broker: Broker,
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground").field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}

impl Ground {
    /// Starts both, with empty tables and an empty stream that forgets message ids after
    /// `dedup_window`.
    ///
    /// # Errors
    /// Where a server does not start or the tables cannot be made.
    pub fn start(store: StoreKind, target: TargetKind, dedup_window: Duration) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sendoff-crash-").tempdir()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (store, broker) = runtime.block_on(async {
            let store = match store {
                StoreKind::Postgres => Store::postgres().await?,
                StoreKind::Sqlite => Store::sqlite(folder.path()).await?,
            };
            let broker = match target {
                TargetKind::Nats => Broker::nats(dedup_window).await?,
                TargetKind::File => Broker::file(folder.path()),
            };
            io::Result::Ok((store, broker))
        })?;
        Ok(Self { store, broker, runtime, folder })
    }

    /// The relays' `--store`.
    #[must_use]
    pub fn store_url(&self) -> String {
        self.store.url()
    }

    /// The relays' `--to`.
    #[must_use]
    pub fn target_url(&self) -> String {
        self.broker.url()
    }

    /// Where the writers write.
    #[must_use]
    pub fn books(&self) -> Books {
        self.store.books()
    }

    /// The operator's side of the store.
    #[must_use]
    pub fn desk(&self) -> Arc<dyn OutboxDesk> {
        self.store.desk()
    }

    /// A folder for what processes leave behind; in memory where the machine has such a place.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Runs something asynchronous to its end.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The orders that committed since the last call. Nobody may be writing.
    ///
    /// # Errors
    /// Those of the database.
    pub fn committed(&mut self) -> io::Result<Vec<Committed>> {
        self.runtime.block_on(self.store.committed())
    }

    /// What arrived since the last call, in the order of arrival.
    ///
    /// # Errors
    /// Those of the broker.
    pub fn arrived(&mut self) -> io::Result<Vec<Arrival>> {
        self.runtime.block_on(self.broker.arrived())
    }

    /// Verdicts that the database took from a relay which did not own the row's lane: the database
    /// itself keeps a list, whatever the product believes.
    ///
    /// # Errors
    /// Those of the database.
    pub fn foreign_verdicts(&self) -> io::Result<Vec<String>> {
        self.runtime.block_on(self.store.foreign_verdicts())
    }

    /// Crashes the database server, leaves it down for `down`, and starts it again.
    ///
    /// # Errors
    /// Where there is none, or it does not come back.
    pub fn crash_store(&mut self, hard: bool, down: Duration) -> io::Result<()> {
        self.store.crash(hard, down)
    }

    /// Kills the broker, leaves it down for `down`, and starts it again.
    ///
    /// # Errors
    /// Where there is none, or it does not come back.
    pub fn crash_broker(&mut self, down: Duration) -> io::Result<()> {
        self.broker.crash(down)
    }

    /// Stops the broker in its tracks for `silent`, with its connections open.
    ///
    /// # Errors
    /// Where there is none.
    pub fn silence_broker(&mut self, silent: Duration) -> io::Result<()> {
        self.broker.silence(silent)
    }
}
