//! The operator's side of the memory store: look and mend.

use async_trait::async_trait;

use super::row::{Spot, Stored};
use super::state::{Pair, SCHEMA_VERSION, State};
use super::store::{ADDRESS, MemoryStore};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Headers, Message};
use crate::outbox::Transaction;
use crate::store::{
    Holder, Mended, OutboxDesk, Place, QuarantinedMessage, Schema, SchemaState, Standing, Stats,
    Which,
};
use crate::time::Timestamp;

#[async_trait]
impl OutboxDesk for MemoryStore {
    async fn migrate(&self) -> Result<Schema> {
        let mut state = self.shared.lock();
        if state.is_newer_and_usable() {
            return Ok(state.schema());
        }
        if state.schema > SCHEMA_VERSION {
            return Err(Error::new(ErrorKind::SchemaTooNew, "migrating the schema")
                .subject(ADDRESS)
                .detail(format!(
                    "it has version {}, this program knows {SCHEMA_VERSION}",
                    state.schema
                )));
        }
        state.schema = SCHEMA_VERSION;
        Ok(state.schema())
    }

    async fn schema(&self) -> Result<Schema> {
        Ok(self.shared.lock().schema())
    }

    async fn send_all(&self, messages: &[Message]) -> Result<()> {
        let mut transaction = self.begin();
        transaction.append(messages).await?;
        transaction.commit().await
    }

    async fn stats(&self) -> Result<Stats> {
        let now = self.shared.now();
        let state = self.shared.lock();
        state.need_schema("counting messages")?;
        Ok(state.stats(now))
    }

    async fn find(&self, id: &str, source: Option<&str>) -> Result<Vec<Standing>> {
        let now = self.shared.now();
        let state = self.shared.lock();
        state.need_schema("finding a message")?;
        let found = state
            .pairs
            .range((id.to_owned(), String::new())..)
            .take_while(|((of, _), _)| of == id)
            .filter(|((_, from), _)| source.is_none_or(|source| source == from))
            .filter_map(|((id, source), pair)| match pair {
                Pair::Claimed(_) => None,
                Pair::Kept { seq: None, sent_at, .. } => Some(gone(id, source, *sent_at)),
                Pair::Kept { seq: Some(seq), .. } => {
                    state.rows.get(seq).map(|row| state.standing(row, now))
                }
            })
            .collect();
        Ok(found)
    }

    async fn quarantined(&self, after_seq: i64, rows_max: u32) -> Result<Vec<QuarantinedMessage>> {
        let state = self.shared.lock();
        state.need_schema("reading the quarantine")?;
        let above = after_seq.saturating_add(1);
        let page = state
            .quarantine
            .range(above..)
            .filter_map(|seq| state.quarantined_message(*seq))
            .take(usize::try_from(rows_max).unwrap_or(usize::MAX))
            .collect();
        Ok(page)
    }

    async fn holders(&self, rows_max: u32) -> Result<Vec<Holder>> {
        let state = self.shared.lock();
        state.need_schema("reading what holds")?;
        Ok(state.holders(usize::try_from(rows_max).unwrap_or(usize::MAX)))
    }

    async fn requeue(&self, which: &Which) -> Result<Mended> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema("requeueing messages")?;
        let mut mended = Mended::default();
        for seq in state.chosen(which) {
            state.change(seq, |row| {
                row.quarantine = None;
                row.attempts = 0;
                // With a retry time it stays what its key's later rows wait for, and a look finds
                // it wherever the floor is.
                row.retry_at = Some(now);
            });
            mended.messages += 1;
        }
        state.news += u64::from(mended.messages > 0);
        drop(state);
        self.shared.ended.notify_waiters();
        Ok(mended)
    }

    async fn discard(&self, which: &Which) -> Result<Mended> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.need_schema("discarding messages")?;
        let mut mended = Mended::default();
        let mut keys = Vec::new();
        for seq in state.chosen(which) {
            keys.extend(state.remove(seq).and_then(|row| row.plain.key));
            mended.messages += 1;
        }
        for key in keys {
            mended.released += count(state.stuck(&key).len());
            state.promote(&key, now);
        }
        state.news += u64::from(mended.released > 0);
        drop(state);
        self.shared.ended.notify_waiters();
        Ok(mended)
    }
}

pub(super) fn gone(id: &str, source: &str, sent_at: Timestamp) -> Standing {
    Standing {
        id: id.to_owned(),
        source: source.to_owned(),
        place: Place::Gone,
        topic: String::new(),
        key: None,
        seq: None,
        lane: None,
        body_bytes: None,
        sent_at: Some(sent_at),
        due_at: None,
        retry_at: None,
        attempts: 0,
        last_error: None,
        owner: None,
        held_behind: None,
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl State {
    fn schema(&self) -> Schema {
        Schema {
            version: self.schema,
            needed: SCHEMA_VERSION,
            state: match self.schema {
                SCHEMA_VERSION => SchemaState::Current,
                _ if self.is_newer_and_usable() => SchemaState::Newer,
                version if version > SCHEMA_VERSION => SchemaState::TooNew,
                _ => SchemaState::Missing,
            },
            missing: if self.schema < SCHEMA_VERSION {
                vec!["the outbox".to_owned()]
            } else {
                Vec::new()
            },
            changed: Vec::new(),
        }
    }

    fn stats(&self, now: Timestamp) -> Stats {
        let mut stats = Stats {
            published: self.published,
            lanes: count(self.lanes.len()),
            lanes_leased: count(
                self.lanes.iter().filter(|lane| lane.owner.is_some() && lane.until > now).count(),
            ),
            relays: count(self.relays.values().filter(|relay| relay.until > now).count()),
            ..Stats::default()
        };
        let mut oldest: Option<Timestamp> = None;
        for row in self.rows.values() {
            match row.spot() {
                Spot::Held => stats.held += 1,
                Spot::Quarantined => stats.quarantined += 1,
                Spot::Ready | Spot::Waiting(_) => {
                    stats.pending += 1;
                    stats.retrying += u64::from(row.retry_at.is_some());
                    let since = row.plain.due_at.unwrap_or(row.created_at);
                    if since <= now {
                        stats.due += 1;
                        let since = since.max(row.created_at);
                        oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
                    }
                }
            }
        }
        stats.oldest_due_ms =
            oldest.map(|oldest| u64::try_from(now.duration_since(oldest).as_millis()).unwrap_or(0));
        stats
    }

    pub(super) fn standing(&self, row: &Stored, now: Timestamp) -> Standing {
        let lane = &self.lanes[usize::from(row.lane.0)];
        Standing {
            id: row.plain.id.clone(),
            source: row.plain.source.clone(),
            place: row.place(now),
            topic: row.plain.topic.clone(),
            key: row.plain.key.clone(),
            seq: Some(row.seq),
            lane: Some(row.lane.0),
            body_bytes: Some(count(row.plain.body.len())),
            sent_at: Some(row.created_at),
            due_at: row.plain.due_at,
            retry_at: row.retry_at,
            attempts: row.attempts,
            last_error: row.last_error.clone(),
            owner: lane.owner.clone().filter(|_| lane.until > now),
            held_behind: self
                .blocker_of(row)
                .filter(|_| row.held)
                .and_then(|seq| self.rows.get(&seq))
                .map(|blocker| blocker.plain.id.clone()),
        }
    }

    fn quarantined_message(&self, seq: i64) -> Option<QuarantinedMessage> {
        let row = self.rows.get(&seq)?;
        let quarantine = row.quarantine?;
        let held = row.key().filter(|_| row.holds).and_then(|key| self.held.get(key));
        Some(QuarantinedMessage {
            seq,
            id: row.plain.id.clone(),
            source: row.plain.source.clone(),
            topic: row.plain.topic.clone(),
            key: row.plain.key.clone(),
            headers: Headers::from_json(row.plain.headers.as_bytes()).unwrap_or_default(),
            body_bytes: count(row.plain.body.len()),
            reason: quarantine.reason.as_str().to_owned(),
            error: row.last_error.clone().unwrap_or_default(),
            attempts: row.attempts,
            quarantined_at: quarantine.at,
            holds: held.map_or(0, |seqs| count(seqs.len())),
        })
    }

    fn holders(&self, rows_max: usize) -> Vec<Holder> {
        let mut most: Vec<(u64, i64)> = self
            .held
            .iter()
            .filter_map(|(key, held)| Some((count(held.len()), *self.blockers.get(key)?.first()?)))
            .collect();
        most.sort_unstable_by_key(|(holds, seq)| (u64::MAX - holds, *seq));
        most.truncate(rows_max);
        let in_line = |row: &&Stored| row.blocks() && matches!(row.spot(), Spot::Waiting(_));
        let first = self.rows.values().find(in_line).map(|row| row.seq);
        if let Some(first) = first.filter(|first| most.iter().all(|(_, seq)| seq != first)) {
            most.push((0, first));
        }
        let holder = |(holds, seq): &(u64, i64)| {
            let row = self.rows.get(seq)?;
            Some(Holder {
                seq: row.seq,
                id: row.plain.id.clone(),
                source: row.plain.source.clone(),
                topic: row.plain.topic.clone(),
                key: row.plain.key.clone(),
                place: if row.quarantine.is_some() { Place::Quarantined } else { Place::Retrying },
                attempts: row.attempts,
                retry_at: row.retry_at,
                error: row.last_error.clone(),
                holds: *holds,
            })
        };
        most.iter().filter_map(holder).collect()
    }

    fn chosen(&self, which: &Which) -> Vec<i64> {
        let is_chosen = |row: &Stored| match which {
            Which::All => true,
            Which::Reason(reason) => row.quarantine.is_some_and(|q| q.reason == *reason),
            Which::Id { id, source } => {
                row.plain.id == *id
                    && source.as_ref().is_none_or(|source| *source == row.plain.source)
            }
        };
        self.quarantine
            .iter()
            .copied()
            .filter(|seq| self.rows.get(seq).is_some_and(is_chosen))
            .collect()
    }
}
