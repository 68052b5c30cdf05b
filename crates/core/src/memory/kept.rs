//! What the memory store keeps of published messages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;

use super::row::Stored;
use super::state::{Pair, State};
use super::store::{MemoryStore, micros};
use crate::error::Result;
use crate::message::RESERVED_PREFIX;
use crate::store::{KeptDesk, KeptLook, KeptMark, KeptMessage, Resent, Retention};
use crate::time::Timestamp;

/// What is kept, and for how long.
#[derive(Default)]
pub(super) struct Shelf {
    retention: Retention,
    /// The time that was asked for last: what was kept under it stays so long.
    keep_for: Duration,
    kept: BTreeMap<KeptMark, Kept>,
    /// Positions in the outbox of messages that were kept at their first publish.
    resent: BTreeSet<i64>,
}

struct Kept {
    row: Stored,
    target: Option<String>,
}

impl State {
    /// Keeps a published row, where the store is told to.
    pub(super) fn shelve(&mut self, row: Stored, target: Option<String>, now: Timestamp) {
        let was_kept = self.shelf.resent.remove(&row.seq);
        if !self.shelf.retention.keeps() || was_kept || row.plain.topic.starts_with(RESERVED_PREFIX)
        {
            return;
        }
        let n = i64::try_from(self.published).unwrap_or(i64::MAX);
        let mark = KeptMark { published_at: micros(now), n, seq: row.seq };
        self.shelf.kept.insert(mark, Kept { row, target });
    }

    /// Forgets what was kept for its time, at most so many rows.
    pub(super) fn sweep_shelf(&mut self, now: Timestamp, rows_max: u32) -> u64 {
        let before = now.checked_sub(self.shelf.keep_for).unwrap_or(Timestamp::MIN);
        let mut swept = 0;
        while swept < u64::from(rows_max) {
            let Some(first) = self.shelf.kept.first_entry() else { break };
            if first.key().published_at >= before {
                break;
            }
            first.remove();
            swept += 1;
        }
        swept
    }

    /// What is kept of a message, last.
    pub(super) fn shelved(&self, id: &str, source: &str) -> Option<&Stored> {
        let rows = self.shelf.kept.values().map(|kept| &kept.row);
        rows.rev().find(|row| row.plain.id == id && row.plain.source == source)
    }

    fn resend(&mut self, mark: KeptMark, now: Timestamp) -> Resent {
        let Some(kept) = self.shelf.kept.get(&mark) else {
            return Resent { gone: 1, ..Resent::default() };
        };
        let mut plain = kept.row.plain.clone();
        let pair = (plain.id.clone(), plain.source.clone());
        if let Some(Pair::Claimed(_) | Pair::Kept { seq: Some(_), .. }) = self.pairs.get(&pair) {
            return Resent { waiting: 1, ..Resent::default() };
        }
        plain.due_at = None;
        let row = Stored {
            seq: self.draw(),
            lane: self.lane_of(&plain),
            plain,
            created_at: now,
            retry_at: None,
            attempts: 0,
            last_error: None,
            held: false,
            holds: true,
            parked: None,
            quarantine: None,
        };
        self.shelf.resent.insert(row.seq);
        self.commit(vec![row]);
        Resent { sent: 1, ..Resent::default() }
    }
}

fn shown(mark: KeptMark, kept: &Kept) -> KeptMessage {
    let plain = &kept.row.plain;
    KeptMessage {
        mark,
        published_at: mark.published_at,
        id: plain.id.clone(),
        source: plain.source.clone(),
        topic: plain.topic.clone(),
        key: plain.key.clone(),
        body_bytes: u64::try_from(plain.body.len()).unwrap_or(u64::MAX),
        sent_at: kept.row.created_at,
        attempts: kept.row.attempts,
        target: kept.target.clone(),
    }
}

#[async_trait]
impl KeptDesk for MemoryStore {
    async fn retention(&self) -> Result<Retention> {
        let state = self.shared.lock();
        state.need_schema("reading the retention")?;
        Ok(state.shelf.retention)
    }

    async fn set_retention(&self, retention: Retention) -> Result<()> {
        retention.check()?;
        let mut state = self.shared.lock();
        state.need_schema("setting the retention")?;
        state.shelf.retention = retention;
        if let Retention::KeepFor(time) = retention {
            state.shelf.keep_for = time;
        }
        Ok(())
    }

    async fn kept(&self, look: &KeptLook) -> Result<Vec<KeptMessage>> {
        let state = self.shared.lock();
        state.need_schema("reading what is kept")?;
        let after = look.after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = state
            .shelf
            .kept
            .range((after, Bound::Unbounded))
            .filter(|(mark, _)| look.from.is_none_or(|from| mark.published_at >= from))
            .filter(|(mark, _)| look.until.is_none_or(|until| mark.published_at < until))
            .filter(|(_, kept)| look.id.as_ref().is_none_or(|id| kept.row.plain.id == *id))
            .take(usize::try_from(look.rows_max).unwrap_or(usize::MAX))
            .map(|(mark, kept)| shown(*mark, kept))
            .collect();
        Ok(page)
    }

    async fn resend(&self, marks: &[KeptMark]) -> Result<Resent> {
        let now = self.shared.now();
        let mut marks = marks.to_vec();
        marks.sort_unstable();
        marks.dedup();
        let mut resent = Resent::default();
        {
            let mut state = self.shared.lock();
            state.need_schema("sending kept messages again")?;
            for mark in marks {
                let one = state.resend(mark, now);
                resent.sent += one.sent;
                resent.waiting += one.waiting;
                resent.gone += one.gone;
            }
        }
        self.shared.ended.notify_waiters();
        Ok(resent)
    }
}
