//! The relay: looks for committed messages, publishes them and settles them.
//!
//! A relay leases lanes, reads their due rows ahead of the publisher with plain reads, publishes
//! them with many in flight but one per key, and writes the verdicts behind. No row is locked and no
//! transaction is open while a broker is asked. `docs/explanation/relay.md` tells the whole story.
//!
//! What reads what: [`RelaySettings`] and the pure parts (`route`, `window`, `lanes`, `breaker`,
//! `backoff`) know nothing of time or tasks; `engine` is the loop that drives them; [`Report`], [`Readiness`]
//! and [`Progress`] are what it tells its owner. [`RowLockRelay`] and [`BatchRelay`] are relays of another
//! kind, on a port of their own: they claim rows and publish them while they are claimed.

mod alerts;
mod backoff;
mod batch;
mod breaker;
mod deliver;
mod engine;
mod gate;
mod lanes;
mod once;
mod policy;
mod receive;
mod report;
mod route;
mod row_locks;
mod settings;
mod timings;
mod trace;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

pub use alerts::{Alert, AlertSettings, COUNT_BOUND_MAX};
pub use backoff::Backoff;
pub use batch::{BatchRelay, BatchSettings, DRAIN_PASSES_MAX, Flushed};
pub use gate::{Gate, GateExclusive, GateHold, RelayGate};
pub use once::{Once, OnceEnd};
pub use policy::{Hold, Override, Policies, Policy};
pub use receive::Receiver;
pub use report::{Progress, Readiness, Report, ReportHook, Tally};
pub use route::{Routes, RoutesBuilder, TARGET_DEFAULT, TARGETS_MAX};
pub use row_locks::{RowLockBuilder, RowLockRelay, RowLockSettings};
pub use settings::RelaySettings;
pub use timings::{Distribution, Timings};

use crate::error::Result;
use crate::outbox::Wake;
use crate::publisher::Publisher;
use crate::store::{OutboxDesk, OutboxStore, RelayId};
use crate::time::Clock;

/// A relay from one store to one publisher, or to several by routes.
///
/// Delivered at least once, in the order of each key (G2, G3); a relay that stalls, dies or wakes up
/// late cannot settle what another owns by then (G6). Run as many relays on one store as you like:
/// they share the lanes.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::memory::{MemoryPublisher, MemoryStore};
/// use sendoff_core::store::OutboxDesk;
/// use sendoff_core::{Outbox, Relay};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryStore::new());
/// let publisher = Arc::new(MemoryPublisher::new());
/// let message = Outbox::new("shop").message("orders.placed").body("{}").build()?;
/// store.send_all(std::slice::from_ref(&message)).await?;
///
/// let relay = Relay::builder(store.clone(), publisher.clone()).build()?;
/// let once = relay.run_once(store, std::future::pending()).await?;
/// assert_eq!(once.tally.settled, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a relay does nothing until it runs"]
pub struct Relay {
    pub(crate) parts: Parts,
}

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) id: RelayId,
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) routes: Routes,
    pub(crate) settings: RelaySettings,
    /// Those of the settings.
    pub(crate) policies: Policies,
    pub(crate) wake: Wake,
    pub(crate) report: ReportHook,
    pub(crate) clock: Clock,
    pub(crate) readiness: Readiness,
    pub(crate) progress: Progress,
    pub(crate) timings: Timings,
    pub(crate) gate: Option<Arc<dyn Gate>>,
}

impl Relay {
    /// Begins a relay from `store` to `publisher`, which takes every topic.
    pub fn builder(store: Arc<dyn OutboxStore>, publisher: Arc<dyn Publisher>) -> RelayBuilder {
        Self::routed(store, Routes::single(publisher))
    }

    /// Begins a relay from `store` to the targets of `routes`.
    ///
    /// Each target has its own breaker, bounds and share of memory: one that is down or slow holds up
    /// nothing but its own messages, and what follows these in the order of their keys.
    pub fn routed(store: Arc<dyn OutboxStore>, routes: Routes) -> RelayBuilder {
        RelayBuilder::new(store, routes)
    }

    /// The relay's id, as leases show it.
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

    /// How long publishes and messages take: a handle to keep while the relay runs.
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.parts.timings.clone()
    }

    /// Runs until `stop` is done, then stops gracefully: it goes on for [`RelaySettings::drain`] at
    /// most, then nothing new is begun, what is in flight is waited for and settled (what has not ended
    /// [`RelaySettings::cancel_after`] the stop is cancelled), leases are given back.
    ///
    /// No row and no failure ends it: what it survives goes to the report hook. Dropping the future
    /// is as safe as a crash: leases lapse, and what was in flight may be delivered again with the
    /// same id.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Tally {
        engine::run(self.parts, stop).await
    }

    /// Runs until nothing due is pending in the whole store, or until `stop` is done.
    ///
    /// Waits for messages that retry, and for lanes whose owner has died, until their lease lapses.
    ///
    /// # Errors
    /// Errors of the store that no retry mends, such as [`crate::ErrorKind::SchemaTooNew`].
    pub async fn run_once(
        self,
        desk: Arc<dyn OutboxDesk>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Once> {
        let progress = self.progress();
        let ending = once::Ending { desk, progress, is_drained: |stats| stats.due == 0 };
        once::run_once(ending, stop, |stop| Box::pin(engine::run(self.parts, stop))).await
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("id", &self.parts.id)
            .field("from", &self.parts.store.address())
            .field("to", &self.parts.routes)
            .finish_non_exhaustive()
    }
}

/// Builds a [`Relay`], or a [`Receiver`].
#[must_use = "a relay is built by `build`"]
pub struct RelayBuilder<R = Relay>(Parts, PhantomData<fn() -> R>);

impl<R> RelayBuilder<R> {
    fn new(store: Arc<dyn OutboxStore>, routes: Routes) -> Self {
        let settings = RelaySettings::default();
        let parts = Parts {
            id: RelayId::new(),
            store,
            routes,
            policies: Policies::same(settings.policy()),
            settings,
            wake: Wake::new(),
            report: Arc::new(|_| {}),
            clock: Clock::system(),
            readiness: Readiness::default(),
            progress: Progress::default(),
            timings: Timings::default(),
            gate: None,
        };
        Self(parts, PhantomData)
    }

    /// Settings other than the defaults.
    pub fn settings(mut self, settings: RelaySettings) -> Self {
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

    /// The gate that the relay holds shared from before it claims a batch until that is settled.
    /// Without one it is never paused.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.0.gate = Some(Arc::new(gate));
        self
    }

    /// A clock that a test turns.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock;
        self
    }

    fn checked(self) -> Result<Parts> {
        let mut parts = self.0;
        parts.settings.check()?;
        parts.policies = Policies::of(&parts.settings)?;
        parts.settings = parts.settings.bounded_by_hold();
        Ok(parts)
    }
}

impl RelayBuilder {
    /// Checks the settings and gives the relay.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Relay> {
        self.checked().map(|parts| Relay { parts })
    }
}

impl<R> fmt::Debug for RelayBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayBuilder").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
