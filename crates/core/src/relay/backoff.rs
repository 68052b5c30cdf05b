//! How long a failed attempt waits: exponential with jitter, bounded.

use std::time::Duration;

use crate::error::{Error, Result};

/// An exponential wait with jitter.
///
/// Attempt `n` (from 1) waits between half of and the whole of `first * 2^(n-1)`, at most `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure. Default 200 ms.
    pub first: Duration,
    /// The longest wait. Default 1 minute.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after failure number `attempt` (from 1); `jitter` is between 0 and 1.
    #[must_use]
    pub fn wait(&self, attempt: u32, jitter: f64) -> Duration {
        // 2^30 times a millisecond is 12 days: past every maximum, and far from overflow.
        let doublings = attempt.saturating_sub(1).min(30);
        let whole = self.first.saturating_mul(1 << doublings).min(self.max);
        whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }

    /// The wait with a jitter of its own.
    #[must_use]
    pub fn wait_with_jitter(&self, attempt: u32) -> Duration {
        self.wait(attempt, fastrand::f64())
    }

    /// Checks the range.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where `first` is under 1 ms, or `max` under `first` or over a
    /// day.
    pub fn check(&self) -> Result<()> {
        if self.first < Duration::from_millis(1)
            || self.max < self.first
            || self.max > Duration::from_secs(86_400)
        {
            return Err(Error::invalid(
                "checking the relay's settings",
                "the backoff has to begin at 1 ms or more and end between its beginning and a day",
            ));
        }
        Ok(())
    }
}
