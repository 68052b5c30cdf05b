//! A transactional outbox and its relay.
//!
//! > What rolled back never left. What committed will arrive.
//!
//! A message is written in the caller's own transaction ([`Outbox`]); a relay moves committed
//! messages to a target and deletes them once the target has confirmed them ([`Relay`]).
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use sendoff::Outbox;
//!
//! /// Records an order and sends its message: both or neither.
//! fn place_order(
//!     database: &mut rusqlite::Connection,
//!     outbox: &Outbox,
//!     customer: &str,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let message = outbox.message("orders.placed").key(customer).body("a tent").build()?;
//!     let transaction = database.transaction()?;
//!     transaction.execute("INSERT INTO orders (customer) VALUES (?1)", [customer])?;
//!     outbox.send_blocking(&transaction, &message)?;
//!     transaction.commit()?;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! Nothing is on by default. Each feature brings one driver:
//!
//! | feature | brings |
//! | --- | --- |
//! | `postgres` | [`postgres`]: the store, and sends from tokio-postgres transactions |
//! | `sqlite` | [`sqlite`]: the store, and sends from rusqlite transactions |
//! | `sqlx-0_9-postgres`, `sqlx-0_9-sqlite` | sends from sqlx transactions |
//! | `nats` | [`nats`]: JetStream |
//! | `file` | [`file`]: JSON lines to a file or to standard output |
//!
//! What does not belong here: code. This crate names what the others have.

pub use sendoff_core::{
    Error, ErrorKind, Headers, Limits, Message, Outbox, PublishError, Publisher, Relay, Result, Wake,
    error, lane, memory, message, outbox, publisher, relay, store, time,
};

#[cfg(feature = "file")]
pub use sendoff_brokers::file;
#[cfg(feature = "nats")]
pub use sendoff_brokers::nats;
#[cfg(feature = "postgres")]
pub use sendoff_stores::postgres;
#[cfg(feature = "sqlite")]
pub use sendoff_stores::sqlite;
