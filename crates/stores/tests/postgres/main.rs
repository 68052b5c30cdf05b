//! What the PostgreSQL store has beyond the suite for all stores: its sends by other drivers and
//! languages, its schema, its connections, and what happens when the server or the line fails.
#![cfg(feature = "postgres")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test panics where it fails")]

mod barrier_close;
mod barrier_faults;
mod barrier_kills;
mod barrier_quorum;
mod barrier_races;
mod barrier_sql;
mod barrier_stage;
mod commit_times;
mod doctor;
#[cfg(any(
    feature = "deadpool-postgres-0_14",
    feature = "diesel-async-0_9",
    feature = "sea-orm-2",
    feature = "sqlx-0_9-postgres"
))]
mod drivers;
mod faults;
mod full_disk;
mod held;
mod keep;
mod line;
mod news;
#[cfg(all(
    feature = "deadpool-postgres-0_14",
    feature = "diesel-async-0_9",
    feature = "sea-orm-2",
    feature = "sqlx-0_9-postgres"
))]
mod pooler;
mod relay;
#[cfg(all(
    feature = "deadpool-postgres-0_14",
    feature = "diesel-async-0_9",
    feature = "sea-orm-2",
    feature = "sqlx-0_9-postgres"
))]
mod rights;
#[cfg(all(
    feature = "deadpool-postgres-0_14",
    feature = "diesel-async-0_9",
    feature = "sea-orm-2",
    feature = "sqlx-0_9-postgres"
))]
mod roles;
mod row_locks;
mod running;
mod schema;
#[cfg(all(
    feature = "deadpool-postgres-0_14",
    feature = "diesel-async-0_9",
    feature = "sea-orm-2",
    feature = "sqlx-0_9-postgres"
))]
mod schema_name;
mod send;
#[cfg(feature = "deadpool-postgres-0_14")]
mod send_deadpool;
#[cfg(feature = "diesel-async-0_9")]
mod send_diesel;
#[cfg(feature = "sea-orm-2")]
mod send_sea_orm;
#[cfg(feature = "sqlx-0_9-postgres")]
mod send_sqlx;
#[cfg(all(
    feature = "deadpool-postgres-0_14",
    feature = "diesel-async-0_9",
    feature = "sea-orm-2",
    feature = "sqlx-0_9-postgres"
))]
mod senders;
mod side_by_side;
mod stage;
mod sweep;
mod tls;
