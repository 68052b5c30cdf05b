//! What was sent lately, and what becomes of it.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use super::Standing;
use crate::error::Result;

/// Reads the newest messages. Plain reads, bounded: nothing that a relay does waits for them.
#[async_trait]
pub trait TailDesk: fmt::Debug + Send + Sync + 'static {
    /// The messages that were sent last, at most `rows_max`, in seq order. Of one that is gone only
    /// its pair is left, unless it is kept; its seq is told all the same.
    ///
    /// # Errors
    /// Those of the database.
    async fn recent(&self, rows_max: u32) -> Result<Vec<Standing>>;

    /// The beginnings of bodies, at most `bytes_max` of each, of messages that are in the outbox.
    ///
    /// # Errors
    /// Those of the database.
    async fn bodies(&self, seqs: &[i64], bytes_max: u32) -> Result<Vec<(i64, Bytes)>>;
}
