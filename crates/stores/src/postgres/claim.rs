//! Claims: one transaction each, with a lock on every row of it.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{OptionFuture, join3};
use sendoff_core::publisher::PublishError;
use sendoff_core::store::{
    ClaimRequest, ClaimStore, Claimed, ClaimedRow, Mark, MarkVerdict, Marked, OutboxStore, RelayId,
    Row, clean_error,
};
use sendoff_core::{Error, ErrorKind, Message, Result};
use tokio_postgres::types::ToSql;

use super::look::{Clock, lane_number, number, read};
use super::pool::{Checkout, Pool};
use super::sql;
use super::store::PostgresStore;

const CLAIMING: &str = "claiming messages";
const MARKING: &str = "marking messages";
const GIVING_BACK: &str = "giving claimed messages back";

/// The state of a row in [`sql::CLAIM`]: the header.
const HEADER: i16 = -1;

/// Rows whose transaction is open. Dropping it closes the connection, and the server rolls back.
struct PostgresClaim<'a> {
    pool: &'a Pool,
    address: &'a str,
    checkout: Checkout<'a>,
    by: By,
    rows: Vec<ClaimedRow>,
    lanes: Vec<i16>,
}

/// Who claims, and where to: kept with what is published.
struct By {
    relay: RelayId,
    target: Option<String>,
}

/// What a claim came to.
enum Answer<'a> {
    Rows(Box<PostgresClaim<'a>>),
    Nothing,
    /// Leases have lapsed whose owners may still write.
    Lapsed,
}

#[async_trait]
impl ClaimStore for PostgresStore {
    fn address(&self) -> &str {
        self.connector.address()
    }

    async fn claim<'a>(&'a self, request: &ClaimRequest) -> Result<Option<Box<dyn Claimed + 'a>>> {
        let claim = || self.claims.bounded(CLAIMING, claim(self, request));
        let mut answer = claim().await?;
        if matches!(answer, Answer::Lapsed) {
            self.claims.bounded(CLAIMING, fence_lapsed(&self.claims)).await?;
            answer = claim().await?;
        }
        Ok(match answer {
            Answer::Rows(claim) => Some(claim),
            Answer::Nothing | Answer::Lapsed => None,
        })
    }

    async fn news(&self) -> Result<()> {
        OutboxStore::news(self).await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        OutboxStore::sweep(self, rows_max).await
    }

    async fn attend(&self, message: &Message) -> std::result::Result<(), PublishError> {
        OutboxStore::attend(self, message).await
    }
}

async fn claim<'a>(store: &'a PostgresStore, request: &ClaimRequest) -> Result<Answer<'a>> {
    let mut checkout = store.claims.checkout(CLAIMING).await?;
    let statement = checkout.statement(sql::CLAIM).await?;
    let (rows_max, bytes_max) = (number(request.rows_max), number(request.bytes_max));
    let params: [&(dyn ToSql + Sync); 3] = [&request.after, &rows_max, &bytes_max];
    let begin =
        format!("{}; {}", checkout.begin(), sql::claim_begun(checkout.schema(), request.lasts));
    let client = checkout.client();
    // Polled, and so sent, in this order: one round trip.
    let (begun, claimed) =
        futures_util::future::join(client.batch_execute(&begin), statement.query(client, &params))
            .await;
    begun.map_err(|error| checkout.failed(error))?;
    let columns = claimed.map_err(|error| checkout.failed(error))?;
    let (mut lapsed, mut owner) = (0_i64, None::<String>);
    let mut rows: Vec<Row> = Vec::with_capacity(columns.len());
    let clock = Clock::of(&columns);
    for columns in &columns {
        let state: i16 = columns.get(0);
        if state == HEADER {
            (lapsed, owner) = (columns.get(1), columns.get(6));
        } else {
            rows.push(read(columns, state, false, clock));
        }
    }
    if rows.is_empty() {
        let ended = checkout.client().batch_execute(sql::ROLLBACK).await;
        ended.map_err(|error| checkout.failed(error))?;
        checkout.keep();
        let address = store.connector.address();
        return match owner {
            Some(owner) => Err(lanes_are_leased(address, &owner)),
            None if lapsed > 0 => Ok(Answer::Lapsed),
            None => Ok(Answer::Nothing),
        };
    }
    rows.sort_unstable_by_key(|row| row.seq);
    let lanes = rows.iter().map(|row| lane_number(row.lane)).collect();
    let claimed = |row: Row| ClaimedRow {
        seq: row.seq,
        key: row.key,
        attempts: row.attempts,
        content: row.content,
    };
    Ok(Answer::Rows(Box::new(PostgresClaim {
        pool: &store.claims,
        address: store.connector.address(),
        checkout,
        by: By { relay: request.relay.clone(), target: request.target.clone() },
        rows: rows.into_iter().map(claimed).collect(),
        lanes,
    })))
}

fn lanes_are_leased(address: &str, owner: &str) -> Error {
    Error::new(ErrorKind::Locked, CLAIMING)
        .subject(address)
        .detail(format!("the relay {owner} leases lanes of it"))
        .advice("stop that relay, or run this one with lanes too")
}

async fn fence_lapsed(pool: &Pool) -> Result<()> {
    let mut checkout = pool.checkout(CLAIMING).await?;
    checkout.query(sql::FENCE_LAPSED, &[]).await?;
    checkout.keep();
    Ok(())
}

/// Marks, sorted by what they say, column by column.
#[derive(Default)]
struct Sorted<'a> {
    published: Vec<i64>,
    failed: Vec<i64>,
    counts: Vec<bool>,
    errors: Vec<String>,
    aside: Vec<i64>,
    reasons: Vec<&'a str>,
    aside_errors: Vec<String>,
}

impl Sorted<'_> {
    fn of(marks: &[Mark]) -> Self {
        let mut sorted = Self::default();
        for mark in marks {
            match &mark.verdict {
                MarkVerdict::Published => sorted.published.push(mark.seq),
                MarkVerdict::Failed { error, counts } => {
                    sorted.failed.push(mark.seq);
                    sorted.counts.push(*counts);
                    sorted.errors.push(clean_error(error));
                }
                MarkVerdict::Quarantined { reason, error } => {
                    sorted.aside.push(mark.seq);
                    sorted.reasons.push(reason.as_str());
                    sorted.aside_errors.push(clean_error(error));
                }
            }
        }
        sorted
    }
}

#[async_trait]
impl Claimed for PostgresClaim<'_> {
    fn rows(&self) -> &[ClaimedRow] {
        &self.rows
    }

    async fn mark(self: Box<Self>, marks: &[Mark]) -> Result<Marked> {
        let Self { pool, address, checkout, by, rows, lanes } = *self;
        pool.bounded(MARKING, mark((address, &by), checkout, (&rows, &lanes), marks)).await
    }

    async fn give_back(self: Box<Self>) -> Result<()> {
        let Self { pool, checkout, .. } = *self;
        let give_back = async {
            let ended = checkout.client().batch_execute(sql::ROLLBACK).await;
            ended.map_err(|error| checkout.failed(error))?;
            checkout.keep();
            Ok(())
        };
        pool.bounded(GIVING_BACK, give_back).await
    }
}

/// All marks are one statement. Where rows went or were set aside, keys whose held rows wait for nothing any more, since
/// a relay with lanes was here before, go on with the first of them.
async fn mark(
    (address, by): (&str, &By),
    mut checkout: Checkout<'_>,
    (rows, lanes): (&[ClaimedRow], &[i16]),
    marks: &[Mark],
) -> Result<Marked> {
    let sorted = Sorted::of(marks);
    let (left_lanes, left_keys): (Vec<i16>, Vec<Arc<str>>) = rows
        .iter()
        .zip(lanes)
        .filter(|(row, _)| sorted.published.contains(&row.seq) || sorted.aside.contains(&row.seq))
        .filter_map(|(row, lane)| Some((*lane, row.key.clone()?)))
        .unzip();
    let left_keys: Vec<&str> = left_keys.iter().map(|key| &**key).collect();
    let statement = checkout.statement(sql::CLAIM_MARK).await?;
    let promote = match left_keys.as_slice() {
        [] => None,
        _ => Some(checkout.statement(sql::PROMOTE).await?),
    };
    let relay = by.relay.as_str();
    let params: [&(dyn ToSql + Sync); 9] = [
        &sorted.published,
        &relay,
        &by.target,
        &sorted.failed,
        &sorted.counts,
        &sorted.errors,
        &sorted.aside,
        &sorted.reasons,
        &sorted.aside_errors,
    ];
    let promote_params: [&(dyn ToSql + Sync); 2] = [&left_lanes, &left_keys];
    let client = checkout.client();
    // Polled, and so sent, in this order: one round trip. If one fails, the COMMIT is a rollback.
    let (marked, promoted, committed) = join3(
        statement.query(client, &params),
        OptionFuture::from(promote.as_ref().map(|s| s.query(client, &promote_params))),
        client.batch_execute(sql::COMMIT),
    )
    .await;
    let failed = |error| checkout.failed(error);
    let marked = marked.map_err(failed)?;
    promoted.transpose().map_err(failed)?;
    committed.map_err(failed)?;
    checkout.keep();
    let (gone, changed): (i64, i64) = marked.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
    let (gone_wanted, changed_wanted) =
        (number(sorted.published.len()), number(sorted.failed.len() + sorted.aside.len()));
    if (gone, changed) != (gone_wanted, changed_wanted) {
        // They were locked: a trigger, a rule or a policy of the database's is in the way.
        return Err(Error::new(ErrorKind::Unexpected, MARKING).subject(address).detail(format!(
            "marking {} rows changed {} rows",
            gone_wanted + changed_wanted,
            gone + changed
        )));
    }
    Ok(Marked { published: u64::try_from(gone).unwrap_or(0), fenced: Vec::new() })
}
