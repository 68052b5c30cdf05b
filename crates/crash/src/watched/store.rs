//! A store that marks what is read and settled.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::Result;
use sendoff_core::lane::Lane;
use sendoff_core::store::{
    Content, LeaseGrant, LeaseRequest, Look, OutboxStore, Outcome, RelayId, Settled, Sight, Verdict,
};
use uuid::Uuid;

use super::must;
use crate::marks::{Marks, Phase};

/// A store that marks what is read and settled.
#[derive(Debug)]
pub struct WatchedStore {
    inner: Arc<dyn OutboxStore>,
    marks: Arc<Marks>,
}

impl WatchedStore {
    /// Watches a store.
    #[must_use]
    pub fn new(inner: Arc<dyn OutboxStore>, marks: Arc<Marks>) -> Self {
        Self { inner, marks }
    }
}

#[async_trait]
impl OutboxStore for WatchedStore {
    fn address(&self) -> &str {
        self.inner.address()
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        let grant = self.inner.lease(request).await?;
        let lanes: Vec<Lane> = grant.lanes.iter().map(|lease| lease.lane).collect();
        must(self.marks.hold(&lanes));
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
                    let published = matches!(verdict.outcome, Outcome::Published { .. });
                    (verdict.seq, published)
                });
                must(self.marks.settled(rows, settled.fenced.len()));
                Ok(settled)
            }
            Err(error) => {
                must(self.marks.rows_enter(Phase::Confirmed, published()));
                Err(error)
            }
        }
    }

    async fn news(&self) -> Result<()> {
        self.inner.news().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        self.inner.sweep(rows_max).await
    }
}
