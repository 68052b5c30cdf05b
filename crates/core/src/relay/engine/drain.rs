//! The drain: after a stop the relay goes on for a bounded time, for what was committed meanwhile.
//!
//! It bounds claims only. What is claimed when it ends is settled on its own deadlines, by the rest of
//! the stop.

use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use crate::relay::breaker::Allows;

/// A drain that is under way.
pub(super) struct Drain {
    until: Instant,
    /// Looks up to this number began before the stop, or before the last row came.
    after: u64,
    /// Failures when it began.
    failures: u64,
    /// A later look of this kind has found nothing.
    front_empty: bool,
    back_empty: bool,
    failed: bool,
}

impl Engine {
    /// The stop was asked for.
    pub(super) fn stop(&mut self) {
        let now = Instant::now();
        let settings = &self.parts.settings;
        self.cancel_at = Some(now + settings.cancel_after);
        if settings.drain == Duration::ZERO {
            self.stop_claiming();
            return;
        }
        self.drain = Some(Drain {
            until: now + settings.drain,
            after: self.looks.begun,
            failures: self.failures(),
            front_empty: false,
            back_empty: false,
            failed: false,
        });
        self.looks.want_front(now);
        self.looks.want_full(now);
    }

    /// Nothing is claimed any more; what is in flight is settled.
    fn stop_claiming(&mut self) {
        self.drain = None;
        self.stop_by = self.cancel_at;
        self.forget_queued(true, |_| true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.cancel_at.is_some()
    }

    /// A pass of the drain has failed: it ends.
    pub(super) fn fail_drain(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.failed = true;
        }
    }

    /// Messages whose publish failed so far, whatever that meant.
    fn failures(&self) -> u64 {
        let tally = self.parts.progress.tally();
        tally.failed + tally.unknown
    }

    /// A look has ended well, and found so many rows.
    pub(super) fn drain_looked(&mut self, number: u64, is_front: bool, is_full: bool, found: bool) {
        let begun = self.looks.begun;
        let Some(drain) = &mut self.drain else { return };
        if found {
            (drain.front_empty, drain.back_empty, drain.after) = (false, false, begun);
        } else if number > drain.after {
            drain.front_empty |= is_front;
            drain.back_empty |= is_full && !is_front;
        }
    }

    /// Ends the drain where its time is over, a row has failed, or nothing due is left.
    pub(super) fn look_after_drain(&mut self, now: Instant) {
        let Some(drain) = &self.drain else { return };
        let at_rest = self.window.rows() == 0;
        let without_lanes = self.lanes.len() == 0 && self.leases.valid_until > Duration::ZERO;
        let is_empty = at_rest && (without_lanes || (drain.front_empty && drain.back_empty));
        let has_failed = drain.failed
            || self.failures() > drain.failures
            || self.outlets.iter().any(|outlet| outlet.breaker.allows(now) != Allows::All)
            || self.looks.failures + self.settles.failures + self.leases.failures > 0;
        if now >= drain.until || is_empty || has_failed {
            self.stop_claiming();
        } else if at_rest {
            let (front_empty, back_empty) = (drain.front_empty, drain.back_empty);
            if !front_empty {
                self.looks.want_front(now);
            }
            if !back_empty {
                self.looks.want_full(now);
            }
        }
    }

    pub(super) fn drain_deadline(&self) -> Option<Instant> {
        self.drain.as_ref().map(|drain| drain.until)
    }
}
