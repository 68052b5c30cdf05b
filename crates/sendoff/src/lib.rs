//! What rolled back never left. What committed will arrive.
//!
//! A service that commits to its database and then talks to the world loses work at the seam: the
//! commit happens and the publish does not, or the publish happens and the commit does not. Sendoff
//! closes the seam. A message is a row of your own transaction; a relay publishes committed rows to
//! a broker and forgets them once the broker has confirmed them.
//!
//! # Send
//!
//! You open the transaction and you end it; Sendoff adds one statement. Only transaction types can
//! send, so that forgetting to open one does not compile.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use sendoff::sqlite::{SqliteOptions, SqliteStore};
//! use sendoff::store::OutboxDesk;
//! use sendoff::{Outbox, Relay};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::open(&path, SqliteOptions { create: true, ..Default::default() })?;
//! store.migrate().await?;
//!
//! let mut connection = rusqlite::Connection::open(&path)?;
//! connection.execute_batch("CREATE TABLE orders (item TEXT)")?;
//! let outbox = Outbox::new("shop");
//!
//! let transaction = connection.transaction()?;
//! transaction.execute("INSERT INTO orders VALUES ('a tent')", [])?;
//! let placed = outbox.message("orders.placed").key("customer-7").body("a tent").build()?;
//! outbox.send_blocking(&transaction, &placed)?;
//! transaction.commit()?; // or drop it: then neither the order nor the message was there
//!
//! // The relay runs in this process, in another one, or as `sendoff relay`.
//! let publisher = Arc::new(sendoff::memory::MemoryPublisher::new());
//! let store = Arc::new(store);
//! let relay = Relay::builder(store.clone(), publisher).build()?;
//! let once = relay.run_once(store, std::future::pending()).await?;
//! assert_eq!(once.tally.settled, 1);
//! # Ok(()) }
//! ```
//!
//! # What is promised
//!
//! A message exists if and only if its transaction committed. It is delivered at least once, always
//! with the same id, and the messages of one key are first delivered in the order of their sends.
//! `docs/explanation/guarantees.md` has every guarantee with what it does not cover.
//!
//! # Features
//!
//! None is on by default. `postgres` (tokio-postgres), `sqlite` (rusqlite), `sqlx-0_9-postgres` and
//! `sqlx-0_9-sqlite` are stores, with sends from that driver's transactions;
//! `deadpool-postgres-0_14`, `diesel-async-0_9` and `sea-orm-2` let these drivers' transactions send;
//! `opentelemetry` carries the trace of the sender's span through the outbox to the publish.
//! `nats`, `webhook` and `file` are targets; `formats` has the envelopes of BabelQueue and CloudEvents.
//! A target of your own is one small trait: [`Publisher`].

pub use sendoff_core::{
    Error, ErrorKind, Headers, Limits, Message, Outbox, PublishError, Publisher, Relay, Result,
    Wake,
};
pub use sendoff_core::{
    barrier, error, lane, memory, message, outbox, publisher, relay, store, time,
};

#[cfg(feature = "file")]
pub use sendoff_brokers::file;
#[cfg(feature = "nats")]
pub use sendoff_brokers::nats;
#[cfg(feature = "webhook")]
pub use sendoff_brokers::webhook;
#[cfg(any(feature = "nats", feature = "file", feature = "webhook"))]
pub use sendoff_brokers::{Target, TargetOptions};
#[cfg(feature = "formats")]
pub use sendoff_formats::{babelqueue, event, json};
#[cfg(feature = "postgres")]
pub use sendoff_stores::postgres;
#[cfg(feature = "sqlite")]
pub use sendoff_stores::sqlite;
