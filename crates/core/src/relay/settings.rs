//! The relay's settings, refused when they are out of range.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::relay::backoff::Backoff;

/// Settings of a relay. Start from [`RelaySettings::default`] and change what you need.
#[derive(Debug, Clone, PartialEq)]
pub struct RelaySettings {
    /// How long a lease lasts without a renewal: how long others wait after this relay's death.
    /// Default 10 s.
    pub lease: Duration,
    /// How long one publish may take. Below the lease. Default 5 s.
    pub publish_timeout: Duration,
    /// The longest time between two looks when nothing wakes the relay. Default 200 ms.
    pub poll: Duration,
    /// The most publishes in flight. The publisher may ask for fewer. Default 2,000.
    pub in_flight_max: usize,
    /// The most rows held in memory, in flight ones included. Default 12,000.
    pub window_rows: usize,
    /// The most bytes of bodies and headers held in memory; one body may be larger. Default 32 MiB.
    pub window_bytes: usize,
    /// The most verdicts in one settlement. Default 1,000.
    pub settle_rows_max: usize,
    /// How long a failed message waits before its next attempt.
    pub backoff: Backoff,
    /// Quarantine a message after this many failed attempts of its own. Default: never.
    pub attempts_max: Option<u32>,
    /// Whether a failed message holds its key.
    pub hold: Hold,
    /// How long the relay goes on claiming after a stop, for what is committed meanwhile; it ends early
    /// when nothing due is left or a message fails. It bounds claims only: what is claimed is settled on
    /// its own deadlines. Default 0: nothing is claimed after a stop.
    pub drain: Duration,
    /// When publishes that are still in flight after a stop are cancelled, counted from the stop. Longer
    /// than `drain`. Default 10 s.
    pub cancel_after: Duration,
}

/// Whether a message that failed holds back the later messages of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hold {
    /// Its own key's later messages wait: the order of first deliveries is kept.
    #[default]
    Key,
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            publish_timeout: Duration::from_secs(5),
            poll: Duration::from_millis(200),
            in_flight_max: 2_000,
            window_rows: 12_000,
            window_bytes: 32 << 20,
            settle_rows_max: 1_000,
            backoff: Backoff::default(),
            attempts_max: None,
            hold: Hold::Key,
            drain: Duration::ZERO,
            cancel_after: Duration::from_secs(10),
        }
    }
}

impl RelaySettings {
    /// Checks every setting and every relation between two.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the first setting that is out of range, and the range.
    pub fn check(&self) -> Result<()> {
        const MILLISECOND: Duration = Duration::from_millis(1);
        const DAY: Duration = Duration::from_secs(86_400);
        let refuse = |what: &str| Err(Error::invalid("checking the relay's settings", what));
        if self.lease < Duration::from_millis(100) || self.lease > DAY {
            return refuse("the lease has to be between 100 ms and a day");
        }
        if self.publish_timeout < MILLISECOND {
            return refuse("the publish timeout has to be at least 1 ms");
        }
        if self.publish_timeout >= self.lease {
            // A publish that outlives the lease would run beside the next owner's.
            return refuse("the publish timeout has to be shorter than the lease");
        }
        if self.poll < MILLISECOND || self.poll > DAY {
            return refuse("the poll interval has to be between 1 ms and a day");
        }
        if self.in_flight_max == 0 || self.settle_rows_max == 0 || self.window_bytes == 0 {
            return refuse("in-flight, settle and byte bounds have to be at least 1");
        }
        if self.window_rows < self.in_flight_max {
            return refuse("the window has to hold at least what may be in flight");
        }
        if self.attempts_max == Some(0) {
            return refuse("the limit on attempts has to be at least 1");
        }
        check_stop(self.drain, self.cancel_after)?;
        self.backoff.check()
    }
}

/// Checks the two settings of a stop.
pub(super) fn check_stop(drain: Duration, cancel_after: Duration) -> Result<()> {
    if cancel_after <= drain {
        // Else what the drain claims last would be cancelled as soon as it is claimed.
        return Err(Error::invalid(
            "checking the relay's settings",
            "cancel_after has to be longer than the drain, and at least 1 ns",
        ));
    }
    Ok(())
}
