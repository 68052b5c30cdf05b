//! The reference store and broker: what a database and a target do, in memory.
//!
//! [`MemoryStore`] keeps every promise of [`crate::store`]: leases with epochs, fences, rows that
//! wait or are held, quarantine, the horizon of sent ids, and transactions that overlap, whose
//! positions are drawn when they write and become visible when they commit. Barriers have one writer at
//! a time, as in SQLite: a transaction that touches one holds them all to its end. [`MemoryPublisher`]
//! records what it is given and fails as it is told. Both are for tests of programs that use
//! Sendoff, and for Sendoff's own: the suite that the databases pass runs on this store as well.
//!
//! What does not belong here: anything durable, and any rule that the databases do not have. What
//! is in memory is gone when the process is.

mod backlog;
mod barrier;
mod claim;
mod desk;
mod kept;
mod lease;
mod pause;
mod publisher;
mod row;
mod script;
mod settle;
mod state;
mod store;
mod tail;
mod transaction;
mod view;

pub use publisher::{Delivery, MemoryPublisher, MemoryTally};
pub use row::PlainRow;
pub use script::{Act, On};
pub use store::MemoryStore;
pub use transaction::{Memory, MemoryTransaction};
