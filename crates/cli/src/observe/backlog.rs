//! The store's backlog for scrapes, counted at most once in a while.

use std::sync::Arc;
use std::time::Duration;

use sendoff::store::{Backlog, OutboxStore};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long a count is good for.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// So far it is counted.
pub(super) const COUNT_MAX: u32 = 100_000;
/// A store that has not answered by then does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts of one store.
#[derive(Debug)]
pub(super) struct Backlogs {
    store: Arc<dyn OutboxStore>,
    /// The last count; `None` where the store did not answer.
    last: Mutex<Option<(Instant, Option<Backlog>)>>,
}

impl Backlogs {
    pub(super) fn of(store: Arc<dyn OutboxStore>) -> Self {
        Self { store, last: Mutex::new(None) }
    }

    /// The backlog, at most [`GOOD_FOR`] old. However many ask, one counts.
    pub(super) async fn read(&self) -> Option<Backlog> {
        let mut last = self.last.lock().await;
        if let Some((at, backlog)) = *last
            && at.elapsed() < GOOD_FOR
        {
            return backlog;
        }
        let backlog = match timeout(PATIENCE, self.store.backlog(COUNT_MAX)).await {
            Ok(Ok(backlog)) => Some(backlog),
            Ok(Err(error)) => {
                tracing::warn!(
                    event = "backlog_not_counted", kind = error.kind().as_str(), %error,
                    "counting the backlog failed"
                );
                None
            }
            Err(_) => None,
        };
        *last = Some((Instant::now(), backlog));
        backlog
    }
}
