//! Time: the one place that reads the machine's clocks.
//!
//! Whatever two processes have to agree on (leases, due times, retry times) is decided by the
//! database's clock. What is here serves the rest: how long ago this process renewed a lease,
//! counted on a clock that goes on while the machine sleeps, and a wall clock for what people read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use jiff::Timestamp;

/// A clock that a test can turn.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`Clock::advance`] turns it. It begins at 2030-01-01.
    #[must_use]
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(AtomicU64::new(0))))
    }

    /// Turns a manual clock forward; does nothing to the system's.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            micros.fetch_add(whole_micros(by), Ordering::SeqCst);
        }
    }

    /// Time since the machine started, with the time that it slept or stood stopped.
    #[must_use]
    pub fn since_boot(&self) -> Duration {
        match &self.0 {
            Source::System => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Duration::new(
                    u64::try_from(now.tv_sec).unwrap_or(0),
                    u32::try_from(now.tv_nsec).unwrap_or(0),
                )
            }
            Source::Manual(micros) => Duration::from_micros(micros.load(Ordering::SeqCst)),
        }
    }

    /// The wall clock, for what people read.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Manual(micros) => {
                const START_MICROS: i64 = 1_893_456_000_000_000;
                let turned = i64::try_from(micros.load(Ordering::SeqCst)).unwrap_or(0);
                Timestamp::from_microsecond(START_MICROS + turned).unwrap_or(Timestamp::UNIX_EPOCH)
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

/// A duration in whole microseconds, the resolution of the stores.
#[must_use]
pub fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
