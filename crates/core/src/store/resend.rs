//! Sending kept messages again: which, in which batches, and how far it has come.

use serde::Serialize;

use super::{KeptDesk, KeptLook, KeptMark, KeptMessage, Resent};
use crate::error::Result;
use crate::message::TopicPattern;
use crate::time::Timestamp;

/// So many kept messages are looked at in one step, and sent again in one transaction.
const STEP_ROWS: u32 = 1_000;

/// Which kept messages. What is `None` does not matter.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// First published at or after this time.
    pub from: Option<Timestamp>,
    /// First published before this time.
    pub until: Option<Timestamp>,
    /// With a topic of this pattern.
    pub topic: Option<TopicPattern>,
    /// With this key.
    pub key: Option<String>,
    /// With this id.
    pub id: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Behind this mark: where an earlier run ended.
    pub after: Option<KeptMark>,
}

/// How far a [`Resend`] has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Resending {
    /// Kept messages of the time range that were looked at.
    pub looked_at: u64,
    /// Of these, those that are wanted.
    pub wanted: u64,
    /// What became of them; nothing in a dry run.
    #[serde(flatten)]
    pub resent: Resent,
    /// Where to go on.
    pub after: Option<KeptMark>,
}

/// Sends kept messages again, step by step.
///
/// A step is one page that is read and at most one transaction. Between two steps it can be stopped,
/// and another one can go on behind the mark.
///
/// ```
/// use sendoff_core::Message;
/// use sendoff_core::memory::{MemoryPublisher, MemoryStore};
/// use sendoff_core::store::{KeptDesk, OutboxDesk, Resend, Retention, Wanted};
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> sendoff_core::Result<()> {
/// let store = MemoryStore::new();
/// store.set_retention(Retention::KeepFor(std::time::Duration::from_secs(3600))).await?;
/// store.send_all(&[Message::builder("shop", "orders.placed").id("1").build()?]).await?;
/// let target = Arc::new(MemoryPublisher::new());
/// let relay = sendoff_core::Relay::builder(Arc::new(store.clone()), target).build()?;
/// relay.run_once(Arc::new(store.clone()), std::future::pending()).await?;
///
/// let mut resend = Resend::new(Wanted::default());
/// while resend.step(&store).await? {}
/// assert_eq!(resend.progress().resent.sent, 1);
/// assert_eq!(store.stats().await?.pending, 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Resend {
    wanted: Wanted,
    dry: bool,
    progress: Resending,
}

impl Resend {
    /// A run over what is wanted.
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        let progress = Resending { after: wanted.after, ..Resending::default() };
        Self { wanted, dry: false, progress }
    }

    /// Only counts.
    #[must_use]
    pub fn dry(mut self) -> Self {
        self.dry = true;
        self
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> &Resending {
        &self.progress
    }

    /// Goes on by one step; answers whether there may be more.
    ///
    /// # Errors
    /// Those of the store. The step did nothing then, and may be tried again; on
    /// [`crate::ErrorKind::Timeout`] and [`crate::ErrorKind::Unreachable`] it is unknown whether it
    /// did, and what it sent again is found waiting, or is sent a further time.
    pub async fn step(&mut self, desk: &dyn KeptDesk) -> Result<bool> {
        let look = KeptLook {
            from: self.wanted.from,
            until: self.wanted.until,
            id: self.wanted.id.clone(),
            after: self.progress.after,
            rows_max: STEP_ROWS,
        };
        let page = desk.kept(&look).await?;
        let room = self.room();
        let mut marks = Vec::new();
        let mut next = Resending { after: self.progress.after, ..Resending::default() };
        for kept in &page {
            if marks.len() == room {
                break;
            }
            next.looked_at += 1;
            next.after = Some(kept.mark);
            if self.is_wanted(kept) {
                marks.push(kept.mark);
            }
        }
        let is_whole = next.looked_at < u64::from(STEP_ROWS);
        next.wanted = u64::try_from(marks.len()).unwrap_or(u64::MAX);
        if !self.dry && !marks.is_empty() {
            next.resent = desk.resend(&marks).await?;
        }
        self.add(&next);
        Ok(!is_whole && self.room() > 0)
    }

    /// How many more may be sent.
    fn room(&self) -> usize {
        let left = self.wanted.limit.map(|limit| limit.saturating_sub(self.progress.wanted));
        left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX))
    }

    fn is_wanted(&self, kept: &KeptMessage) -> bool {
        let wanted = &self.wanted;
        wanted.topic.as_ref().is_none_or(|pattern| pattern.matches(&kept.topic))
            && wanted.key.as_ref().is_none_or(|key| kept.key.as_ref() == Some(key))
    }

    fn add(&mut self, step: &Resending) {
        let progress = &mut self.progress;
        progress.looked_at += step.looked_at;
        progress.wanted += step.wanted;
        progress.resent.sent += step.resent.sent;
        progress.resent.waiting += step.resent.waiting;
        progress.resent.gone += step.resent.gone;
        progress.after = step.after;
    }
}
