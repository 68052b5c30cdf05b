//! The relay with row locks: each batch is claimed, published and marked while nobody else can have it.
//!
//! Its rule is simple: the oldest row first, and what fails holds back what comes behind it. It is
//! slower than the relay with lanes, and its transactions are open while the target is asked. It is
//! there for stores that have nothing but their rows, and for those who want exactly this rule.

mod pass;
mod settings;
mod stop;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

pub use settings::RowLockSettings;
pub(super) use settings::check_batch;

use super::deliver::Delivery;
use super::gate::Gate;
use super::once::{self, Once};
use super::receive::{Nobody, handled_by};
use super::report::{Progress, Readiness, Report, ReportHook, Tally};
use crate::error::Result;
use crate::message::Message;
use crate::outbox::Wake;
use crate::publisher::{PublishClass, PublishError, Publisher};
use crate::store::{ClaimStore, OutboxDesk, RelayId, Stats};

/// A relay that claims rows, publishes them while they are claimed, and marks them.
///
/// The oldest row that is neither published nor in quarantine is claimed; rows that another relay has
/// claimed are passed over. It is published, marked and committed. A row that does not decode, and one
/// whose publish fails for good, goes to quarantine, and the pass goes on. Any other failure ends the
/// pass: the row stays, and the next pass, a poll later, tries it again, without bound unless
/// [`RowLockSettings::attempts_max`] says otherwise.
///
/// One relay publishes in seq order: the order of the inserts among what has committed. Several share the
/// rows, and publish in no particular order. Delivery is at least once, with the same id each time.
///
/// It and a relay with lanes do not run on one store at the same time: while one with lanes is live, this
/// one stands by and reports [`crate::ErrorKind::Locked`].
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::memory::{MemoryPublisher, MemoryStore};
/// use sendoff_core::store::OutboxDesk;
/// use sendoff_core::Outbox;
/// use sendoff_core::relay::RowLockRelay;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new());
/// store.send_all(&[Outbox::new("shop").message("orders.placed").build()?]).await?;
/// let relay =
///     RowLockRelay::builder(store.clone(), Arc::new(MemoryPublisher::new())).build()?;
/// let once = relay.run_once(store, std::future::pending()).await?;
/// assert_eq!(once.tally.settled, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a relay does nothing until it runs"]
pub struct RowLockRelay {
    parts: Parts,
}

/// What it is made of.
pub(super) struct Parts {
    id: RelayId,
    store: Arc<dyn ClaimStore>,
    publisher: Arc<dyn Publisher>,
    settings: RowLockSettings,
    wake: Wake,
    report: ReportHook,
    readiness: Readiness,
    progress: Progress,
    gate: Option<Arc<dyn Gate>>,
}

impl RowLockRelay {
    /// Begins a relay from `store` to `publisher`.
    pub fn builder(store: Arc<dyn ClaimStore>, publisher: Arc<dyn Publisher>) -> RowLockBuilder {
        RowLockBuilder(Parts {
            id: RelayId::new(),
            store,
            publisher,
            settings: RowLockSettings::default(),
            wake: Wake::new(),
            report: Arc::new(|_| {}),
            readiness: Readiness::default(),
            progress: Progress::default(),
            gate: None,
        })
    }

    /// Begins a relay from `store` to the closure that [`RowLockRelay::receive`] is given.
    pub fn receiver(store: Arc<dyn ClaimStore>) -> RowLockBuilder {
        Self::builder(store, Arc::new(Nobody))
    }

    /// The relay's id.
    #[must_use]
    pub fn id(&self) -> &RelayId {
        &self.parts.id
    }

    /// Whether it is ready: a handle to keep while the relay runs.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.parts.readiness.clone()
    }

    /// How far it is: a handle to keep while the relay runs.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.parts.progress.clone()
    }

    /// Runs until `stop` is done: what is claimed then is settled, and with a
    /// [`RowLockSettings::drain`] a last pass follows.
    ///
    /// No row and no failure ends it: what it survives goes to the report hook. Dropping the future is as
    /// safe as a crash.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Tally {
        pass::run(self.parts, stop).await
    }

    /// Runs with a closure in the publisher's place: a message is published when it has returned `Ok`.
    pub async fn receive<H, F>(mut self, handler: H, stop: impl Future<Output = ()> + Send) -> Tally
    where
        H: Fn(Arc<Message>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), PublishError>> + Send + 'static,
    {
        self.parts.publisher = handled_by(handler);
        pass::run(self.parts, stop).await
    }

    /// Runs until nothing due is pending in the whole store, or until `stop` is done.
    ///
    /// # Errors
    /// Errors of the store that no retry mends, such as [`crate::ErrorKind::SchemaTooNew`].
    pub async fn run_once(
        self,
        desk: Arc<dyn OutboxDesk>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Once> {
        // Held behind another message or not: a claim takes it.
        let is_drained = |stats: &Stats| stats.due == 0 && stats.held == 0;
        let progress = self.progress();
        let ending = once::Ending { desk, progress, is_drained };
        once::run_once(ending, stop, |stop| Box::pin(pass::run(self.parts, stop))).await
    }
}

impl Parts {
    fn delivery(&self) -> Delivery {
        Delivery {
            store: Arc::clone(&self.store),
            publisher: Arc::clone(&self.publisher),
            timeout: self.settings.publish_timeout,
            attempts_max: self.settings.attempts_max,
            // The rest may be the target's: an outage uses up nobody's attempts.
            counts: |class| class == PublishClass::Failed,
        }
    }
}

impl fmt::Debug for RowLockRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowLockRelay")
            .field("id", &self.parts.id)
            .field("from", &self.parts.store.address())
            .field("to", &self.parts.publisher.address())
            .finish_non_exhaustive()
    }
}

/// Builds a [`RowLockRelay`].
#[must_use = "a relay is built by `build`"]
pub struct RowLockBuilder(Parts);

impl RowLockBuilder {
    /// Settings other than the defaults.
    pub fn settings(mut self, settings: RowLockSettings) -> Self {
        self.0.settings = settings;
        self
    }

    /// The wake-up that senders in this process call after their commits.
    pub fn wake(mut self, wake: Wake) -> Self {
        self.0.wake = wake;
        self
    }

    /// Takes what the relay reports. It must not block for long. Without one, reports are discarded.
    pub fn report(mut self, hook: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self.0.report = Arc::new(hook);
        self
    }

    /// The gate that the relay holds shared from before a claim until that has ended.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.0.gate = Some(Arc::new(gate));
        self
    }

    /// Checks the settings and gives the relay.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<RowLockRelay> {
        self.0.settings.check()?;
        Ok(RowLockRelay { parts: self.0 })
    }
}

impl fmt::Debug for RowLockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowLockBuilder").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
