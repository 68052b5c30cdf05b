//! SQLite: the outbox in the service's own file, WAL mode, several processes at once.
//!
//! Sends are in the caller's transaction ([`rusqlite::Transaction`], [`rusqlite::Savepoint`], with
//! the feature `sqlx-0_9-sqlite` also `sqlx::Transaction`), or a plain INSERT ([`INSERT_SQL`]) of any
//! language. [`SqliteStore`] is the relay's and the operator's side.
//!
//! What SQLite's nature decides here:
//!
//! - **One lane.** There is one writer at a time, so lanes would share out nothing. One fenced lease
//!   covers the whole store; further relays stand by.
//! - **Horizons are exact.** A seq is drawn inside the write lock and commits are serial, so whoever
//!   reads seq `n` sees everything at or below `n`: [`sendoff_core::store::Horizon`] has equal numbers.
//! - **Threads of its own.** SQLite blocks, so each connection lives on a thread that takes jobs from
//!   a bounded queue. Nothing blocks the async runtime, and a dropped future leaves a job that either
//!   was not begun or is finished whole.
//! - **Barriers** ([`sendoff_core::barrier`]) run the algorithm of a store with one writer, in the same
//!   transactions as sends. Each of their calls takes the write lock before it reads.
//! - **The clock** is SQLite's, that is the machine's, in whole milliseconds.
//!
//! ```
//! use sendoff_core::Outbox;
//! use sendoff_core::store::OutboxDesk;
//! use sendoff_stores::sqlite::{SqliteOptions, SqliteStore};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::open(&path, SqliteOptions { create: true, ..Default::default() })?;
//! store.migrate().await?;
//!
//! let mut connection = rusqlite::Connection::open(&path)?;
//! connection.execute_batch("CREATE TABLE orders (item TEXT)")?;
//! let outbox = Outbox::new("shop");
//! let transaction = connection.transaction()?;
//! transaction.execute("INSERT INTO orders VALUES ('a tent')", [])?;
//! outbox.send_blocking(&transaction, &outbox.message("orders.placed").body("a tent").build()?)?;
//! transaction.commit()?;
//!
//! assert_eq!(store.stats().await?.pending, 1);
//! # Ok(()) }
//! ```
//!
//! A barrier is created and acknowledged in the same transactions:
//!
//! ```
//! use sendoff_core::barrier::{BarrierDesk, Barriers, Outcome};
//! # use sendoff_core::store::OutboxDesk;
//! # use sendoff_stores::sqlite::{SqliteOptions, SqliteStore};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::open(&path, SqliteOptions { create: true, ..Default::default() })?;
//! store.migrate().await?;
//! let barriers = Barriers::new();
//! let plan = barriers.plan("b")?.members(["a", "b"]).continue_with("done").build()?;
//! store.create_barrier(&plan).await??;
//!
//! let mut connection = rusqlite::Connection::open(&path)?;
//! let transaction = connection.transaction()?;
//! barriers.ack_blocking(&transaction, "b", "a", Outcome::ok())?;
//! assert!(barriers.ack_blocking(&transaction, "b", "b", Outcome::ok())?.complete);
//! transaction.commit()?;
//!
//! assert_eq!(store.stats().await?.pending, 1, "the continuation");
//! # Ok(()) }
//! ```
//!
//! What does not belong here: a decision about order, retries or batches.

mod backlog;
mod barrier;
mod claim;
mod desk;
mod doctor;
mod error;
mod file;
mod keep;
mod lease;
mod look;
mod mend;
mod news;
mod options;
mod owner;
mod pause;
mod schema;
mod send;
mod settle;
mod sql;
mod store;
mod tail;
mod worker;

pub use error::kind_of;
pub use options::{SqliteOptions, Synchronous};
pub use send::Rusqlite;
#[cfg(feature = "sqlx-0_9-sqlite")]
pub use send::Sqlx09;
pub use sql::INSERT_SQL;
pub use store::SqliteStore;
