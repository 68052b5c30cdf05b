//! Barriers in SQLite: the algorithm of a store with one writer, [`sendoff_core::barrier::plain`].
//!
//! It runs over a seam of two verbs, [`statements::Statements`], so that rusqlite and sqlx run the
//! same text. Every call takes the write lock before it reads: what it reads is then what it writes
//! about, and a transaction that has read nothing before waits for the lock as its `busy_timeout`
//! says, instead of being refused.
//!
//! What does not belong here: a rule of barriers, which is core's; SQL, which is in `sql/barrier.rs`.

mod blocking;
mod desk;
mod header;
mod ledger;
mod probe;
mod read;
mod statements;
pub(super) mod sweep;
#[cfg(feature = "sqlx-0_9-sqlite")]
mod with_sqlx;
