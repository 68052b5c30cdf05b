//! The port for claiming rows one batch at a time: each is published while it is claimed.
//!
//! It is what `relay::row_locks` and `relay::batch` run on. A store that has row locks keeps a
//! transaction open for as long as a batch is claimed; one that has not holds a lease meanwhile. A table
//! of somebody else's can be claimed as well: three statements are enough.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Content, QuarantineReason, RelayId};
use crate::error::Result;
use crate::message::Message;
use crate::publisher::PublishError;

/// A store whose rows are claimed, published while they are claimed, and marked.
///
/// Every method may be called from several tasks at once and may be cancelled at every await: what was
/// claimed is then free again, and nothing of it is marked.
#[async_trait]
pub trait ClaimStore: fmt::Debug + Send + Sync + 'static {
    /// The store's address for people: no password.
    fn address(&self) -> &str;

    /// Claims the oldest rows, in seq order, that are neither published nor in quarantine, are due, and
    /// that nobody else has claimed; `None` where there is none. Rows that another has claimed are
    /// passed over, not waited for; a store without row locks gives none while another relay claims.
    ///
    /// Whether an earlier row of the same key has failed does not matter here: what is left of a key
    /// comes in seq order.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Locked`] while a relay that leases lanes is live on the store: it reads
    /// without locks, so both would publish the same rows. And those of the database.
    async fn claim<'a>(&'a self, request: &ClaimRequest) -> Result<Option<Box<dyn Claimed + 'a>>>;

    /// Waits until there may be something new, as [`super::OutboxStore::news`]. Without hints it waits
    /// for ever, and the relay polls.
    ///
    /// # Errors
    /// Those of the database; the relay then goes on by polling.
    async fn news(&self) -> Result<()> {
        std::future::pending().await
    }

    /// Housekeeping, as [`super::OutboxStore::sweep`]. Answers how many rows went.
    ///
    /// # Errors
    /// Those of the database.
    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        let _ = rows_max;
        Ok(0)
    }

    /// Runs a message whose topic is the product's own, as [`super::OutboxStore::attend`].
    ///
    /// # Errors
    /// A [`PublishError`] whose class says what the relay does about it.
    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        let topic = message.topic();
        Err(PublishError::permanent(format!("this store runs no errand of the topic {topic}")))
    }

    /// The relay claims no more: what a store keeps of it between two claims may go.
    ///
    /// # Errors
    /// Those of the database; then it lapses by itself.
    async fn leave(&self, relay: &RelayId) -> Result<()> {
        let _ = relay;
        Ok(())
    }
}

/// What to claim.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Who claims.
    pub relay: RelayId,
    /// Where it publishes to, as people see it: kept with what is published, where that is kept.
    pub target: Option<String>,
    /// Rows with a seq above this one. Seqs are positive: 0 asks for all.
    pub after: i64,
    /// At most so many rows.
    pub rows_max: usize,
    /// At most so many bytes of bodies and headers; the first row is given whatever it weighs.
    pub bytes_max: usize,
    /// How long the claim may last. What is not marked by then is free again, whatever has become of
    /// the relay.
    pub lasts: Duration,
}

/// Rows that are claimed. Dropping it gives them back.
#[async_trait]
pub trait Claimed: Send {
    /// The rows, at least one, in seq order.
    fn rows(&self) -> &[ClaimedRow];

    /// Marks rows and ends the claim, in one transaction: the marks are one statement, however many
    /// they are. Rows without a mark are as they were.
    ///
    /// # Errors
    /// Those of the database; then nothing was marked, or (where the answer was lost) it is unknown.
    async fn mark(self: Box<Self>, marks: &[Mark]) -> Result<Marked>;

    /// Gives the rows back as they were.
    ///
    /// # Errors
    /// Those of the database; the rows are then free once the claim's time is over, at the latest.
    async fn give_back(self: Box<Self>) -> Result<()>;
}

/// A row that is claimed.
#[derive(Debug, Clone)]
pub struct ClaimedRow {
    /// Its position.
    pub seq: i64,
    /// Its key.
    pub key: Option<Arc<str>>,
    /// How often its own publish has failed.
    pub attempts: u32,
    /// What it says: [`Content::Message`] or [`Content::Undecodable`].
    pub content: Content,
}

/// What became of one claimed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The row.
    pub seq: i64,
    /// What became of it.
    pub verdict: MarkVerdict,
}

/// What became of a claimed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkVerdict {
    /// The target has confirmed it. It is kept where the store's retention says so.
    Published,
    /// The publish failed; the row stays to be published and can be claimed at once.
    Failed {
        /// What went wrong, as [`super::clean_error`] gives it. Kept where the store has a place for it.
        error: String,
        /// Whether this counts as an attempt of the message's own.
        counts: bool,
    },
    /// Set aside: it is not claimed again. Nothing is held behind it, also not by a relay with lanes.
    Quarantined {
        /// Why.
        reason: QuarantineReason,
        /// What went wrong, as [`super::clean_error`] gives it.
        error: String,
    },
}

/// What marking did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marked {
    /// Rows that were recorded as published.
    pub published: u64,
    /// Seqs of rows whose claim had ended before. What was published of them is recorded all the same;
    /// the rest changed nothing.
    pub fenced: Vec<i64>,
}
