//! Batches on demand: a program publishes what is committed when it wants to, and gets a tally.
//!
//! [`BatchRelay::flush`] is one batch, [`BatchRelay::drain`] as many as there are. A message that fails
//! stops none of those behind it. What runs by itself is `row_locks` and the relay with lanes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::deliver::{self, Delivered, Delivery, End};
use super::policy::Hold;
use super::report::{Report, ReportHook};
use super::row_locks::check_batch;
use crate::error::{Error, Result};
use crate::publisher::{PublishClass, Publisher};
use crate::store::{ClaimRequest, ClaimStore, Mark, RelayId, clean_error};

/// The most passes of a [`BatchRelay::drain`] that was given no limit.
pub const DRAIN_PASSES_MAX: u32 = 10_000;

/// The final message to the store takes no longer than this.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of a [`BatchRelay`]. Start from the default and change what you need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSettings {
    /// The most messages in one batch. Default 100.
    pub batch: usize,
    /// The most bytes of bodies and headers in one batch; one message may be larger. Default 32 MiB.
    pub batch_bytes: usize,
    /// How long one publish may take. A batch lasts twice as long at most: what it does not reach is left
    /// for the next one. Default 5 s.
    pub publish_timeout: Duration,
    /// After a batch with failures the relay waits this long for each failure that the message had,
    /// the last one included: linearly longer. 0 waits not at all. Default 50 ms.
    pub backoff_step: Duration,
    /// The longest wait. Default 5 s.
    pub backoff_max: Duration,
    /// Quarantine a message after so many failed attempts of its own. Default: never.
    pub attempts_max: Option<u32>,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            batch: 100,
            batch_bytes: 32 << 20,
            publish_timeout: Duration::from_secs(5),
            backoff_step: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            attempts_max: None,
        }
    }
}

impl BatchSettings {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the first setting that is out of range, and the range.
    pub fn check(&self) -> Result<()> {
        const HOUR: Duration = Duration::from_secs(3_600);
        if self.backoff_max > HOUR {
            return Err(Error::invalid(
                "checking the relay's settings",
                "the longest wait has to be an hour or less",
            ));
        }
        check_batch(self.batch, self.batch_bytes, self.publish_timeout, self.attempts_max)
    }

    /// The wait after a failure of a message that has failed so often before.
    fn backoff(&self, failed_before: u32) -> Duration {
        self.backoff_step.saturating_mul(failed_before.saturating_add(1)).min(self.backoff_max)
    }
}

/// What batches did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Flushed {
    /// Messages that were published and marked so.
    pub published: u64,
    /// Messages that failed.
    pub failed: u64,
    /// Of the failed ones, those that went to quarantine.
    pub quarantined: u64,
}

impl Flushed {
    /// Messages that were attempted.
    #[must_use]
    pub fn attempted(&self) -> u64 {
        self.published + self.failed
    }
}

/// Publishes batches of committed messages on demand, oldest first.
///
/// Delivery is at least once, with the same id each time. Several may work on one store; a relay with
/// lanes may not, see [`super::RowLockRelay`].
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::memory::{MemoryPublisher, MemoryStore};
/// use sendoff_core::store::OutboxDesk;
/// use sendoff_core::Outbox;
/// use sendoff_core::relay::{BatchRelay, BatchSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new());
/// store.send_all(&[Outbox::new("shop").message("orders.placed").build()?]).await?;
/// let publisher = Arc::new(MemoryPublisher::new());
/// let relay = BatchRelay::new(store, publisher, BatchSettings::default())?;
/// let done = relay.drain(0).await?;
/// assert_eq!((done.published, done.failed, done.attempted()), (1, 0, 1));
/// # Ok(())
/// # }
/// ```
pub struct BatchRelay {
    id: RelayId,
    delivery: Delivery,
    settings: BatchSettings,
    report: ReportHook,
}

impl BatchRelay {
    /// A relay from `store` to `publisher`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the setting that is out of range.
    pub fn new(
        store: Arc<dyn ClaimStore>,
        publisher: Arc<dyn Publisher>,
        settings: BatchSettings,
    ) -> Result<Self> {
        settings.check()?;
        let delivery = Delivery {
            store,
            publisher,
            timeout: settings.publish_timeout,
            attempts_max: settings.attempts_max,
            counts: |class| {
                !matches!(class, PublishClass::Unreachable | PublishClass::Throttled { .. })
            },
        };
        Ok(Self { id: RelayId::new(), delivery, settings, report: Arc::new(|_| {}) })
    }

    /// Takes what is reported: `Quarantined` and `PublishFailed`, each after the commit.
    #[must_use]
    pub fn with_report(mut self, hook: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self.report = Arc::new(hook);
        self
    }

    /// Publishes one batch: claims it, publishes each message in order, and marks them all with one
    /// statement. A message that fails is marked with its attempts and its error, stays pending, and
    /// stops none of those behind it; after the mark the relay waits, with nothing claimed, for the
    /// longest wait that a message of the batch asks for.
    ///
    /// # Errors
    /// Those of the store. Then nothing of the batch is marked, and all of it comes again.
    pub async fn flush(&self) -> Result<Flushed> {
        let flushed = self.flush_batch().await;
        self.leave().await;
        flushed
    }

    /// A store without row locks would keep others out for as long as a claim lasts.
    async fn leave(&self) {
        let leave = self.delivery.store.leave(&self.id);
        if !matches!(tokio::time::timeout(LEAVE_TIMEOUT, leave).await, Ok(Ok(()))) {
            tracing::warn!("telling the store that the batch is over failed; its claim lapses");
        }
    }

    async fn flush_batch(&self) -> Result<Flushed> {
        const MARKING: &str = "marking a batch";
        let begun = Instant::now();
        let timeout = self.settings.publish_timeout;
        let request = ClaimRequest {
            relay: self.id.clone(),
            target: Some(clean_error(self.delivery.publisher.address())),
            after: 0,
            rows_max: self.settings.batch,
            bytes_max: self.settings.batch_bytes,
            lasts: timeout * 2,
        };
        let Some(claimed) = self.delivery.store.claim(&request).await? else {
            return Ok(Flushed::default());
        };
        let mut delivered: Vec<Delivered> = Vec::with_capacity(claimed.rows().len());
        for row in claimed.rows() {
            // So that what is begun last has its whole time, and the mark a quarter of the claim's.
            if !delivered.is_empty() && begun.elapsed() > timeout / 2 {
                break;
            }
            delivered.push(self.delivery.deliver(row, timeout).await);
        }
        let marks: Vec<Mark> = delivered.iter().map(Delivered::mark).collect();
        let address = self.delivery.store.address();
        let marked = claimed.mark(&marks);
        let marked = deliver::until(begun + request.lasts, MARKING, address, marked).await?;
        let (flushed, wait) = self.told(delivered, &marked.fenced);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(flushed)
    }

    /// Flushes until a pass publishes nothing, or for `passes_max` passes (0:
    /// [`DRAIN_PASSES_MAX`]). Messages that fail are tried again by every pass.
    ///
    /// # Errors
    /// Those of the store. What passes before the failed one did is done.
    pub async fn drain(&self, passes_max: u32) -> Result<Flushed> {
        let passes = if passes_max == 0 { DRAIN_PASSES_MAX } else { passes_max };
        let drained = self.drain_batches(passes).await;
        self.leave().await;
        drained
    }

    async fn drain_batches(&self, passes: u32) -> Result<Flushed> {
        let mut total = Flushed::default();
        for _ in 0..passes {
            let pass = self.flush_batch().await?;
            total.published += pass.published;
            total.failed += pass.failed;
            total.quarantined += pass.quarantined;
            if pass.published == 0 {
                break;
            }
        }
        Ok(total)
    }

    /// Counts and reports what is marked by now. Answers the wait as well.
    fn told(&self, delivered: Vec<Delivered>, fenced: &[i64]) -> (Flushed, Duration) {
        let mut flushed = Flushed::default();
        let mut wait = Duration::ZERO;
        for one in delivered {
            match &one.end {
                End::Published => flushed.published += 1,
                End::Quarantined { .. } => {
                    flushed.failed += 1;
                    flushed.quarantined += 1;
                }
                End::Failed { .. } => {
                    flushed.failed += 1;
                    wait = wait.max(self.settings.backoff(one.attempts));
                }
            }
            let is_fenced = fenced.contains(&one.seq);
            let Some(report) = one.report(Hold::None).filter(|_| !is_fenced) else { continue };
            if catch_unwind(AssertUnwindSafe(|| (self.report)(&report))).is_err() {
                tracing::error!("the report hook panicked; the batch goes on");
            }
        }
        (flushed, wait)
    }
}

impl fmt::Debug for BatchRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchRelay")
            .field("from", &self.delivery.store.address())
            .field("to", &self.delivery.publisher.address())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
