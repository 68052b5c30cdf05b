//! Claims in memory: what [`crate::store::ClaimStore`] gives, with locks on rows.

use std::sync::Arc;

use async_trait::async_trait;

use super::row::Quarantine;
use super::state::State;
use super::store::{ADDRESS, MemoryStore, Shared, later};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::publisher::PublishError;
use crate::store::{
    ClaimRequest, ClaimStore, Claimed, ClaimedRow, Mark, MarkVerdict, Marked, OutboxStore,
};
use crate::time::Timestamp;

const DOING: &str = "claiming messages";

/// Rows that are claimed, with a lock on each. Dropping it unlocks them.
struct MemoryClaim {
    shared: Arc<Shared>,
    number: u64,
    target: Option<String>,
    rows: Vec<ClaimedRow>,
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.shared.lock().unlock(self.number);
    }
}

#[async_trait]
impl ClaimStore for MemoryStore {
    fn address(&self) -> &str {
        ADDRESS
    }

    async fn claim<'a>(&'a self, request: &ClaimRequest) -> Result<Option<Box<dyn Claimed + 'a>>> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema(DOING)?;
        state.claims.retain(|_, until| *until > now);
        if let Some(owner) = state.lanes_owner(now) {
            return Err(Error::new(ErrorKind::Locked, DOING)
                .subject(ADDRESS)
                .detail(format!("the relay {owner} leases lanes of it"))
                .advice("stop that relay, or run this one with lanes too"));
        }
        state.fence_lapsed_lanes();
        let rows = state.claimable(request, now);
        if rows.is_empty() {
            return Ok(None);
        }
        let number = state.lock(&rows, later(now, request.lasts));
        let (shared, target) = (Arc::clone(&self.shared), request.target.clone());
        Ok(Some(Box::new(MemoryClaim { shared, number, target, rows })))
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
}

#[async_trait]
impl Claimed for MemoryClaim {
    fn rows(&self) -> &[ClaimedRow] {
        &self.rows
    }

    async fn mark(self: Box<Self>, marks: &[Mark]) -> Result<Marked> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema("marking messages")?;
        let holds = state.claims.get(&self.number).is_some_and(|until| *until > now);
        let mut marked = Marked::default();
        for mark in marks {
            if !holds {
                marked.fenced.push(mark.seq);
            }
            match &mark.verdict {
                MarkVerdict::Published => {
                    marked.published += u64::from(state.publish(mark.seq, &self.target, now))
                }
                verdict if holds => state.set_mark(mark.seq, verdict, now),
                _ => {}
            }
        }
        Ok(marked)
    }

    async fn give_back(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl State {
    /// A relay that leases lanes and is live.
    fn lanes_owner(&self, now: Timestamp) -> Option<&str> {
        self.lanes.iter().filter(|lane| lane.until > now).find_map(|lane| lane.owner.as_deref())
    }

    /// Whose lease has lapsed may not write verdicts any more.
    fn fence_lapsed_lanes(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.owner.is_some()) {
            lane.owner = None;
            lane.epoch += 1;
        }
    }

    fn claimable(&self, request: &ClaimRequest, now: Timestamp) -> Vec<ClaimedRow> {
        let mut rows = Vec::new();
        let mut bytes = 0_usize;
        for row in self.rows.range(request.after.saturating_add(1)..).map(|(_, row)| row) {
            let is_due = row.plain.due_at.is_none_or(|due| due <= now);
            let lock = self.locked.get(&row.seq);
            let is_locked = lock.is_some_and(|claim| self.claims.contains_key(claim));
            if row.quarantine.is_some() || !is_due || is_locked {
                continue;
            }
            bytes = bytes.saturating_add(row.size_bytes());
            if rows.len() == request.rows_max || (bytes > request.bytes_max && !rows.is_empty()) {
                break;
            }
            rows.push(ClaimedRow {
                seq: row.seq,
                key: row.plain.key.as_deref().map(Arc::from),
                attempts: row.attempts,
                content: row.decode(),
            });
        }
        rows
    }

    fn lock(&mut self, rows: &[ClaimedRow], until: Timestamp) -> u64 {
        self.claim_last += 1;
        self.claims.insert(self.claim_last, until);
        self.locked.extend(rows.iter().map(|row| (row.seq, self.claim_last)));
        self.claim_last
    }

    fn unlock(&mut self, number: u64) {
        self.claims.remove(&number);
        self.locked.retain(|_, by| *by != number);
    }

    /// Answers whether the row was there.
    fn publish(&mut self, seq: i64, target: &Option<String>, now: Timestamp) -> bool {
        let Some(row) = self.remove(seq) else {
            return false;
        };
        self.published += 1;
        let key = row.plain.key.clone();
        self.shelve(row, target.clone(), now);
        self.go_on(key.as_deref(), now);
        true
    }

    /// What a relay with lanes has held behind a row of this key goes on.
    fn go_on(&mut self, key: Option<&str>, now: Timestamp) {
        if let Some(key) = key {
            self.promote(key, now);
        }
    }

    fn set_mark(&mut self, seq: i64, verdict: &MarkVerdict, now: Timestamp) {
        self.change(seq, |row| match verdict {
            MarkVerdict::Published => {}
            MarkVerdict::Failed { error, counts } => {
                row.attempts = row.attempts.saturating_add(u32::from(*counts));
                row.last_error = Some(error.clone());
            }
            MarkVerdict::Quarantined { reason, error } => {
                row.quarantine.get_or_insert(Quarantine { at: now, reason: *reason });
                row.retry_at = None;
                row.held = false;
                row.holds = false;
                row.last_error = Some(error.clone());
            }
        });
        if let MarkVerdict::Quarantined { .. } = verdict {
            let key = self.rows.get(&seq).and_then(|row| row.plain.key.clone());
            self.go_on(key.as_deref(), now);
        }
    }
}
