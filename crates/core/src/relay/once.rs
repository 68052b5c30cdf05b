//! A run to the end: publish what is due, then return.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{Result, Retry};
use crate::relay::{Progress, Tally};
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

/// How a run finds out that it has come to its end.
pub(super) struct Ending {
    pub(super) desk: Arc<dyn OutboxDesk>,
    pub(super) progress: Progress,
    pub(super) is_drained: fn(&Stats) -> bool,
}

/// A stop, as a run takes it.
pub(super) type Stopping<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

pub(super) async fn run_once<'a>(
    ending: Ending,
    stop: impl Future<Output = ()> + Send + 'a,
    run: impl FnOnce(Stopping<'a>) -> Pin<Box<dyn Future<Output = Tally> + Send + 'a>>,
) -> Result<Once> {
    let (counted, ended) = oneshot::channel();
    let tally = run(Box::pin(async move {
        let stats = tokio::select! {
            stats = drained(ending) => Some(stats),
            () = stop => None,
        };
        // The receiver lives until the relay has returned.
        drop(counted.send(stats));
    }))
    .await;
    let stats = ended.await.ok().flatten().transpose()?;
    let end = match &stats {
        None => OnceEnd::GaveUp,
        Some(stats) if stats.quarantined > 0 => OnceEnd::Quarantined,
        Some(_) => OnceEnd::Drained,
    };
    Ok(Once { end, tally, stats })
}

async fn drained(ending: Ending) -> Result<Stats> {
    let Ending { desk, progress, is_drained } = ending;
    loop {
        tokio::time::sleep(COUNT_EVERY).await;
        let now = progress.tally();
        if now.window_rows > 0 || now.looks == 0 {
            continue;
        }
        match desk.stats().await {
            Ok(stats) if is_drained(&stats) => return Ok(stats),
            Ok(_) => {}
            Err(error) if error.retry() == Retry::Never => return Err(error),
            // The relay's own report says it; it goes on by itself.
            Err(_) => {}
        }
    }
}
