//! The relay: fetches, publishes, marks.

use std::future::Future;
use std::time::Duration;

use sendoff_core::store::clean_error;

use super::{OutboxStore, OutboxTransport};

/// So many rows are fetched at once, unless told otherwise.
pub const DEFAULT_BATCH: usize = 100;
/// The wait after a row's first failure, and what each further one adds.
pub const DEFAULT_BACKOFF_STEP: Duration = Duration::from_millis(50);
/// The longest wait.
pub const DEFAULT_BACKOFF_CAP: Duration = Duration::from_secs(5);
/// So many passes [`OutboxRelay::drain`] makes at most, unless told otherwise.
pub const DEFAULT_DRAIN_CEILING: usize = 10_000;

/// How a relay works. 0 means the default, everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayOptions {
    /// So many rows are fetched at once: [`DEFAULT_BATCH`].
    pub batch: usize,
    /// The wait after a row's first failure, and what each further one adds: [`DEFAULT_BACKOFF_STEP`].
    pub backoff_step: Duration,
    /// The longest wait: [`DEFAULT_BACKOFF_CAP`].
    pub backoff_cap: Duration,
}

/// What became of the rows of a pass, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayTally {
    /// So many were published and marked.
    pub published: usize,
    /// So many publishes failed.
    pub failed: usize,
}

impl RelayTally {
    /// How many publishes were tried.
    #[must_use]
    pub fn attempted(self) -> usize {
        self.published + self.failed
    }
}

/// How the relay waits. A test brings its own.
pub trait Sleeper: Send {
    /// Returns after this time; at once for none.
    fn sleep(&mut self, wait: Duration) -> impl Future<Output = ()> + Send;
}

/// Waits by tokio's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioSleeper;

impl Sleeper for TokioSleeper {
    async fn sleep(&mut self, wait: Duration) {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Publishes what an outbox holds, with the very bytes that were saved.
///
/// A crash between the publish and its mark publishes the row again: at least once, under the same id
/// in the envelope. So does dropping one of its futures before it is done.
#[derive(Debug)]
pub struct OutboxRelay<T, S, Z = TokioSleeper> {
    transport: T,
    store: S,
    sleeper: Z,
    options: RelayOptions,
}

impl<T: OutboxTransport, S: OutboxStore> OutboxRelay<T, S> {
    /// A relay with the defaults.
    pub fn new(transport: T, store: S) -> Self {
        Self::with_options(transport, store, RelayOptions::default())
    }

    /// A relay with other options.
    pub fn with_options(transport: T, store: S, options: RelayOptions) -> Self {
        Self { transport, store, sleeper: TokioSleeper, options }
    }
}

impl<T: OutboxTransport, S: OutboxStore, Z: Sleeper> OutboxRelay<T, S, Z> {
    /// The same relay with another way to wait.
    pub fn with_sleeper<Y: Sleeper>(self, sleeper: Y) -> OutboxRelay<T, S, Y> {
        let Self { transport, store, options, .. } = self;
        OutboxRelay { transport, store, sleeper, options }
    }

    /// One pass: fetches a batch and publishes it row by row. A row that fails is marked, waited for, and
    /// left; those behind it go on. What was published is marked at the end, in one call.
    ///
    /// # Errors
    /// The store's own. What was published by then is marked first, where the store still takes it.
    pub async fn flush(&mut self) -> Result<RelayTally, S::Error> {
        let batch = or_default(self.options.batch, DEFAULT_BATCH);
        let records = self.store.fetch_unpublished(batch).await?;
        let mut tally = RelayTally::default();
        let mut published = Vec::new();
        let mut broken = None;
        for record in records {
            match self.transport.publish(&record.queue, &record.body).await {
                Ok(()) => {
                    published.push(record.id);
                    tally.published += 1;
                }
                Err(error) => {
                    tally.failed += 1;
                    let reason = clean_error(&error.to_string());
                    if let Err(error) = self.store.mark_failed(&record.id, &reason).await {
                        broken = Some(error);
                        break;
                    }
                    let wait = self.backoff(record.attempts);
                    self.sleeper.sleep(wait).await;
                }
            }
        }
        if !published.is_empty() {
            self.store.mark_published(&published).await?;
        }
        broken.map_or(Ok(tally), Err)
    }

    /// Passes until one has published nothing, or until there were `passes_max` of them
    /// ([`DEFAULT_DRAIN_CEILING`] for 0). The tally is that of all passes.
    ///
    /// # Errors
    /// Those of [`OutboxRelay::flush`].
    pub async fn drain(&mut self, passes_max: usize) -> Result<RelayTally, S::Error> {
        let mut all = RelayTally::default();
        for _ in 0..or_default(passes_max, DEFAULT_DRAIN_CEILING) {
            let pass = self.flush().await?;
            all.published += pass.published;
            all.failed += pass.failed;
            if pass.published == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// The wait after a failure of a row that failed `prior` times before: one step for each, up to the
    /// cap.
    #[must_use]
    pub fn backoff(&self, prior: u32) -> Duration {
        let step = duration_or(self.options.backoff_step, DEFAULT_BACKOFF_STEP);
        let cap = duration_or(self.options.backoff_cap, DEFAULT_BACKOFF_CAP);
        step.saturating_mul(prior.saturating_add(1)).min(cap)
    }
}

fn or_default(value: usize, default: usize) -> usize {
    if value == 0 { default } else { value }
}

fn duration_or(value: Duration, default: Duration) -> Duration {
    if value.is_zero() { default } else { value }
}
