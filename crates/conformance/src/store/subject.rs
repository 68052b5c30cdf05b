//! What a store's tests bring along.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::memory::PlainRow;
use sendoff_core::store::{ClaimStore, KeptDesk, OutboxDesk, OutboxStore, PauseDesk, TailDesk};
use sendoff_core::time::Timestamp;
use sendoff_core::{Message, Result};

/// A store with all of its sides.
pub trait Store: OutboxStore + OutboxDesk + PauseDesk + KeptDesk + TailDesk {
    /// The side of those who claim.
    fn claims(self: Arc<Self>) -> Arc<dyn ClaimStore>;
}

impl<T: OutboxStore + OutboxDesk + PauseDesk + KeptDesk + TailDesk + ClaimStore> Store for T {
    fn claims(self: Arc<Self>) -> Arc<dyn ClaimStore> {
        self
    }
}

/// What differs between stores.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// How many lanes a new store has.
    pub lanes: u16,
    /// Two transactions never write at the same time: the second waits or is refused. Otherwise
    /// both write, and either may commit first.
    pub one_writer: bool,
    /// A transaction can draw its position before it writes.
    pub draws_first: bool,
}

/// A place for data of one store, made anew for each case.
///
/// ```no_run
/// # use std::{sync::Arc, time::Duration};
/// # use sendoff_conformance::store::{Facts, OpenTransaction, PlainRow, Store, Subject};
/// # use sendoff_core::Result;
/// struct Mine;
///
/// #[async_trait::async_trait]
/// impl Subject for Mine {
///     const FACTS: Facts = Facts { lanes: 64, one_writer: false, draws_first: true };
///     async fn empty() -> Result<Self> { Ok(Mine) }
///     // ...
/// #   async fn open(&self) -> Result<Arc<dyn Store>> { unimplemented!() }
/// #   async fn begin(&self) -> Result<Box<dyn OpenTransaction>> { unimplemented!() }
/// #   async fn insert(&self, _row: PlainRow) -> Result<()> { Ok(()) }
/// #   async fn delete(&self, _id: &str) -> Result<()> { Ok(()) }
/// #   async fn now(&self) -> Result<sendoff_core::time::Timestamp> { unimplemented!() }
/// #   async fn pass(&self, _time: Duration) {}
/// #   async fn age_pairs(&self, _by: Duration) -> Result<()> { Ok(()) }
/// #   async fn set_schema_version(&self, _version: u32, _usable_from: Option<u32>) -> Result<()> { Ok(()) }
/// }
///
/// mod mine {
///     use super::Mine;
///     sendoff_conformance::store_suite!(Mine);
/// }
/// # fn main() {}
/// ```
#[async_trait]
pub trait Subject: Sized + Send + Sync + 'static {
    /// What this store is like.
    const FACTS: Facts;

    /// A new database or file without a schema. It goes when the subject is dropped.
    async fn empty() -> Result<Self>;

    /// A handle of its own on the data, with connections of its own, as another process has.
    async fn open(&self) -> Result<Arc<dyn Store>>;

    /// Begins a transaction on a connection of its own, as a user's program does.
    async fn begin(&self) -> Result<Box<dyn OpenTransaction>>;

    /// Inserts a row as a program in another language does: plain SQL with these columns, in a
    /// transaction of its own, and nothing of Sendoff's code.
    async fn insert(&self, row: PlainRow) -> Result<()>;

    /// Deletes the row of a message behind the store's back, as an operator with a SQL prompt may.
    async fn delete(&self, id: &str) -> Result<()>;

    /// The database's clock.
    async fn now(&self) -> Result<Timestamp>;

    /// Lets the database's clock go on by at least this much: sleeps, or turns it.
    async fn pass(&self, time: Duration);

    /// Makes every kept pair of source and id look older (`sent_at`).
    async fn age_pairs(&self, by: Duration) -> Result<()>;

    /// Makes the schema look like that of another release: records this version as the applied one, and
    /// from which version on programs may use it, where that is told.
    async fn set_schema_version(&self, version: u32, usable_from: Option<u32>) -> Result<()>;
}

/// A transaction that a user's program opened. Dropping it rolls back.
///
/// Errors are the driver's, as the store's own crate maps them, so that a second send of a pair is
/// [`sendoff_core::ErrorKind::Duplicate`].
#[async_trait]
pub trait OpenTransaction: Send {
    /// Sends through the driver's implementation of the transaction port.
    async fn send(&mut self, messages: &[Message]) -> Result<()>;

    /// Draws the next position, where [`Facts::draws_first`] says that this is possible. The next
    /// [`OpenTransaction::send`] is of one message and takes it.
    async fn draw(&mut self) -> Result<Option<i64>>;

    /// Sets a savepoint.
    async fn savepoint(&mut self, name: &str) -> Result<()>;

    /// Undoes what was done since the savepoint.
    async fn rollback_to(&mut self, name: &str) -> Result<()>;

    /// Commits.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Rolls back.
    async fn rollback(self: Box<Self>) -> Result<()>;
}

impl fmt::Debug for dyn OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenTransaction")
    }
}
