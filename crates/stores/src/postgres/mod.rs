//! PostgreSQL, version 15 and later.
//!
//! [`PostgresStore`] is the relay's and the operator's side, on connections of its own. The
//! caller's side is [`send`]: messages are written in the transaction that the caller opened, with
//! tokio-postgres or (feature `sqlx-0_9-postgres`) sqlx. [`PostgresWaker`] tells relays in other
//! processes that something was committed. For every other language there are the plain INSERT of
//! [`INSERT_SQL`] and the SQL function `sendoff.send`.
//!
//! Rights: [`Roles`] has the grants for senders, relays and whoever works with barriers or operates. A
//! migration needs to own the schema.
//!
//! Every statement is written for the schema `sendoff` and put into the one of the options where it is
//! prepared or sent: see [`SchemaName`].
//!
//! All SQL stands in one module, migrations stand beside it. What does not belong here: decisions
//! about order, retries and batches. They are the relay's.

mod backlog;
mod barrier;
mod claim;
mod desk;
mod doctor;
mod error;
mod keep;
mod lease;
mod listen;
mod look;
mod options;
mod pause;
mod pool;
mod roles;
mod schema;
mod schema_name;
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
mod statement;
mod store;
mod tail;
mod tls;
mod waker;
mod wire;
mod within;

pub use error::error_kind;
pub use options::{Pooler, PostgresOptions};
pub use roles::{Role, Roles};
pub use schema_name::SchemaName;
pub use sql::INSERT_SQL;
pub use store::PostgresStore;
pub use waker::PostgresWaker;
pub use within::Within;

#[cfg(test)]
mod tests;
