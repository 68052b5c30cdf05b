//! Verdicts and the sweep: what the relay writes.
//!
//! What does not belong here: which verdict a row gets. The relay decides.

use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, OptionalExtension};
use sendoff_core::lane::Lane;
use sendoff_core::store::{Outcome, Settled, Verdict};

use super::error::Failure;
use super::lease::later;
use super::sql;
use super::worker::Session;

/// A sweep passes over at most this many times the pairs that it may delete: what stands in quarantine
/// for days must not make every sweep walk over it.
const SWEEP_WINDOW: u32 = 4;

/// Writes verdicts. The write lock is the lock on the lane: nobody takes it over meanwhile.
pub(super) fn settle(
    session: &Session<'_>,
    relay: &str,
    verdicts: &[Verdict],
) -> Result<Settled, Failure> {
    session.write(|tx| {
        let now = Session::now(tx)?;
        let epoch: Option<i64> = tx
            .prepare_cached(sql::LANE_HELD_BY)?
            .query_row([relay], |row| row.get(0))
            .optional()?;
        let mut settled = Settled::default();
        let mut freed: Vec<&str> = Vec::new();
        for verdict in verdicts {
            let is_fenced = verdict.lane != Lane(0) || epoch != Some(verdict.epoch);
            if is_fenced {
                settled.fenced.push(verdict.seq);
            }
            match &verdict.outcome {
                // A fact, whoever owns the lane by now.
                Outcome::Published { releases } => {
                    let gone = tx.prepare_cached(sql::PUBLISHED)?.execute([verdict.seq])?;
                    settled.published += u64::try_from(gone).unwrap_or(0);
                    if *releases {
                        freed.extend(verdict.key.as_deref());
                    }
                }
                _ if is_fenced => {}
                outcome => set_aside(tx, verdict.seq, outcome, now)?,
            }
        }
        // Last, so that a row which the same settlement holds is let go as well.
        for key in freed {
            settled.released += let_go(tx, key.as_bytes())?;
        }
        if settled.published > 0 {
            let published = i64::try_from(settled.published).unwrap_or(i64::MAX);
            tx.prepare_cached(sql::PUBLISHED_COUNT)?.execute([published])?;
        }
        Ok(settled)
    })
}

/// Everything but a publish.
///
/// `holds` writes nothing by itself: the row becomes a blocker, and a look gives what comes after it
/// in its key as blocked, whenever it was sent.
fn set_aside(tx: &Connection, seq: i64, outcome: &Outcome, now: i64) -> Result<(), Failure> {
    match outcome {
        Outcome::Published { .. } => {}
        Outcome::Held => {
            tx.prepare_cached(sql::HOLD)?.execute([seq])?;
        }
        Outcome::Retry { after, error, counts, .. } => {
            tx.prepare_cached(sql::RETRY)?.execute((seq, later(now, *after), counts, error))?;
        }
        Outcome::Quarantined { reason, error, .. } => {
            tx.prepare_cached(sql::QUARANTINE)?.execute((seq, now, reason.as_str(), error))?;
        }
    }
    Ok(())
}

/// Lets go the held rows of a key that nothing blocks any more; answers how many.
pub(super) fn let_go(tx: &Connection, key: &[u8]) -> Result<u64, Failure> {
    let released = tx.prepare_cached(sql::LET_GO)?.execute([key])?;
    Ok(u64::try_from(released).unwrap_or(0))
}

/// Deletes pairs whose horizon has passed and whose message is gone.
///
/// Seq order is the order of time, so the old ones come first; the walk begins anew once it meets
/// young ones. Behind a page of rows that are still in the outbox it goes on where it was.
pub(super) fn sweep(
    session: &Session<'_>,
    rows_max: u32,
    cursor: &AtomicI64,
) -> Result<u64, Failure> {
    let horizon = session.file.options.horizon;
    session.write(|tx| {
        let before = Session::now(tx)?.saturating_sub(later(0, horizon));
        let mut after = cursor.load(Ordering::Relaxed);
        let mut old = Vec::new();
        let mut ends_young = true;
        {
            let window = rows_max.saturating_mul(SWEEP_WINDOW);
            let mut pairs = tx.prepare_cached(sql::SWEEP_WINDOW)?;
            let mut pairs = pairs.query((after, window, before))?;
            while let Some(pair) = pairs.next()? {
                let (is_old, is_gone): (bool, bool) = (pair.get(1)?, pair.get(2)?);
                after = pair.get(0)?;
                ends_young = !is_old;
                if is_old && is_gone {
                    old.push(after);
                }
                if u32::try_from(old.len()).unwrap_or(u32::MAX) >= rows_max {
                    break;
                }
            }
        }
        for seq in &old {
            tx.prepare_cached(sql::SWEEP_DELETE)?.execute([seq])?;
        }
        cursor.store(if ends_young { 0 } else { after }, Ordering::Relaxed);
        Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
    })
}
