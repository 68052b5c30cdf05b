//! What goes once its week is over, and what cannot be.

use std::sync::atomic::{AtomicI64, Ordering};

use sendoff_core::barrier::{BarrierId, Continuation, plain};

use super::blocking::{Blocking, now};
use super::ledger::Ledger;
use crate::sqlite::error::Failure;
use crate::sqlite::sql::barrier as on;
use crate::sqlite::worker::Session;

/// How many members one transaction deletes, so that an acknowledgement waits for milliseconds only.
const BATCH_MEMBERS: u32 = 1_000;
/// How many open barriers one sweep looks at. Each has its turn over the following sweeps.
const OPEN_LOOKED_AT: u32 = 1_000;

/// Deletes members of barriers whose week is over, at most `rows_max`, and headers that have none
/// left; completes open barriers that have nothing pending. Answers how many members went.
pub(in crate::sqlite) fn sweep(
    session: &Session<'_>,
    rows_max: u32,
    cursor: &AtomicI64,
) -> Result<u64, Failure> {
    look_after(session, cursor)?;
    let mut swept = 0;
    while swept < u64::from(rows_max) {
        let left = u32::try_from(u64::from(rows_max) - swept).unwrap_or(u32::MAX);
        match batch(session, left.min(BATCH_MEMBERS))? {
            Some(members) => swept += members,
            None => break,
        }
    }
    Ok(swept)
}

/// A batch of one barrier's members; with its header, if they were the last. `None`: there is no
/// barrier whose week is over.
fn batch(session: &Session<'_>, members_max: u32) -> Result<Option<u64>, Failure> {
    session.write(|tx| {
        let at = Session::now(tx)?;
        let mut over = tx.prepare_cached(on::OVER)?;
        let mut over = over.query((at, Continuation::SOURCE))?;
        let Some(no) = over.next()?.map(|row| row.get::<_, i64>(0)).transpose()? else {
            return Ok(None);
        };
        drop(over);
        let members = tx.prepare_cached(on::SWEEP_MEMBERS)?.execute((no, members_max))?;
        let members = u64::try_from(members).unwrap_or(0);
        if members < u64::from(members_max) {
            for sql in [on::SWEEP_EVIDENCE, on::SWEEP_GROUPS, on::SWEEP_HEADER] {
                tx.prepare_cached(sql)?.execute([no])?;
            }
        }
        Ok(Some(members))
    })
}

fn look_after(session: &Session<'_>, cursor: &AtomicI64) -> Result<(), Failure> {
    let after = cursor.load(Ordering::Relaxed);
    let (mut stuck, mut last, mut count) = (Vec::new(), 0, 0);
    session.read(|tx| {
        let mut open = tx.prepare_cached(on::STUCK)?;
        let mut open = open.query((after, OPEN_LOOKED_AT, Session::now(tx)?))?;
        while let Some(row) = open.next()? {
            last = row.get(0)?;
            count += 1;
            if row.get(3)? {
                stuck.push(BarrierId::of_tenant(
                    row.get::<_, String>(1)?,
                    row.get::<_, String>(2)?,
                )?);
            }
        }
        Ok(())
    })?;
    for id in stuck {
        session.write(|tx| {
            let mut ledger = Ledger(Blocking(tx));
            Ok(now(plain::mend(&mut ledger, &id))?)
        })?;
    }
    cursor.store(if count < OPEN_LOOKED_AT { 0 } else { last }, Ordering::Relaxed);
    Ok(())
}
