//! Barriers in memory: the algorithm of a store with one writer, [`crate::barrier::plain`], on maps.
//!
//! One transaction at a time holds the barriers, from its first call about one to its end, as SQLite's
//! writer does; another waits for it, up to [`PATIENCE`]. Reads wait too. Outbox messages of
//! transactions that touch no barrier overlap as before.
//!
//! What does not belong here: a rule of barriers.

mod books;
mod desk;
mod ledger;
mod sweep;
mod transaction;

pub(super) use books::{Books, Session};

use std::time::Duration;

/// How long a transaction waits for another one that holds the barriers. Then it is told to run again.
const PATIENCE: Duration = Duration::from_secs(2);
