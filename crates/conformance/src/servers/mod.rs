//! Private servers for tests: a PostgreSQL and a NATS of a test's own, on free loopback ports, in
//! a temporary folder, never the machine's own ones.
//!
//! [`Postgres`] and [`Nats`] can be killed, restarted and paused. [`Proxy`] stands between a client
//! and a server and breaks the line, [`PgBouncer`] one that
//! hands the server's connections from transaction to transaction. [`Disk`] can be filled. Tests that only need a server share one: [`postgres`],
//! [`nats`] and [`fresh_database`] use what the environment points at ([`POSTGRES_URL`],
//! [`NATS_URL`]), and otherwise start a private one for the process.
//!
//! Whatever is started here stops with the process that started it, also when that is killed:
//! `folder` has the guard. What does not belong here: anything that knows a table of Sendoff's.

mod authority;
mod disk;
mod folder;
mod nats;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod program;
mod proxy;
mod shared;

pub use authority::{Authority, Certified};
pub use disk::Disk;
pub use nats::{Nats, NatsConfig};
pub use pgbouncer::{PgBouncer, pooled};
pub use port::free_port;
pub use postgres::{Postgres, PostgresConfig};
pub use proxy::Proxy;
pub use shared::{NATS_URL, POSTGRES_URL, fresh_database, nats, postgres};
