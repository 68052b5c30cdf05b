//! Leases: one transaction for the lanes, one statement for what is held in them without a reason.

use std::sync::{Mutex, PoisonError};

use futures_util::future::{join, join3};
use sendoff_core::lane::Lane;
use sendoff_core::store::{Ask, LaneLease, LeaseGrant, LeaseRequest, RelayId};
use sendoff_core::time::whole_micros;
use sendoff_core::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::look::lane_number;
use super::pool::{Checkout, Pool};
use super::sql;

pub(super) const DOING: &str = "leasing lanes";

/// Keys with held rows that one lease call asks about.
const KEYS_MAX: i64 = 2_000;

/// Lanes as three columns.
#[derive(Default)]
struct Lanes {
    lanes: Vec<i16>,
    epochs: Vec<i64>,
    floors: Vec<i64>,
}

impl Lanes {
    fn of(leases: &[LaneLease]) -> Self {
        let mut lanes = Self::default();
        for lease in leases {
            lanes.lanes.push(lane_number(lease.lane));
            lanes.epochs.push(lease.epoch);
            lanes.floors.push(lease.floor);
        }
        lanes
    }
}

pub(super) async fn lease(pool: &Pool, request: &LeaseRequest) -> Result<LeaseGrant> {
    let mut checkout = pool.checkout(DOING).await?;
    let keep = Lanes::of(&request.keep);
    let back = Lanes::of(&request.release);
    let ttl = i64::try_from(whole_micros(request.ttl)).unwrap_or(i64::MAX);
    let machine = Machine::this();
    let statement = checkout.statement(sql::LEASE).await?;
    let relay = request.relay.as_str();
    let (all, leave) = (request.ask == Ask::All, request.ask == Ask::Leave);
    let share = all || request.ask == Ask::Share;
    let params: [&(dyn ToSql + Sync); 16] = [
        &relay,
        &ttl,
        &keep.lanes,
        &keep.epochs,
        &keep.floors,
        &back.lanes,
        &back.epochs,
        &back.floors,
        &share,
        &leave,
        &machine.host,
        &machine.boot_id,
        &machine.pid,
        &env!("CARGO_PKG_VERSION"),
        &request.target,
        &all,
    ];
    let client = checkout.client();
    let (begin, lock) = (checkout.begin(), sql::lease_lock(checkout.schema()));
    // Polled, and so sent, in this order: one round trip.
    let (begun, locked, (leased, committed)) = join3(
        client.batch_execute(&begin),
        client.batch_execute(&lock),
        join(statement.query(client, &params), client.batch_execute(sql::COMMIT)),
    )
    .await;
    let failed = |error| checkout.failed(error);
    begun.map_err(failed)?;
    locked.map_err(failed)?;
    let rows = leased.map_err(failed)?;
    committed.map_err(failed)?;
    checkout.keep();
    grant(&rows)
}

fn grant(rows: &[Row]) -> Result<LeaseGrant> {
    let mut counts = None;
    let mut lanes = Vec::with_capacity(rows.len());
    for row in rows {
        let lane: Option<i16> = row.get(0);
        let (one, other): (i64, i64) = (row.get(1), row.get(2));
        match lane {
            Some(lane) => lanes.push(LaneLease {
                lane: Lane(u16::try_from(lane).unwrap_or(0)),
                epoch: one,
                floor: other,
            }),
            None => counts = Some((one, other)),
        }
    }
    let Some((total, relays)) = counts else {
        return Err(Error::new(ErrorKind::Unexpected, DOING).detail("the answer has no counts"));
    };
    lanes.sort_unstable_by_key(|lease| lease.lane);
    let relays = usize::try_from(relays).unwrap_or(1);
    let lanes_total = u16::try_from(total).unwrap_or(u16::MAX);
    Ok(LeaseGrant {
        lanes,
        share: usize::from(lanes_total).div_ceil(relays.max(1)),
        lanes_total,
        relays,
    })
}

/// The last key that was asked about; the next call goes on from there.
#[derive(Debug)]
pub(super) struct Walk {
    lane: i16,
    key: String,
}

impl Default for Walk {
    fn default() -> Self {
        Self { lane: -1, key: String::new() }
    }
}

/// Gives keys in the relay's lanes that have held rows and no blocker one: a blocker may have been
/// published by a relay that did not own the lane any more.
pub(super) async fn mend_keys(pool: &Pool, relay: &RelayId, walk: &Mutex<Walk>) -> Result<()> {
    let from = std::mem::take(&mut *walk.lock().unwrap_or_else(PoisonError::into_inner));
    let mut checkout = pool.checkout(DOING).await?;
    let rows = checkout
        .query(sql::MEND_KEYS, &[&relay.as_str(), &from.lane, &from.key, &KEYS_MAX])
        .await?;
    checkout.keep();
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let seen: i64 = row.get(0);
    let last: (Option<i16>, Option<String>) = (row.get(1), row.get(2));
    if let (Some(lane), Some(key)) = last
        && seen >= KEYS_MAX
    {
        *walk.lock().unwrap_or_else(PoisonError::into_inner) = Walk { lane, key };
    }
    Ok(())
}

/// A sweep looks at so many pages at most: pairs that have to stay, since their messages wait, must
/// not make it fall behind what is sent, nor last for ever.
const SWEEP_PAGES: u32 = 20;

/// Deletes at most `rows_max` pairs that are older than `horizon` microseconds, page after page: what
/// has to stay is marked, and is not met again by the next page. Answers how many went.
pub(super) async fn sweep_keys(
    checkout: &mut Checkout<'_>,
    rows_max: u32,
    horizon: i64,
) -> Result<u64> {
    let rows_max = i64::from(rows_max);
    let mut swept = 0;
    for _ in 0..SWEEP_PAGES {
        let page = rows_max - swept;
        let rows = checkout.query(sql::SWEEP_KEYS, &[&page, &horizon]).await?;
        let (gone, seen): (i64, i64) = rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
        swept += gone;
        if seen < page || swept >= rows_max {
            break;
        }
    }
    Ok(u64::try_from(swept).unwrap_or(0))
}

/// What a relay's row says for people: where it runs.
struct Machine {
    host: Option<String>,
    boot_id: Option<String>,
    pid: Option<i32>,
}

impl Machine {
    fn this() -> Self {
        let read = |path: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned())
        };
        Self {
            host: read("/proc/sys/kernel/hostname"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            pid: i32::try_from(std::process::id()).ok(),
        }
    }
}
