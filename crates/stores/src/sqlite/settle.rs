//! Verdicts and the sweep: what the relay writes.
//!
//! What does not belong here: which verdict a row gets. The relay decides.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, OptionalExtension};
use sendoff_core::lane::Lane;
use sendoff_core::store::{Outcome, Settled, Verdict};

use super::error::Failure;
use super::keep;
use super::lease::later;
use super::sql;
use super::worker::Session;

/// A sweep passes over at most this many times the pairs that it may delete: what stands in quarantine
/// for days must not make every sweep walk over it.
const SWEEP_WINDOW: u32 = 4;

/// How many ready rows are searched for followers of the rows that failed, so that a failure in front
/// of a million rows holds the write lock for milliseconds all the same.
const FOLLOWERS_SEARCHED: u32 = 32_768;

/// How many held rows of one key are let go at once, since one statement holds the write lock for all
/// of them (measured: 0.2 s). Where there are more, one after the other takes the blocker's place.
const RELEASED_MAX: u64 = 50_000;

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
        let keeps = keep::keeps(tx)?;
        let mut settled = Settled::default();
        let mut leaving: Vec<(&Verdict, bool)> = Vec::new();
        let mut holding = Holding::default();
        for verdict in verdicts {
            let is_fenced = verdict.lane != Lane(0) || epoch != Some(verdict.epoch);
            if is_fenced {
                settled.fenced.push(verdict.seq);
            }
            match &verdict.outcome {
                // A fact, whoever owns the lane by now.
                Outcome::Published { releases } => {
                    if keeps {
                        keep::keep(tx, verdict.seq, relay, now)?;
                    }
                    if tx.prepare_cached(sql::PUBLISHED)?.execute([verdict.seq])? == 1 {
                        settled.published += 1;
                        leaving.push((verdict, *releases && !is_fenced));
                    }
                }
                _ if is_fenced => {}
                outcome => match set_aside(tx, verdict.seq, outcome, now)? {
                    Some(true) => holding.insert(verdict),
                    Some(false) => leaving.push((verdict, false)),
                    None => {}
                },
            }
        }
        holding.hold_followers(tx)?;
        // Last, so that a row which the same settlement holds is let go as well.
        settled.released = let_go_behind(tx, &leaving, now)?;
        if settled.published > 0 {
            let published = i64::try_from(settled.published).unwrap_or(i64::MAX);
            tx.prepare_cached(sql::PUBLISHED_COUNT)?.execute([published])?;
        }
        Ok(settled)
    })
}

/// Everything but a publish. Answers, of a row that failed, whether it is now what its key waits for.
fn set_aside(
    tx: &Connection,
    seq: i64,
    outcome: &Outcome,
    now: i64,
) -> Result<Option<bool>, Failure> {
    let (changed, holds) = match outcome {
        Outcome::Published { .. } => return Ok(None),
        Outcome::Held => {
            tx.prepare_cached(sql::HOLD)?.execute([seq])?;
            return Ok(None);
        }
        Outcome::Parked { mark } => {
            let changed = tx.prepare_cached(sql::PARK)?.execute([seq])?;
            if changed == 1 {
                tx.prepare_cached(sql::PARK_MARK)?.execute((seq, mark.as_ref()))?;
            }
            // Looks find its followers blocked.
            return Ok(None);
        }
        Outcome::Retry { after, error, counts, holds } => {
            let mut retry = tx.prepare_cached(sql::RETRY)?;
            (retry.execute((seq, later(now, *after), counts, error, holds))?, *holds)
        }
        Outcome::Quarantined { reason, error, holds } => {
            let mut quarantine = tx.prepare_cached(sql::QUARANTINE)?;
            (quarantine.execute((seq, now, reason.as_str(), error, holds))?, *holds)
        }
    };
    Ok((changed == 1).then_some(holds))
}

/// Keys whose rows failed in this settlement, with the lowest such seq.
#[derive(Default)]
struct Holding<'a>(HashMap<&'a [u8], i64>);

impl<'a> Holding<'a> {
    fn insert(&mut self, verdict: &'a Verdict) {
        if let Some(key) = &verdict.key {
            let first = self.0.entry(key.as_bytes()).or_insert(verdict.seq);
            *first = verdict.seq.min(*first);
        }
    }

    /// Marks the followers among the next ready rows, which a relay has probably read ahead. No index
    /// has ready rows by key, since every send would pay for it; a look finds the others blocked.
    fn hold_followers(&self, tx: &Connection) -> Result<(), Failure> {
        let Some(first) = self.0.values().min() else { return Ok(()) };
        let mut followers: Vec<i64> = Vec::new();
        let mut next = tx.prepare_cached(sql::FOLLOWERS)?;
        let mut next = next.query((first, FOLLOWERS_SEARCHED))?;
        while let Some(row) = next.next()? {
            let (seq, key): (i64, Option<Vec<u8>>) = (row.get(0)?, row.get(1)?);
            let failed = key.and_then(|key| self.0.get(key.as_slice()).copied());
            if failed.is_some_and(|failed| failed < seq) {
                followers.push(seq);
            }
        }
        for seq in followers {
            tx.prepare_cached(sql::HOLD_FOLLOWER)?.execute([seq])?;
        }
        Ok(())
    }
}

/// Lets go what was held behind rows that are gone, or hold nobody any more; answers how many.
fn let_go_behind(tx: &Connection, leaving: &[(&Verdict, bool)], now: i64) -> Result<u64, Failure> {
    if leaving.is_empty() || !tx.prepare_cached(sql::HAS_HELD)?.query_row([], |row| row.get(0))? {
        return Ok(0);
    }
    let mut released = 0;
    for (verdict, releases) in leaving {
        let Some(key) = &verdict.key else { continue };
        let held = HeldKey::of(tx, key.as_bytes())?;
        if *releases && held.stuck(tx)? <= RELEASED_MAX {
            released += held.let_go(tx)?;
            // They stand below what their owner has read, and below what it knows to be empty.
            tx.prepare_cached(sql::FLOOR_DOWN)?.execute([verdict.seq])?;
        } else {
            // The owner does not know that they wait for nothing any more.
            held.promote(tx, now)?;
        }
    }
    Ok(released)
}

/// A key and what its held rows wait for.
pub(super) struct HeldKey<'a> {
    /// Bytes, since another program can have stored text that is not UTF-8.
    key: &'a [u8],
    blocker: Option<i64>,
}

impl<'a> HeldKey<'a> {
    pub(super) fn of(tx: &Connection, key: &'a [u8]) -> Result<Self, Failure> {
        let blocker = tx.prepare_cached(sql::BLOCKER_FIRST)?.query_row([key], |row| row.get(0))?;
        Ok(Self { key, blocker })
    }

    /// How many held rows nothing blocks any more.
    pub(super) fn stuck(&self, tx: &Connection) -> Result<u64, Failure> {
        let mut count = tx.prepare_cached(sql::STUCK_COUNT)?;
        Ok(count.query_row((self.key, self.blocker), |row| row.get(0))?)
    }

    /// Makes them ready again; answers how many.
    fn let_go(&self, tx: &Connection) -> Result<u64, Failure> {
        let released = tx.prepare_cached(sql::LET_GO)?.execute((self.key, self.blocker))?;
        Ok(u64::try_from(released).unwrap_or(0))
    }

    /// Makes the first of them the blocker of the others: it is tried at once, and lets them go once
    /// it is published. If all became ready, a row that is sent now could go before them, since their
    /// owner has read past them.
    pub(super) fn promote(&self, tx: &Connection, now: i64) -> Result<(), Failure> {
        tx.prepare_cached(sql::PROMOTE)?.execute((self.key, self.blocker, now))?;
        Ok(())
    }
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
        let pairs = u64::try_from(old.len()).unwrap_or(u64::MAX);
        Ok(pairs + keep::sweep(tx, rows_max)?)
    })
}
