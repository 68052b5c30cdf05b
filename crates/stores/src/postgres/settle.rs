//! Settlements: verdicts as the statements take them.
//!
//! A settlement of publishes, which is nearly every one, is one statement. One with other verdicts
//! is a transaction whose statements are all sent at once: one round trip as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{OptionFuture, join3};
use sendoff_core::store::{Outcome, RelayId, Settled, Verdict, clean_error};
use sendoff_core::time::whole_micros;
use sendoff_core::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::look::lane_number;
use super::pool::{Checkout, Pool};
use super::sql;
use super::statement::Prepared;

pub(super) const DOING: &str = "settling messages";

/// The most held rows of one key that one settlement lets go, and about as many as PostgreSQL
/// changes in a second. A key with more goes on with its lowest one, until fewer are left.
const RELEASE_ROWS: i64 = 20_000;

/// So many ready rows are searched for followers of failed rows in one settlement, over all lanes,
/// and at least so many of each lane.
const FOLLOWERS_SEARCHED: usize = 50_000;
const FOLLOWERS_SEARCHED_IN_LANE_MIN: usize = 1_000;

/// A century, in microseconds: the longest wait that is written.
const WAIT_MICROS_MAX: u64 = 3_155_760_000_000_000;

type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

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
        let is_fenced = |verdict: &&Verdict| {
            let claim = (lane_number(verdict.lane), verdict.epoch);
            self.places.get(&claim).is_none_or(|place| !holding.contains(place))
        };
        verdicts.iter().filter(is_fenced).map(|verdict| verdict.seq).collect()
    }
}

/// Rows with the claim that their verdicts come under, column by column.
#[derive(Default)]
struct Rows<'a> {
    seqs: Vec<i64>,
    lanes: Vec<i16>,
    epochs: Vec<i64>,
    keys: Vec<Option<&'a str>>,
}

impl<'a> Rows<'a> {
    fn push(&mut self, verdict: &'a Verdict) {
        self.seqs.push(verdict.seq);
        self.lanes.push(lane_number(verdict.lane));
        self.epochs.push(verdict.epoch);
        self.keys.push(verdict.key.as_deref());
    }

    fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    fn params<'b>(&'b self, relay: &'b &str) -> Params<'b> {
        vec![relay, &self.seqs, &self.lanes, &self.epochs]
    }
}

/// What a failure changes, column by column.
#[derive(Default)]
struct Changes<'a> {
    set_aside: Vec<bool>,
    waits: Vec<i64>,
    counts: Vec<bool>,
    errors: Vec<String>,
    reasons: Vec<Option<&'a str>>,
    holds: Vec<bool>,
}

/// The verdicts, sorted by what is to be done.
#[derive(Default)]
struct Sorted<'a> {
    published: Vec<i64>,
    /// Lanes and keys of rows that go, or from now on hold nobody.
    leaving_lanes: Vec<i16>,
    leaving_keys: Vec<Option<&'a str>>,
    /// Published blockers, whose keys are let go.
    freed: Rows<'a>,
    failed: Rows<'a>,
    changes: Changes<'a>,
    /// Of the failed ones, those that hold their key.
    holding: Rows<'a>,
    held: Rows<'a>,
}

impl<'a> Sorted<'a> {
    fn of(verdicts: &'a [Verdict]) -> Self {
        let mut sorted = Self::default();
        sorted.published.reserve(verdicts.len());
        for verdict in verdicts {
            sorted.push(verdict);
        }
        sorted
    }

    fn push(&mut self, verdict: &'a Verdict) {
        match &verdict.outcome {
            Outcome::Published { releases } => {
                self.published.push(verdict.seq);
                self.leave(verdict);
                if *releases && verdict.key.is_some() {
                    self.freed.push(verdict);
                }
            }
            Outcome::Held => self.held.push(verdict),
            Outcome::Parked { mark } => {
                self.changes.set_aside.push(false);
                self.changes.waits.push(0);
                self.changes.counts.push(false);
                self.changes.reasons.push(Some(mark.as_ref()));
                self.changes.holds.push(true);
                // Looks find its followers blocked: there may be a million such rows, and to search
                // for the followers of each would cost more than that.
                self.push_failed(verdict, "", false);
            }
            Outcome::Retry { after, error, counts, holds } => {
                let wait = whole_micros(*after).min(WAIT_MICROS_MAX);
                self.changes.set_aside.push(false);
                self.changes.waits.push(i64::try_from(wait).unwrap_or(i64::MAX));
                self.changes.counts.push(*counts);
                self.changes.reasons.push(None);
                self.push_failed(verdict, error, *holds);
            }
            Outcome::Quarantined { reason, error, holds } => {
                self.changes.set_aside.push(true);
                self.changes.waits.push(0);
                self.changes.counts.push(false);
                self.changes.reasons.push(Some(reason.as_str()));
                self.push_failed(verdict, error, *holds);
            }
        }
    }

    fn push_failed(&mut self, verdict: &'a Verdict, error: &str, holds: bool) {
        // Cleaned already by contract; a NUL would make every try of this settlement fail.
        self.changes.errors.push(clean_error(error));
        self.failed.push(verdict);
        self.changes.holds.push(holds);
        if holds && verdict.key.is_some() {
            self.holding.push(verdict);
        }
        if !holds {
            self.leave(verdict);
        }
    }

    fn leave(&mut self, verdict: &'a Verdict) {
        self.leaving_lanes.push(lane_number(verdict.lane));
        self.leaving_keys.push(verdict.key.as_deref());
    }

    /// Nothing but publishes that let nobody go.
    fn is_plain(&self) -> bool {
        self.failed.is_empty() && self.held.is_empty() && self.freed.is_empty()
    }
}

/// So often the retention may be found to be another one while a settlement is written.
const RETENTION_CHANGES_MAX: u32 = 4;

/// Whether the store kept what is published, when it was last heard of: which of the two statements a
/// settlement is sent as first. The database decides, in the statement itself.
#[derive(Debug, Default)]
pub(super) struct Keeping(AtomicBool);

pub(super) async fn settle(
    pool: &Pool,
    keeping: &Keeping,
    relay: &RelayId,
    verdicts: &[Verdict],
) -> Result<Settled> {
    let sorted = Sorted::of(verdicts);
    let claims = Claims::of(verdicts);
    let relay = relay.as_str();
    let mut checkout = pool.checkout(DOING).await?;
    for _ in 0..RETENTION_CHANGES_MAX {
        let keeps = keeping.0.load(Ordering::Relaxed);
        let (rows, released) = write(&mut checkout, &sorted, &claims, (relay, keeps)).await?;
        let (gone, holding, is_done): (i64, Vec<i64>, bool) =
            rows.first().map_or((0, Vec::new(), true), |row| (row.get(0), row.get(1), row.get(2)));
        if is_done {
            checkout.keep();
            return Ok(Settled {
                published: u64::try_from(gone).unwrap_or(0),
                fenced: claims.fenced(verdicts, &holding),
                released: u64::try_from(released).unwrap_or(0),
            });
        }
        if !keeps && let Err(error) = checkout.query(sql::KEEP_TURN, &[]).await {
            tracing::debug!(%error, "no partition was made; what is kept goes to the rest");
        }
        keeping.0.store(!keeps, Ordering::Relaxed);
    }
    Err(Error::new(ErrorKind::Conflict, DOING)
        .detail("the retention was changed again and again meanwhile"))
}

/// Writes all verdicts, or none where the store's retention is the other one.
async fn write(
    checkout: &mut Checkout<'_>,
    sorted: &Sorted<'_>,
    claims: &Claims,
    (relay, keeps): (&str, bool),
) -> Result<(Vec<Row>, i64)> {
    let mut params: Params<'_> = vec![&sorted.published, &relay, &claims.lanes, &claims.epochs];
    if sorted.is_plain() {
        let text = if keeps { sql::SETTLE_PUBLISHED_KEEPING } else { sql::SETTLE_PUBLISHED };
        return Ok((checkout.query(text, &params).await?, 0));
    }
    params.extend([
        &sorted.failed.seqs as &(dyn ToSql + Sync),
        &sorted.failed.lanes,
        &sorted.failed.epochs,
        &sorted.changes.set_aside,
        &sorted.changes.waits,
        &sorted.changes.counts,
        &sorted.changes.errors,
        &sorted.changes.reasons,
        &sorted.changes.holds,
    ]);
    let text = if keeps { sql::SETTLE_KEEPING } else { sql::SETTLE };
    let settle = checkout.statement(text).await?;
    settle_in_transaction(checkout, sorted, (&settle, &params), relay).await
}

/// The order is: verdicts, followers of what failed, rows that were found blocked, and last what is
/// let go, so that a row which the same settlement holds is let go as well. At the very end, keys
/// that a publish or a policy left with held rows and no blocker get one.
async fn settle_in_transaction(
    checkout: &mut Checkout<'_>,
    sorted: &Sorted<'_>,
    (settle, params): (&Prepared, &Params<'_>),
    relay: &str,
) -> Result<(Vec<Row>, i64)> {
    let followers = prepare(checkout, sql::HOLD_FOLLOWERS, &sorted.holding).await?;
    let hold = prepare(checkout, sql::HOLD, &sorted.held).await?;
    let release = prepare(checkout, sql::RELEASE, &sorted.freed).await?;
    let promote = match sorted.leaving_lanes.as_slice() {
        [] => None,
        _ => Some(checkout.statement(sql::PROMOTE).await?),
    };
    let searched = followers_searched(&sorted.holding);
    let mut holding_params = sorted.holding.params(&relay);
    holding_params.push(&searched);
    let held_params = sorted.held.params(&relay);
    let mut freed_params = sorted.freed.params(&relay);
    freed_params.extend([&sorted.freed.keys as &(dyn ToSql + Sync), &RELEASE_ROWS]);
    let promote_params: Params<'_> = vec![&sorted.leaving_lanes, &sorted.leaving_keys];
    let client = checkout.client();
    let begin = checkout.begin();
    // Polled, and so sent, in this order. If one fails, those after it do nothing, and the COMMIT
    // is a rollback; so the results are read in this order, too.
    let (begun, (settled, followers, held), (released, promoted, committed)) = join3(
        client.batch_execute(&begin),
        join3(
            settle.query(client, params),
            OptionFuture::from(followers.as_ref().map(|s| s.query(client, &holding_params))),
            OptionFuture::from(hold.as_ref().map(|s| s.query(client, &held_params))),
        ),
        join3(
            OptionFuture::from(release.as_ref().map(|s| s.query(client, &freed_params))),
            OptionFuture::from(promote.as_ref().map(|s| s.query(client, &promote_params))),
            client.batch_execute(sql::COMMIT),
        ),
    )
    .await;
    let failed = |error| checkout.failed(error);
    begun.map_err(failed)?;
    let settled = settled.map_err(failed)?;
    followers.transpose().map_err(failed)?;
    held.transpose().map_err(failed)?;
    let released = released.transpose().map_err(failed)?;
    promoted.transpose().map_err(failed)?;
    committed.map_err(failed)?;
    let released = released.and_then(|rows| rows.first().map(|row| row.get(0)));
    Ok((settled, released.unwrap_or(0)))
}

/// How many rows of each lane are searched for followers.
fn followers_searched(holding: &Rows<'_>) -> i64 {
    let lanes: BTreeSet<i16> = holding.lanes.iter().copied().collect();
    let each = FOLLOWERS_SEARCHED / lanes.len().max(1);
    i64::try_from(each.max(FOLLOWERS_SEARCHED_IN_LANE_MIN)).unwrap_or(i64::MAX)
}

async fn prepare(
    checkout: &mut Checkout<'_>,
    text: &'static str,
    rows: &Rows<'_>,
) -> Result<Option<Prepared>> {
    if rows.is_empty() {
        return Ok(None);
    }
    checkout.statement(text).await.map(Some)
}
