//! Claims without locks on rows: SQLite has one write lock, and whoever held it while a target is asked
//! would block every sender. So a claim is the store's one lease, for as long as it lasts; rows are read,
//! published, and marked in a short transaction that checks the lease's epoch.
//!
//! What follows from it: one relay claims at a time, the others stand by until its lease lapses or it
//! leaves. A claim whose lease has lapsed is fenced, and what it had published may be repeated.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use sendoff_core::publisher::PublishError;
use sendoff_core::store::{
    Ask, ClaimRequest, ClaimStore, Claimed, ClaimedRow, LaneLease, LeaseRequest, Mark, MarkVerdict,
    Marked, OutboxStore, RelayId,
};
use sendoff_core::{Message, Result};

use super::error::Failure;
use super::keep;
use super::look;
use super::settle::HeldKey;
use super::sql;
use super::store::SqliteStore;
use super::worker::Session;

const CLAIMING: &str = "claiming messages";

/// Rows that are claimed under the lease's epoch.
struct SqliteClaim<'a> {
    store: &'a SqliteStore,
    relay: RelayId,
    epoch: i64,
    rows: Vec<ClaimedRow>,
}

#[async_trait]
impl ClaimStore for SqliteStore {
    fn address(&self) -> &str {
        &self.file.address
    }

    async fn claim<'a>(&'a self, request: &ClaimRequest) -> Result<Option<Box<dyn Claimed + 'a>>> {
        let lease = LeaseRequest {
            relay: request.relay.clone(),
            target: request.target.clone(),
            ttl: request.lasts,
            keep: Vec::new(),
            release: Vec::new(),
            ask: Ask::Share,
        };
        let grant = self.lease(&lease).await?;
        let Some(LaneLease { epoch, .. }) = grant.lanes.first().copied() else {
            // Another relay has it.
            return Ok(None);
        };
        let asked = request.clone();
        let rows =
            self.writes.run(CLAIMING, move |session| look::claimable(session, &asked)).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(Box::new(SqliteClaim { store: self, relay: request.relay.clone(), epoch, rows })))
    }

    async fn news(&self) -> Result<()> {
        OutboxStore::news(self).await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        OutboxStore::sweep(self, rows_max).await
    }

    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        OutboxStore::attend(self, message).await
    }

    async fn leave(&self, relay: &RelayId) -> Result<()> {
        let mut request = LeaseRequest {
            relay: relay.clone(),
            target: None,
            ttl: std::time::Duration::from_secs(1),
            keep: Vec::new(),
            release: Vec::new(),
            ask: Ask::Nothing,
        };
        request.release = self.lease(&request).await?.lanes;
        request.ask = Ask::Leave;
        self.lease(&request).await.map(drop)
    }
}

#[async_trait]
impl Claimed for SqliteClaim<'_> {
    fn rows(&self) -> &[ClaimedRow] {
        &self.rows
    }

    async fn mark(self: Box<Self>, marks: &[Mark]) -> Result<Marked> {
        let Self { store, relay, epoch, rows } = *self;
        let marks: Vec<(Mark, Option<Arc<str>>)> = marks
            .iter()
            .map(|mark| {
                let row = rows.iter().find(|row| row.seq == mark.seq);
                (mark.clone(), row.and_then(|row| row.key.clone()))
            })
            .collect();
        store
            .writes
            .run("marking messages", move |session| {
                mark_all(session, relay.as_str(), epoch, &marks)
            })
            .await
    }

    async fn give_back(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// One transaction; the write lock is the lock on the lease.
fn mark_all(
    session: &Session<'_>,
    relay: &str,
    epoch: i64,
    marks: &[(Mark, Option<Arc<str>>)],
) -> Result<Marked, Failure> {
    session.write(|tx| {
        let now = Session::now(tx)?;
        let held: Option<i64> = tx
            .prepare_cached(sql::LANE_HELD_BY)?
            .query_row([relay], |row| row.get(0))
            .optional()?;
        let is_fenced = held != Some(epoch);
        let keeps = keep::keeps(tx)?;
        let mut marked = Marked::default();
        for (mark, key) in marks {
            if is_fenced {
                marked.fenced.push(mark.seq);
            }
            match &mark.verdict {
                // A fact, whoever owns the lease by now.
                MarkVerdict::Published => {
                    if keeps {
                        keep::keep(tx, mark.seq, relay, now)?;
                    }
                    if tx.prepare_cached(sql::PUBLISHED)?.execute([mark.seq])? == 1 {
                        marked.published += 1;
                        go_on(tx, key.as_deref(), now)?;
                    }
                }
                _ if is_fenced => {}
                MarkVerdict::Failed { error, counts } => {
                    tx.prepare_cached(sql::claim::FAILED)?.execute((mark.seq, counts, error))?;
                }
                MarkVerdict::Quarantined { reason, error } => {
                    let mut quarantine = tx.prepare_cached(sql::QUARANTINE)?;
                    quarantine.execute((mark.seq, now, reason.as_str(), error, false))?;
                    go_on(tx, key.as_deref(), now)?;
                }
            }
        }
        if marked.published > 0 {
            let published = i64::try_from(marked.published).unwrap_or(i64::MAX);
            tx.prepare_cached(sql::PUBLISHED_COUNT)?.execute([published])?;
        }
        Ok(marked)
    })
}

/// What a relay with lanes has held behind a row that is gone, or set aside, goes on.
fn go_on(tx: &Connection, key: Option<&str>, now: i64) -> Result<(), Failure> {
    let Some(key) = key else { return Ok(()) };
    if tx.prepare_cached(sql::HAS_HELD)?.query_row([], |row| row.get(0))? {
        HeldKey::of(tx, key.as_bytes())?.promote(tx, now)?;
    }
    Ok(())
}
