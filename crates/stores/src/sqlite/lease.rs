//! The lease: one lane, one owner at a time, fenced by an epoch.
//!
//! What does not belong here: whether to renew, to take or to leave. The relay decides.

use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension};
use sendoff_core::lane::Lane;
use sendoff_core::store::{Ask, LaneLease, LeaseGrant, LeaseRequest};
use sendoff_core::time::whole_micros;

use super::error::Failure;
use super::file::DatabaseFile;
use super::owner::{self, Process};
use super::settle::HeldKey;
use super::worker::Session;
use super::{schema, sql};

/// How many keys with held rows one lease looks after. Every key has its turn over the following
/// leases; with fewer keys, each time.
const KEYS_PER_LEASE: usize = 10_000;

/// Where the next lease goes on looking after held keys.
pub(super) type HeldCursor = Mutex<Option<Vec<u8>>>;

/// The lane's row.
struct LaneRow {
    owner: Option<String>,
    epoch: i64,
    until: i64,
    floor: i64,
}

pub(super) fn lease(
    session: &Session<'_>,
    request: &LeaseRequest,
    cursor: &HeldCursor,
) -> Result<LeaseGrant, Failure> {
    let this = Process::this();
    session.write(|tx| {
        let now = Session::now(tx)?;
        let until = later(now, request.ttl);
        heartbeat(tx, request, &this, (now, until))?;
        let dead = bury_the_dead(tx, request, &this)?;
        give_back_and_keep(tx, request, until)?;
        let me = request.relay.as_str();
        let mut lane = read_lane(tx, session.file)?;
        let is_free = match &lane.owner {
            None => true,
            Some(owner) => lane.until <= now || dead.contains(owner),
        };
        if matches!(request.ask, Ask::Share | Ask::All) && is_free {
            tx.prepare_cached(sql::LANE_TAKE)?.execute((me, until))?;
            lane = read_lane(tx, session.file)?;
        }
        let mut lanes = Vec::new();
        if lane.owner.as_deref() == Some(me) && lane.until > now {
            lanes.push(LaneLease { lane: Lane(0), epoch: lane.epoch, floor: lane.floor });
            let mut cursor = cursor.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *cursor = mend_orphans(tx, cursor.take(), now)?;
        }
        if request.ask == Ask::All && lanes.is_empty() {
            tx.prepare_cached(sql::RELAY_DELETE)?.execute([me])?;
        }
        let relays: i64 =
            tx.prepare_cached(sql::RELAYS_COUNT)?.query_row([now], |row| row.get(0))?;
        Ok(LeaseGrant {
            lanes,
            share: 1,
            lanes_total: 1,
            relays: usize::try_from(relays).unwrap_or(0),
        })
    })
}

/// A time `by` later; past the end of time, the end.
pub(super) fn later(now: i64, by: std::time::Duration) -> i64 {
    now.saturating_add(i64::try_from(whole_micros(by)).unwrap_or(i64::MAX))
}

fn heartbeat(
    tx: &Connection,
    request: &LeaseRequest,
    this: &Process,
    (now, until): (i64, i64),
) -> Result<(), Failure> {
    let me = request.relay.as_str();
    if request.ask == Ask::Leave {
        tx.prepare_cached(sql::RELAY_DELETE)?.execute([me])?;
    } else {
        tx.prepare_cached(sql::RELAY_WRITE)?.execute((
            me,
            until,
            now,
            &this.host,
            &this.boot_id,
            this.pid,
            this.started,
            env!("CARGO_PKG_VERSION"),
            &request.target,
        ))?;
    }
    tx.prepare_cached(sql::RELAYS_LAPSED_DELETE)?.execute([now])?;
    Ok(())
}

/// Deletes the rows of relays whose process on this machine has ended, and names them.
///
/// A lapsed row is gone by now, and with it the way to tell; but then the lease has lapsed as well.
fn bury_the_dead(
    tx: &Connection,
    request: &LeaseRequest,
    this: &Process,
) -> Result<Vec<String>, Failure> {
    let (Some(host), Some(boot_id)) = (&this.host, &this.boot_id) else {
        return Ok(Vec::new());
    };
    let mut others = tx.prepare_cached(sql::RELAYS_OF_THIS_MACHINE)?;
    let others = others.query_map((host, boot_id, request.relay.as_str()), |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get(2)?))
    })?;
    let mut dead = Vec::new();
    for other in others {
        let (id, pid, started) = other?;
        if owner::is_gone(pid, started) {
            dead.push(id);
        }
    }
    for id in &dead {
        tx.prepare_cached(sql::RELAY_DELETE)?.execute([id])?;
    }
    Ok(dead)
}

fn give_back_and_keep(tx: &Connection, request: &LeaseRequest, until: i64) -> Result<(), Failure> {
    let me = request.relay.as_str();
    for lease in request.release.iter().filter(|lease| lease.lane == Lane(0)) {
        tx.prepare_cached(sql::LANE_GIVE_BACK)?.execute((me, lease.epoch, lease.floor))?;
    }
    for lease in request.keep.iter().filter(|lease| lease.lane == Lane(0)) {
        tx.prepare_cached(sql::LANE_KEEP)?.execute((me, lease.epoch, until, lease.floor))?;
    }
    if request.ask != Ask::Leave {
        // What it took in a call whose answer was lost: the answer of this one lists it, so it has to
        // last as long as any other.
        tx.prepare_cached(sql::LANE_RENEW)?.execute((me, until))?;
    }
    Ok(())
}

fn read_lane(tx: &Connection, file: &DatabaseFile) -> Result<LaneRow, Failure> {
    let lane = tx
        .prepare_cached(sql::LANE)?
        .query_row([], |row| {
            Ok(LaneRow {
                owner: row.get(0)?,
                epoch: row.get(1)?,
                until: row.get(2)?,
                floor: row.get(3)?,
            })
        })
        .optional()?;
    lane.ok_or_else(|| schema::damaged("leasing the lane", file).into())
}

/// Whatever left held rows without anything to wait for: the first of them becomes that. Gives the
/// key behind which the next lease goes on, none to begin anew.
fn mend_orphans(
    tx: &Connection,
    after: Option<Vec<u8>>,
    now: i64,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut last = after;
    for _ in 0..KEYS_PER_LEASE {
        let key: Option<Vec<u8>> = match &last {
            None => tx.prepare_cached(sql::HELD_KEY_FIRST)?.query_row([], |row| row.get(0)),
            Some(last) => {
                tx.prepare_cached(sql::HELD_KEY_AFTER)?.query_row([last], |row| row.get(0))
            }
        }
        .optional()?;
        let Some(key) = key else {
            return Ok(None);
        };
        HeldKey::of(tx, &key)?.promote(tx, now)?;
        last = Some(key);
    }
    Ok(last)
}
