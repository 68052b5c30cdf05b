//! PostgreSQL, version 15 and later.
//!
//! [`PostgresStore`] is the relay's and the operator's side, on connections of its own. The
//! caller's side is [`send`]: messages are written in the transaction that the caller opened, with
//! tokio-postgres or (feature `sqlx-0_9-postgres`) sqlx. [`PostgresWaker`] tells relays in other
//! processes that something was committed. For every other language there are the plain INSERT of
//! [`INSERT_SQL`] and the SQL function `sendoff.send`.
//!
//! Rights: a sender needs USAGE on the schema `sendoff` and INSERT on `sendoff.outbox`, nothing
//! else. Whoever works with barriers needs EXECUTE on the schema's functions, and no table. A relay
//! needs SELECT, INSERT, UPDATE and DELETE on the schema's tables, SELECT on its sequence and EXECUTE
//! on its functions; a migration needs to own them.
//!
//! All SQL stands in one module, migrations stand beside it. What does not belong here: decisions
//! about order, retries and batches. They are the relay's.

mod barrier;
mod claim;
mod desk;
mod error;
mod lease;
mod listen;
mod look;
mod options;
mod pool;
mod schema;
pub mod send;
#[cfg(feature = "deadpool-postgres-0_14")]
mod send_deadpool;
#[cfg(feature = "diesel-async-0_9")]
mod send_diesel;
#[cfg(feature = "sea-orm-2")]
mod send_sea_orm;
#[cfg(feature = "sqlx-0_9-postgres")]
mod send_sqlx;
mod session;
mod settle;
mod sql;
mod store;
mod waker;
mod wire;

pub use error::error_kind;
pub use options::PostgresOptions;
pub use sql::INSERT_SQL;
pub use store::PostgresStore;
pub use waker::PostgresWaker;

#[cfg(test)]
mod tests;
