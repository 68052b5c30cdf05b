//! The settings of a relay with row locks, refused when they are out of range.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::relay::settings::check_stop;

/// Settings of a [`super::RowLockRelay`]. Start from the default and change what you need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLockSettings {
    /// How many rows are claimed at once. A crash, or an answer that is lost, repeats so many deliveries
    /// at most. Default 1.
    pub batch: usize,
    /// At most so many bytes of bodies and headers are claimed at once; one message may be larger.
    /// Default 32 MiB.
    pub batch_bytes: usize,
    /// How long one publish may take. A claim lasts twice as long at most. Default 5 s.
    pub publish_timeout: Duration,
    /// The wait between two passes: after one that found nothing (unless something wakes the relay), and
    /// after one that failed. Default 200 ms.
    pub poll: Duration,
    /// Quarantine a message that the target has refused so often. Default: never.
    pub attempts_max: Option<u32>,
    /// How long the last pass after a stop may go on claiming. Default 0: there is none.
    pub drain: Duration,
    /// When a publish that is still under way after a stop is cancelled, counted from the stop. Longer
    /// than `drain`. Default 10 s.
    pub cancel_after: Duration,
}

impl Default for RowLockSettings {
    fn default() -> Self {
        Self {
            batch: 1,
            batch_bytes: 32 << 20,
            publish_timeout: Duration::from_secs(5),
            poll: Duration::from_millis(200),
            attempts_max: None,
            drain: Duration::ZERO,
            cancel_after: Duration::from_secs(10),
        }
    }
}

impl RowLockSettings {
    /// Checks every setting and every relation between two.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the first setting that is out of range, and the range.
    pub fn check(&self) -> Result<()> {
        const DAY: Duration = Duration::from_secs(86_400);
        if self.poll < Duration::from_millis(1) || self.poll > DAY {
            return refuse("the poll interval has to be between 1 ms and a day");
        }
        check_batch(self.batch, self.batch_bytes, self.publish_timeout, self.attempts_max)?;
        check_stop(self.drain, self.cancel_after)
    }
}

fn refuse(what: &str) -> Result<()> {
    Err(Error::invalid("checking the relay's settings", what))
}

/// Checks what relays that claim batches have in common.
pub(in crate::relay) fn check_batch(
    batch: usize,
    bytes: usize,
    publish_timeout: Duration,
    attempts_max: Option<u32>,
) -> Result<()> {
    const BATCH_MAX: usize = 10_000;
    const HOUR: Duration = Duration::from_secs(3_600);
    if batch == 0 || batch > BATCH_MAX || bytes == 0 {
        return refuse("a batch has to have between 1 and 10000 rows, and at least 1 byte");
    }
    if publish_timeout < Duration::from_millis(1) || publish_timeout > HOUR {
        return refuse("the publish timeout has to be between 1 ms and an hour");
    }
    if attempts_max == Some(0) {
        return refuse("the limit on attempts has to be at least 1");
    }
    Ok(())
}
