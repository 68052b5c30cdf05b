//! Counting what waits, for alerts: seldom, and only where somebody wants to be told.

use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Event};
use crate::error::Result;
use crate::lane::Lane;
use crate::relay::alerts::{AlertSettings, Alerts};
use crate::store::Backlog;

/// A count may take up to this share of the time: 1/50.
const SHARE: u32 = 50;

pub(super) struct Counts {
    running: bool,
    next: Instant,
    every: Duration,
    alerts: Alerts,
}

impl Counts {
    pub(super) fn new(now: Instant, settings: &AlertSettings) -> Self {
        Self { running: false, next: now, every: settings.every, alerts: Alerts::default() }
    }

    /// A call that was under way has ended, or is forgotten.
    pub(super) fn call_ended(&mut self, now: Instant) {
        self.running = false;
        self.next = now + self.every;
    }
}

impl Engine {
    pub(super) fn count_deadline(&self) -> Option<Instant> {
        self.counts_backlog().then_some(self.counts.next)
    }

    /// One relay counts for all, the owner of the first lane; and whoever has still to tell that an
    /// alert is over.
    fn counts_backlog(&self) -> bool {
        self.parts.settings.alerts.any()
            && !self.counts.running
            && self.stop_by.is_none()
            && (self.counts.alerts.any() || self.lanes.get(Lane(0)).is_some())
    }

    pub(super) fn begin_count(&mut self, now: Instant) {
        if !self.counts_backlog() || now < self.counts.next {
            return;
        }
        self.counts.running = true;
        let count_max = self.parts.settings.alerts.count_max().unwrap_or(1);
        let store = self.parts.store.clone();
        self.tasks.spawn(async move {
            let begun = Instant::now();
            let result = store.backlog(count_max).await;
            Event::Counted(begun.elapsed(), result)
        });
    }

    pub(super) fn on_counted(&mut self, took: Duration, result: Result<Backlog>, now: Instant) {
        self.counts.call_ended(now);
        self.counts.next = self.counts.next.max(now + took * SHARE);
        match result {
            Ok(backlog) => {
                for report in self.counts.alerts.check(&self.parts.settings.alerts, &backlog) {
                    self.report(&report);
                }
            }
            // Looks and settlements tell how the database is: a count makes nobody unready.
            Err(error) => tracing::warn!(%error, "counting the backlog failed; it is tried again"),
        }
    }
}
