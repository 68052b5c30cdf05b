//! How much there is and how old it is, at a cost that has a bound.

use std::time::Duration;

use sendoff_core::store::Backlog;

use super::error::Failure;
use super::sql::backlog as sql;
use super::worker::Session;

pub(super) fn backlog(session: &Session<'_>, count_max: u32) -> Result<Backlog, Failure> {
    session.read(|tx| {
        let now = Session::now(tx)?;
        let count = |sql: &str| -> rusqlite::Result<u64> {
            tx.prepare_cached(sql)?.query_row([count_max], |row| row.get(0))
        };
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (ready, first): (u64, Option<i64>) =
            tx.prepare_cached(sql::READY)?.query_row([count_max], read)?;
        let (due, due_first): (u64, Option<i64>) =
            tx.prepare_cached(sql::DUE)?.query_row((count_max, now), read)?;
        let (failed, failed_first): (u64, Option<i64>) =
            tx.prepare_cached(sql::FAILED)?.query_row([count_max], read)?;
        let oldest = [first, due_first, failed_first].into_iter().flatten().min();
        Ok(Backlog {
            oldest_due: oldest.map(|since| age(now, since)),
            due: (ready + due + failed).min(u64::from(count_max)),
            held: count(sql::HELD)?,
            quarantined: count(sql::QUARANTINED)?,
        })
    })
}

/// How long ago that was, in the store's microseconds.
pub(super) fn age(now: i64, since: i64) -> Duration {
    Duration::from_micros(u64::try_from(now.saturating_sub(since)).unwrap_or(0))
}
