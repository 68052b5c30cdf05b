//! What the PostgreSQL store has beyond the suite for all stores: its sends by other drivers and
//! languages, its schema, its connections, and what happens when the server or the line fails.
#![cfg(feature = "postgres")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test panics where it fails")]

mod barrier_races;
mod barrier_stage;
mod faults;
mod held;
mod line;
mod news;
mod schema;
mod send;
#[cfg(feature = "sqlx-0_9-postgres")]
mod send_sqlx;
mod stage;
