//! A store that marks what is claimed and marked.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff::lane::Lane;
use sendoff::store::{
    ClaimRequest, ClaimStore, Claimed, ClaimedRow, Content, Mark, MarkVerdict, Marked, RelayId,
};
use sendoff::{Message, PublishError, Result};
use uuid::Uuid;

use super::must;
use crate::marks::{Marks, Phase, now};

/// A claim stands for a lane in the marks: what is published has to begin before it is over.
const LANE: Lane = Lane(0);

/// A store that marks what is claimed and marked.
#[derive(Debug)]
pub struct WatchedClaims {
    inner: Arc<dyn ClaimStore>,
    marks: Arc<Marks>,
}

impl WatchedClaims {
    /// Watches a store.
    #[must_use]
    pub fn new(inner: Arc<dyn ClaimStore>, marks: Arc<Marks>) -> Self {
        Self { inner, marks }
    }
}

struct WatchedClaim<'a> {
    inner: Box<dyn Claimed + 'a>,
    marks: Arc<Marks>,
}

#[async_trait]
impl ClaimStore for WatchedClaims {
    fn address(&self) -> &str {
        self.inner.address()
    }

    async fn claim<'a>(&'a self, request: &ClaimRequest) -> Result<Option<Box<dyn Claimed + 'a>>> {
        let lasts = u64::try_from(request.lasts.as_nanos()).unwrap_or(u64::MAX);
        let until = now().saturating_add(lasts);
        let Some(inner) = self.inner.claim(request).await? else {
            return Ok(None);
        };
        must(self.marks.hold(&[LANE], until));
        let rows: Vec<(i64, u128, Lane)> = inner
            .rows()
            .iter()
            .filter_map(|row| match &row.content {
                Content::Message(message) => {
                    let id = Uuid::try_parse(message.id()).ok()?;
                    Some((row.seq, id.as_u128(), LANE))
                }
                Content::Undecodable(_) | Content::Blocked => None,
            })
            .collect();
        must(self.marks.read(&rows));
        Ok(Some(Box::new(WatchedClaim { inner, marks: Arc::clone(&self.marks) })))
    }

    async fn news(&self) -> Result<()> {
        self.inner.news().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        self.inner.sweep(rows_max).await
    }

    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        self.inner.attend(message).await
    }

    async fn leave(&self, relay: &RelayId) -> Result<()> {
        self.inner.leave(relay).await
    }
}

#[async_trait]
impl Claimed for WatchedClaim<'_> {
    fn rows(&self) -> &[ClaimedRow] {
        self.inner.rows()
    }

    async fn mark(self: Box<Self>, marks: &[Mark]) -> Result<Marked> {
        let Self { inner, marks: watched } = *self;
        let published = || {
            let of = |mark: &&Mark| mark.verdict == MarkVerdict::Published;
            marks.iter().filter(of).map(|mark| mark.seq)
        };
        must(watched.rows_enter(Phase::Settling, published()));
        match inner.mark(marks).await {
            Ok(marked) => {
                let fenced = marked.fenced.iter().copied();
                must(watched.rows_enter(Phase::Fenced, fenced));
                let rows = marks.iter().map(|mark| {
                    let phase = match mark.verdict {
                        MarkVerdict::Published => Phase::Settled,
                        MarkVerdict::Failed { .. } => Phase::Retried,
                        MarkVerdict::Quarantined { .. } => Phase::Quarantined,
                    };
                    (mark.seq, phase)
                });
                must(watched.settled(rows));
                Ok(marked)
            }
            Err(error) => {
                must(watched.rows_enter(Phase::Confirmed, published()));
                Err(error)
            }
        }
    }

    async fn give_back(self: Box<Self>) -> Result<()> {
        self.inner.give_back().await
    }
}
