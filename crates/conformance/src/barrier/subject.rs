//! What a store's tests bring along.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierDesk, BarrierId, BarrierResult, Change, Changed,
    Continuation, Created, Outcomes, Page, Plan, Status,
};
use sendoff_core::store::{OutboxDesk, OutboxStore};
use sendoff_core::{Message, Result};

/// A store with all of its sides.
pub trait Store: OutboxStore + OutboxDesk + BarrierDesk {}

impl<T: OutboxStore + OutboxDesk + BarrierDesk> Store for T {}

/// A place for data of one store, made anew for each case.
#[async_trait]
pub trait Subject: Sized + Send + Sync + 'static {
    /// A new database or file without a schema. It goes when the subject is dropped.
    async fn empty() -> Result<Self>;

    /// A handle of its own on the data, with connections of its own, as another process has. Its source
    /// of keys is [`super::WrittenKeys`].
    async fn open(&self) -> Result<Arc<dyn Store>>;

    /// Begins a transaction on a connection of its own, as a user's program does.
    async fn begin(&self) -> Result<Box<dyn OpenTransaction>>;

    /// Lets everything that is stored of barriers, and the outbox's due times, be older by this much:
    /// turns the clock, or shifts every time in the rows.
    async fn age(&self, by: Duration) -> Result<()>;

    /// Makes a table of acknowledgements that were lost, and gives the query for a probe that finds
    /// them: rows of member and ok. `None` where the store runs no SQL.
    async fn lost(&self, acks: &[(&str, bool)]) -> Result<Option<String>>;
}

/// A transaction that a user's program opened. Dropping it rolls back.
///
/// The calls go through the driver's implementation of the barrier's port. Errors are the driver's, as
/// the store's own crate maps them.
#[async_trait]
pub trait OpenTransaction: Send {
    /// Creates a barrier.
    async fn create(&mut self, plan: &Plan) -> Result<Answer<Created>>;

    /// Acknowledges members.
    async fn ack(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>>;

    /// Changes a barrier.
    async fn change(&mut self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>>;

    /// How a barrier stands.
    async fn status(&mut self, id: &BarrierId) -> Result<Option<Status>>;

    /// The barrier of a continuation, by `Barriers::hydrate`.
    async fn hydrate(&mut self, continuation: &Continuation) -> Result<Option<BarrierResult>>;

    /// A page of outcomes.
    async fn outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>>;

    /// Sends a message: the caller's own work in this transaction.
    async fn send(&mut self, message: &Message) -> Result<()>;

    /// Sets a savepoint.
    async fn savepoint(&mut self, name: &str) -> Result<()>;

    /// Undoes what was done since the savepoint.
    async fn rollback_to(&mut self, name: &str) -> Result<()>;

    /// Commits or rolls back.
    async fn end(self: Box<Self>, end: End) -> Result<()>;
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// What it did is there.
    Commit,
    /// It never was.
    Rollback,
}

impl dyn OpenTransaction {
    pub(super) async fn commit(self: Box<Self>) -> Result<()> {
        self.end(End::Commit).await
    }

    pub(super) async fn rollback(self: Box<Self>) -> Result<()> {
        self.end(End::Rollback).await
    }
}

impl fmt::Debug for dyn OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenTransaction")
    }
}
