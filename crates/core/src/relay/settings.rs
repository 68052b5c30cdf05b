//! The relay's settings, refused when they are out of range.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::relay::alerts::AlertSettings;
use crate::relay::backoff::Backoff;
use crate::relay::policy::{Hold, Override, Policies, Policy};

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
    /// What a failed message holds back. Default: its key's later messages.
    pub hold: Hold,
    /// What is different for some topics; of those that match the first decides. Default: nothing.
    pub overrides: Vec<Override>,
    /// How long the relay goes on claiming after a stop, for what is committed meanwhile; it ends early
    /// when nothing due is left or a message fails. It bounds claims only: what is claimed is settled on
    /// its own deadlines. Default 0: nothing is claimed after a stop.
    pub drain: Duration,
    /// When publishes that are still in flight after a stop are cancelled, counted from the stop. Longer
    /// than `drain`. Default 10 s.
    pub cancel_after: Duration,
    /// When the backlog is reported. Default: never.
    pub alerts: AlertSettings,
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
            overrides: Vec::new(),
            drain: Duration::ZERO,
            cancel_after: Duration::from_secs(10),
            alerts: AlertSettings::default(),
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
        if self.poll < MILLISECOND || self.poll > DAY {
            return refuse("the poll interval has to be between 1 ms and a day");
        }
        if self.in_flight_max == 0 || self.settle_rows_max == 0 || self.window_bytes == 0 {
            return refuse("in-flight, settle and byte bounds have to be at least 1");
        }
        if self.window_rows < self.in_flight_max {
            return refuse("the window has to hold at least what may be in flight");
        }
        self.alerts.check()?;
        check_stop(self.drain, self.cancel_after)?;
        Policies::of(self).map(drop)
    }

    /// What is done about messages that fail, where no override says otherwise.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            hold: self.hold,
            backoff: self.backoff,
            attempts_max: self.attempts_max,
            publish_timeout: self.publish_timeout,
        }
    }

    /// Under [`Hold::All`] one message is in flight, so that many more in memory would only be read
    /// again whenever one fails.
    pub(super) fn bounded_by_hold(mut self) -> Self {
        if self.hold == Hold::All {
            self.in_flight_max = 1;
            self.window_rows = self.window_rows.min(STRICT_ROWS_MAX);
        }
        self
    }
}

/// So many rows are read ahead at most where they leave one by one.
const STRICT_ROWS_MAX: usize = 1_000;

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
