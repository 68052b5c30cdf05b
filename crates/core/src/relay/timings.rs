//! How long things take: counted in buckets, cheaply enough for every message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::store::AgeFrom;

/// The upper bounds of the buckets, in microseconds. What is above the last one has a bucket too.
const BOUNDS: [u64; 20] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    7_200_000_000,
];

/// How long a relay's publishes and messages take. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Timings(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    publish: Buckets,
    lag_from_commit: Buckets,
    lag_from_creation: Buckets,
}

#[derive(Debug, Default)]
struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

/// Durations in buckets, as counted since the relay's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Upper bounds, each with how many durations are at most as long. Bounds and counts ascend.
    pub at_most: Vec<(Duration, u64)>,
    /// How many there are in all.
    pub count: u64,
    /// How long they are together.
    pub sum: Duration,
}

impl Timings {
    /// From the hand-over of a message to the target's confirmation.
    #[must_use]
    pub fn publish(&self) -> Distribution {
        self.0.publish.read()
    }

    /// From when a message fell due until the target confirmed it: from the commit (where the store
    /// knows it) or from the insert, which is earlier by what its transaction did after it.
    #[must_use]
    pub fn lag(&self, from: AgeFrom) -> Distribution {
        self.lags(from).read()
    }

    fn lags(&self, from: AgeFrom) -> &Buckets {
        match from {
            AgeFrom::Commit => &self.0.lag_from_commit,
            AgeFrom::Creation => &self.0.lag_from_creation,
        }
    }

    pub(crate) fn published(&self, took: Duration) {
        self.0.publish.observe(took);
    }

    pub(crate) fn arrived(&self, lag: Duration, from: AgeFrom) {
        self.lags(from).observe(lag);
    }
}

impl Buckets {
    /// Only the relay's own task counts, so that a plain read and write of each cell do: no other
    /// writer's count can be lost between the two.
    fn observe(&self, duration: Duration) {
        // Not `as_micros`, whose 128 bits cost more than the rest.
        let whole = duration.as_secs().saturating_mul(1_000_000);
        let micros = whole.saturating_add(u64::from(duration.subsec_micros()));
        let place = BOUNDS.partition_point(|bound| *bound < micros);
        let add = |cell: &AtomicU64, by: u64| {
            let sum = cell.load(Ordering::Relaxed).saturating_add(by);
            cell.store(sum, Ordering::Relaxed);
        };
        if let Some(count) = self.counts.get(place) {
            add(count, 1);
        }
        add(&self.sum_micros, micros);
    }

    fn read(&self) -> Distribution {
        let mut count = 0;
        let mut at_most = Vec::with_capacity(BOUNDS.len());
        for (place, cell) in self.counts.iter().enumerate() {
            count += cell.load(Ordering::Relaxed);
            if let Some(bound) = BOUNDS.get(place) {
                at_most.push((Duration::from_micros(*bound), count));
            }
        }
        let sum = Duration::from_micros(self.sum_micros.load(Ordering::Relaxed));
        Distribution { at_most, count, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_that_it_fits() {
        let timings = Timings::default();
        for micros in [0, 250, 251, 1_000_000, u64::MAX] {
            timings.published(Duration::from_micros(micros));
        }
        let read = timings.publish();
        let at_most = |micros: u64| {
            let bound = Duration::from_micros(micros);
            read.at_most.iter().find(|(at, _)| *at == bound).map(|(_, count)| *count)
        };
        assert_eq!(at_most(250), Some(2));
        assert_eq!(at_most(500), Some(3));
        assert_eq!(at_most(500_000), Some(3));
        assert_eq!(at_most(1_000_000), Some(4));
        assert_eq!(at_most(7_200_000_000), Some(4));
        assert_eq!(read.count, 5);
        assert_eq!(timings.lag(AgeFrom::Commit).count, 0);
    }

    #[test]
    fn the_two_lags_are_counted_apart() {
        let timings = Timings::default();
        timings.arrived(Duration::from_secs(1), AgeFrom::Commit);
        timings.arrived(Duration::from_secs(2), AgeFrom::Creation);
        timings.arrived(Duration::from_secs(3), AgeFrom::Creation);
        assert_eq!(timings.lag(AgeFrom::Commit).sum, Duration::from_secs(1));
        assert_eq!(timings.lag(AgeFrom::Creation).sum, Duration::from_secs(5));
        assert_eq!(timings.lag(AgeFrom::Creation).count, 2);
    }
}
