//! A run to the end: publish what is due, then return.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{Result, Retry};
use crate::relay::{Parts, Progress, Tally, engine};
use crate::store::{OutboxDesk, Stats};

/// How a run to the end ended, and what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// How it ended.
    pub end: OnceEnd,
    /// What it did.
    pub tally: Tally,
    /// The store's counts when it ended, where it ended by itself.
    pub stats: Option<Stats>,
}

/// How a run to the end ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnceEnd {
    /// Nothing due is pending and nothing is in quarantine.
    Drained,
    /// Nothing due is pending, but messages stand in quarantine.
    Quarantined,
    /// It was stopped while due messages were pending.
    GaveUp,
}

/// Between two counts of a store whose relay has nothing in memory. Counting reads every row, so it
/// is not done while there is anything to publish.
const COUNT_EVERY: Duration = Duration::from_millis(50);

pub(super) async fn run_once(
    parts: Parts,
    desk: Arc<dyn OutboxDesk>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Once> {
    let progress = parts.progress.clone();
    let (counted, ended) = oneshot::channel();
    let tally = engine::run(parts, async move {
        let stats = tokio::select! {
            stats = drained(desk, &progress) => Some(stats),
            () = stop => None,
        };
        // The receiver lives until the engine has returned.
        drop(counted.send(stats));
    })
    .await;
    let stats = ended.await.ok().flatten().transpose()?;
    let end = match &stats {
        None => OnceEnd::GaveUp,
        Some(stats) if stats.quarantined > 0 => OnceEnd::Quarantined,
        Some(_) => OnceEnd::Drained,
    };
    Ok(Once { end, tally, stats })
}

async fn drained(desk: Arc<dyn OutboxDesk>, progress: &Progress) -> Result<Stats> {
    loop {
        tokio::time::sleep(COUNT_EVERY).await;
        let now = progress.tally();
        if now.window_rows > 0 || now.looks == 0 {
            continue;
        }
        match desk.stats().await {
            Ok(stats) if stats.due == 0 => return Ok(stats),
            Ok(_) => {}
            Err(error) if error.retry() == Retry::Never => return Err(error),
            // The relay's own report says it; it goes on by itself.
            Err(_) => {}
        }
    }
}
