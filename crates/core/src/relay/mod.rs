//! The relay: claims committed messages, publishes them and settles them.

mod backoff;
mod report;
mod settings;

use std::future::Future;
use std::sync::Arc;

pub use backoff::Backoff;
pub use report::{Progress, Readiness, Report, ReportHook, Tally};
pub use settings::{Hold, RelaySettings};

use crate::error::Result;
use crate::outbox::Wake;
use crate::publisher::Publisher;
use crate::store::{OutboxDesk, OutboxStore};
use crate::time::Clock;

/// The relay.
#[derive(Debug)]
pub struct Relay;

/// Builds a relay.
#[derive(Debug)]
pub struct RelayBuilder;

impl Relay {
    /// Begins a relay from a store to a publisher.
    pub fn builder(_store: Arc<dyn OutboxStore>, _publisher: Arc<dyn Publisher>) -> RelayBuilder {
        RelayBuilder
    }
    /// Whether it is ready; keep the handle before the relay runs.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness::default()
    }
    /// How far it is; keep the handle before the relay runs.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::default()
    }
    /// Runs until `stop` is done, then stops gracefully.
    pub async fn run(self, _stop: impl Future<Output = ()> + Send) -> Tally {
        Tally::default()
    }
    /// Runs until nothing due is pending.
    ///
    /// # Errors
    /// Database.
    pub async fn run_once(
        self,
        _desk: &dyn OutboxDesk,
        _stop: impl Future<Output = ()> + Send,
    ) -> Result<Once> {
        Ok(Once {
            end: OnceEnd::Drained,
            tally: Tally::default(),
        })
    }
}

/// How a run to the end ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Once {
    /// How it ended.
    pub end: OnceEnd,
    /// What it did.
    pub tally: Tally,
}

/// How a run to the end ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnceEnd {
    /// Nothing due is pending, nothing is in quarantine.
    Drained,
    /// Nothing due is pending, but messages stand in quarantine.
    Quarantined,
    /// It was stopped (or its time was up) while due messages were pending.
    GaveUp,
}

impl RelayBuilder {
    /// Settings.
    #[must_use]
    pub fn settings(self, _settings: RelaySettings) -> Self {
        self
    }
    /// Wake.
    #[must_use]
    pub fn wake(self, _wake: Wake) -> Self {
        self
    }
    /// Report hook.
    #[must_use]
    pub fn report(self, _hook: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self
    }
    /// Clock.
    #[must_use]
    pub fn clock(self, _clock: Clock) -> Self {
        self
    }
    /// Builds.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn build(self) -> Result<Relay> {
        Ok(Relay)
    }
}
