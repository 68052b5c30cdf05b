//! A store that marks what is read and settled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sendoff::lane::Lane;
use sendoff::store::{
    Backlog, Content, LeaseGrant, LeaseRequest, Look, OutboxStore, Outcome, RelayId, Settled,
    Sight, Tend, Tended, Verdict,
};
use sendoff::{Message, PublishError, Result};
use uuid::Uuid;

use super::must;
use crate::marks::{Marks, Phase, now};

/// A store that marks what is read and settled.
#[derive(Debug)]
pub struct WatchedStore {
    inner: Arc<dyn OutboxStore>,
    marks: Arc<Marks>,
    /// Until when a lane is leased under an epoch, counted from before the renewal was sent.
    leased: Mutex<HashMap<(Lane, i64), u64>>,
}

impl WatchedStore {
    /// Watches a store.
    #[must_use]
    pub fn new(inner: Arc<dyn OutboxStore>, marks: Arc<Marks>) -> Self {
        Self { inner, marks, leased: Mutex::default() }
    }

    fn leased(&self) -> MutexGuard<'_, HashMap<(Lane, i64), u64>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the verdicts that were fenced. Nobody may own a lane while its lease lasts.
    fn mark_fenced(&self, verdicts: &[Verdict], fenced: &[i64]) {
        let at = now();
        for verdict in verdicts.iter().filter(|verdict| fenced.contains(&verdict.seq)) {
            let until = self.leased().get(&(verdict.lane, verdict.epoch)).copied();
            let early = until.is_some_and(|until| at < until);
            let phase = if early { Phase::FencedEarly } else { Phase::Fenced };
            must(self.marks.rows_enter(phase, std::iter::once(verdict.seq)));
        }
    }
}

#[async_trait]
impl OutboxStore for WatchedStore {
    fn address(&self) -> &str {
        self.inner.address()
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        let until = now().saturating_add(u64::try_from(request.ttl.as_nanos()).unwrap_or(u64::MAX));
        let grant = self.inner.lease(request).await?;
        self.leased().extend(grant.lanes.iter().map(|held| ((held.lane, held.epoch), until)));
        let lanes: Vec<Lane> = grant.lanes.iter().map(|lease| lease.lane).collect();
        must(self.marks.hold(&lanes, until));
        Ok(grant)
    }

    async fn look(&self, look: &Look) -> Result<Sight> {
        let sight = self.inner.look(look).await?;
        let rows: Vec<(i64, u128, Lane)> = sight
            .rows
            .iter()
            .filter_map(|row| match &row.content {
                Content::Message(message) => {
                    let id = Uuid::try_parse(message.id()).ok()?;
                    Some((row.seq, id.as_u128(), row.lane))
                }
                Content::Undecodable(_) | Content::Blocked => None,
            })
            .collect();
        must(self.marks.read(&rows));
        Ok(sight)
    }

    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
        let published = || {
            verdicts
                .iter()
                .filter(|verdict| matches!(verdict.outcome, Outcome::Published { .. }))
                .map(|verdict| verdict.seq)
        };
        must(self.marks.rows_enter(Phase::Settling, published()));
        match self.inner.settle(relay, verdicts).await {
            Ok(settled) => {
                let rows = verdicts.iter().map(|verdict| {
                    let phase = match verdict.outcome {
                        Outcome::Published { .. } => Phase::Settled,
                        Outcome::Retry { .. } | Outcome::Parked { .. } => Phase::Retried,
                        Outcome::Quarantined { .. } => Phase::Quarantined,
                        Outcome::Held => Phase::Held,
                    };
                    (verdict.seq, phase)
                });
                self.mark_fenced(verdicts, &settled.fenced);
                must(self.marks.settled(rows));
                Ok(settled)
            }
            Err(error) => {
                must(self.marks.rows_enter(Phase::Confirmed, published()));
                Err(error)
            }
        }
    }

    async fn backlog(&self, count_max: u32) -> Result<Backlog> {
        self.inner.backlog(count_max).await
    }

    async fn news(&self) -> Result<()> {
        self.inner.news().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        self.inner.sweep(rows_max).await
    }

    async fn tend(&self, request: &Tend) -> Result<Tended> {
        self.inner.tend(request).await
    }

    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        self.inner.attend(message).await
    }
}
