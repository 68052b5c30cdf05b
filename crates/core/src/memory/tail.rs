//! What was sent lately, in memory.

use async_trait::async_trait;
use bytes::Bytes;

use super::desk::gone;
use super::state::{Pair, State};
use super::store::MemoryStore;
use crate::error::Result;
use crate::store::{Standing, TailDesk};
use crate::time::Timestamp;

const READING: &str = "reading what was sent lately";

#[async_trait]
impl TailDesk for MemoryStore {
    async fn recent(&self, rows_max: u32) -> Result<Vec<Standing>> {
        let now = self.shared.now();
        let state = self.shared.lock();
        state.need_schema(READING)?;
        let mut found: Vec<Standing> = state
            .pairs
            .iter()
            .filter_map(|((id, source), pair)| match pair {
                Pair::Claimed(_) => None,
                Pair::Kept { seq: Some(seq), .. } => {
                    state.rows.get(seq).map(|row| state.standing(row, now))
                }
                Pair::Kept { seq: None, sent_at, was } => {
                    Some(state.departed(id, source, *sent_at, *was))
                }
            })
            .collect();
        found.sort_unstable_by_key(|standing| standing.seq);
        let first = found.len().saturating_sub(usize::try_from(rows_max).unwrap_or(usize::MAX));
        Ok(found.split_off(first))
    }

    async fn bodies(&self, seqs: &[i64], bytes_max: u32) -> Result<Vec<(i64, Bytes)>> {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let state = self.shared.lock();
        state.need_schema(READING)?;
        let body = |seq: &i64| {
            let body = &state.rows.get(seq)?.plain.body;
            Some((*seq, body.slice(..body.len().min(bytes_max))))
        };
        Ok(seqs.iter().filter_map(body).collect())
    }
}

impl State {
    /// A message that is not in the outbox any more.
    fn departed(&self, id: &str, source: &str, sent_at: Timestamp, seq: i64) -> Standing {
        let mut standing = Standing { seq: Some(seq), ..gone(id, source, sent_at) };
        if let Some(row) = self.shelved(id, source) {
            standing.topic.clone_from(&row.plain.topic);
            standing.key.clone_from(&row.plain.key);
            standing.body_bytes = u64::try_from(row.plain.body.len()).ok();
            standing.attempts = row.attempts;
        }
        standing
    }
}
