//! What is SQLite's own: files, processes, locks, threads. What every store has to do is in the
//! conformance suite, which `sqlite_conformance.rs` runs.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

#[cfg(feature = "sqlx-0_9-sqlite")]
mod barrier;
mod file;
mod full_disk;
mod keep;
mod locks;
mod news;
mod processes;
mod relay;
mod sends;
mod shop;
#[cfg(feature = "sqlx-0_9-sqlite")]
mod sqlx;
