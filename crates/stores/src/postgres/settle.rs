//! Settlements: verdicts as the statements take them.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use sendoff_core::Result;
use sendoff_core::store::{Outcome, RelayId, Settled, Verdict, clean_error};
use sendoff_core::time::whole_micros;
use tokio_postgres::types::ToSql;

use super::look::lane_number;
use super::pool::{Checkout, Pool};
use super::sql;

pub(super) const DOING: &str = "settling messages";

/// Held rows are let go so many at a time, and no longer than this in one settlement: a key may
/// have a million. The rest goes with the next leases; until then a look says that new rows of the
/// key are blocked.
const RELEASE_ROWS: i64 = 5_000;
const RELEASE_TIME: Duration = Duration::from_secs(2);

/// A century, in microseconds: the longest wait that is written.
const WAIT_MICROS_MAX: u64 = 3_155_760_000_000_000;

/// Lanes with the epochs under which the verdicts come.
#[derive(Default)]
struct Claims {
    lanes: Vec<i16>,
    epochs: Vec<i64>,
    places: BTreeMap<(i16, i64), i64>,
}

impl Claims {
    fn of(verdicts: &[Verdict]) -> Self {
        let mut claims = Self::default();
        for verdict in verdicts {
            let claim = (lane_number(verdict.lane), verdict.epoch);
            if claims.places.contains_key(&claim) {
                continue;
            }
            claims.lanes.push(claim.0);
            claims.epochs.push(claim.1);
            let place = i64::try_from(claims.lanes.len()).unwrap_or(i64::MAX);
            claims.places.insert(claim, place);
        }
        claims
    }

    /// Seqs of the verdicts whose claim is not among those that hold.
    fn fenced(&self, verdicts: &[Verdict], holding: &[i64]) -> Vec<i64> {
        if holding.len() == self.lanes.len() {
            return Vec::new();
        }
        verdicts
            .iter()
            .filter(|verdict| {
                let claim = (lane_number(verdict.lane), verdict.epoch);
                self.places
                    .get(&claim)
                    .is_none_or(|place| !holding.contains(place))
            })
            .map(|verdict| verdict.seq)
            .collect()
    }
}

/// Verdicts that are no publishes, column by column.
#[derive(Default)]
struct Changes<'a> {
    seqs: Vec<i64>,
    lanes: Vec<i16>,
    epochs: Vec<i64>,
    kinds: Vec<i16>,
    waits: Vec<i64>,
    counts: Vec<bool>,
    errors: Vec<Option<String>>,
    reasons: Vec<Option<&'a str>>,
}

mod kind {
    pub(super) const RETRY: i16 = 1;
    pub(super) const QUARANTINED: i16 = 2;
    pub(super) const HELD: i16 = 3;
}

impl Changes<'_> {
    fn push(&mut self, verdict: &Verdict) {
        let (kind, wait, counts, error, reason) = match &verdict.outcome {
            Outcome::Published { .. } => return,
            Outcome::Retry {
                after,
                error,
                counts,
                ..
            } => (kind::RETRY, *after, *counts, Some(error), None),
            Outcome::Quarantined { reason, error, .. } => (
                kind::QUARANTINED,
                Duration::ZERO,
                false,
                Some(error),
                Some(reason.as_str()),
            ),
            Outcome::Held => (kind::HELD, Duration::ZERO, false, None, None),
        };
        self.seqs.push(verdict.seq);
        self.lanes.push(lane_number(verdict.lane));
        self.epochs.push(verdict.epoch);
        self.kinds.push(kind);
        let micros = whole_micros(wait).min(WAIT_MICROS_MAX);
        self.waits.push(i64::try_from(micros).unwrap_or(i64::MAX));
        self.counts.push(counts);
        // Cleaned already by contract; a NUL would make every try of this settlement fail.
        self.errors.push(error.map(|error| clean_error(error)));
        self.reasons.push(reason);
    }
}

pub(super) async fn settle(pool: &Pool, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
    let mut published: Vec<i64> = Vec::with_capacity(verdicts.len());
    let mut changes = Changes::default();
    let mut freed = Keys::default();
    for verdict in verdicts {
        match &verdict.outcome {
            Outcome::Published { releases } => {
                published.push(verdict.seq);
                if let (true, Some(key)) = (releases, verdict.key.as_deref()) {
                    freed.lanes.push(lane_number(verdict.lane));
                    freed.keys.push(key);
                }
            }
            _ => changes.push(verdict),
        }
    }
    let claims = Claims::of(verdicts);
    let mut checkout = pool.checkout(DOING).await?;
    let relay = relay.as_str();
    let mut params: Vec<&(dyn ToSql + Sync)> =
        vec![&published, &relay, &claims.lanes, &claims.epochs];
    let statement = if changes.seqs.is_empty() {
        sql::SETTLE_PUBLISHED
    } else {
        params.extend([
            &changes.seqs as &(dyn ToSql + Sync),
            &changes.lanes,
            &changes.epochs,
            &changes.kinds,
            &changes.waits,
            &changes.counts,
            &changes.errors,
            &changes.reasons,
        ]);
        sql::SETTLE
    };
    let rows = checkout.query(statement, &[], &params).await?;
    let (gone, holding): (i64, Vec<i64>) = rows
        .first()
        .map_or((0, Vec::new()), |row| (row.get(0), row.get(1)));
    let fenced = claims.fenced(verdicts, &holding);
    let failed = holding_failures(verdicts, &fenced);
    let released = follow_up(&mut checkout, &failed, &freed).await?;
    checkout.keep();
    Ok(Settled {
        published: u64::try_from(gone).unwrap_or(0),
        fenced,
        released,
    })
}

/// Seqs of the verdicts that were written and hold their key.
fn holding_failures(verdicts: &[Verdict], fenced: &[i64]) -> Vec<i64> {
    let fenced: HashSet<i64> = fenced.iter().copied().collect();
    verdicts
        .iter()
        .filter(|verdict| match &verdict.outcome {
            Outcome::Retry { holds, .. } | Outcome::Quarantined { holds, .. } => {
                *holds && verdict.key.is_some() && !fenced.contains(&verdict.seq)
            }
            Outcome::Published { .. } | Outcome::Held => false,
        })
        .map(|verdict| verdict.seq)
        .collect()
}

/// Keys with their lanes.
#[derive(Debug, Default)]
pub(super) struct Keys<'a> {
    pub(super) lanes: Vec<i16>,
    pub(super) keys: Vec<&'a str>,
}

/// Marks followers, then lets go what waited. Both only repeat in the rows what the blockers say
/// already, and a crash before them is mended by looks and leases, so they are statements of their
/// own: the settlement's locks are gone by then.
async fn follow_up(
    checkout: &mut Checkout<'_>,
    failed: &Vec<i64>,
    freed: &Keys<'_>,
) -> Result<u64> {
    if !failed.is_empty() {
        let hold = checkout.statement(sql::HOLD_FOLLOWERS, &[]).await?;
        let held = checkout.client().execute(&hold, &[failed]).await;
        held.map_err(|error| checkout.failed(error))?;
    }
    release(checkout, freed, RELEASE_TIME).await
}

/// Lets go held rows of the keys that nothing blocks any more, for so long at most.
pub(super) async fn release(
    checkout: &mut Checkout<'_>,
    freed: &Keys<'_>,
    time: Duration,
) -> Result<u64> {
    if freed.keys.is_empty() {
        return Ok(0);
    }
    let statement = checkout.statement(sql::RELEASE, &[]).await?;
    let begun = Instant::now();
    let mut released: u64 = 0;
    loop {
        let rows = checkout
            .client()
            .execute(&statement, &[&freed.lanes, &freed.keys, &RELEASE_ROWS])
            .await
            .map_err(|error| checkout.failed(error))?;
        released += rows;
        let all = i64::try_from(rows).unwrap_or(i64::MAX) < RELEASE_ROWS;
        if all || begun.elapsed() > time {
            return Ok(released);
        }
    }
}
