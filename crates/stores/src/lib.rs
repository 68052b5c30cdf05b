//! Sendoff's stores: one folder per database, the same file names in each.
//!
//! What does not belong here: a decision about order, retries or batches (the relay in
//! `sendoff-core` takes them), a broker, a configuration file.

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
