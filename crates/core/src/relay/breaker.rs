//! The breaker: what the relay does about a target that takes nothing now.
//!
//! One breaker per target. While it is open nothing is published and nobody's attempts are used up;
//! when its wait is over one publish is tried, and the first one that the target confirms closes it.

use std::time::Duration;

use tokio::time::Instant;

use crate::relay::backoff::Backoff;

/// Waits between tries of a target that is down: short, since one try costs one publish.
const WAITS: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(2) };

/// A target that asks for a longer wait is asked again after this one.
const ASKED_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
pub(super) struct Breaker(Option<Open>);

#[derive(Debug)]
struct Open {
    failures: u32,
    until: Instant,
}

/// How many publishes may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allows {
    All,
    /// Only one, to try the target.
    One,
    /// None before this time.
    NoneBefore(Instant),
}

impl Breaker {
    pub(super) fn allows(&self, now: Instant) -> Allows {
        match &self.0 {
            None => Allows::All,
            Some(open) if now >= open.until => Allows::One,
            Some(open) => Allows::NoneBefore(open.until),
        }
    }

    /// Whether the target takes nothing, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// The target failed as a whole. Answers whether that is news. Failures of publishes that began
    /// before the breaker opened say nothing new and do not lengthen the wait, unless the target asks
    /// for a longer one.
    pub(super) fn failed(&mut self, now: Instant, asked: Option<Duration>, jitter: f64) -> bool {
        let asked = asked.map(|wait| wait.min(ASKED_MAX));
        let failures = match &mut self.0 {
            Some(open) if now < open.until => {
                open.until = open.until.max(now + asked.unwrap_or_default());
                return false;
            }
            Some(open) => open.failures.saturating_add(1),
            None => 1,
        };
        let wait = asked.unwrap_or_else(|| WAITS.wait(failures, jitter));
        let news = self.0.is_none();
        self.0 = Some(Open { failures, until: now + wait });
        news
    }

    /// The target confirmed a publish. Answers whether that is news.
    pub(super) fn confirmed(&mut self) -> bool {
        self.0.take().is_some()
    }
}
