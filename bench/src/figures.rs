//! Figures: what one run gave, and the medians of several.
//!
//! Arithmetic only. Nothing here measures and nothing prints.

use std::time::Duration;

use serde::Serialize;

use crate::machine::Cpu;

/// What one run gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// What was done in the time: messages, or commits.
    pub(crate) count: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// The processor time that it took, of everybody.
    pub(crate) cpu: Cpu,
    /// The write-ahead log that it made.
    pub(crate) wal_bytes: u64,
}

impl Run {
    /// Per second.
    pub(crate) fn rate(&self) -> f64 {
        to_f64(self.count) / self.took.as_secs_f64().max(1e-9)
    }

    fn each(&self, whole: f64) -> f64 {
        whole / to_f64(self.count.max(1))
    }
}

/// The runs of one contender under one condition, in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series(Vec<Run>);

impl Series {
    /// Adds a run.
    pub(crate) fn push(&mut self, run: Run) {
        self.0.push(run);
    }

    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The medians.
    pub(crate) fn summary(&self) -> Summary {
        let of = |f: &dyn Fn(&Run) -> f64| median(self.0.iter().map(f).collect());
        Summary {
            per_s: of(&Run::rate).round(),
            slowest_per_s: self.extreme(f64::min),
            fastest_per_s: self.extreme(f64::max),
            cpu_us: CpuEach {
                client: tenth(of(&|run| run.each(run.cpu.client_us))),
                postgres: tenth(of(&|run| run.each(run.cpu.postgres_us))),
                nats: tenth(of(&|run| run.each(run.cpu.nats_us))),
                total: tenth(of(&|run| run.each(run.cpu.total_us()))),
            },
            wal_bytes: of(&|run| run.each(to_f64(run.wal_bytes))).round(),
            count: self.0.iter().map(|run| run.count).max().unwrap_or(0),
            runs: self.len(),
        }
    }

    fn extreme(&self, pick: fn(f64, f64) -> f64) -> f64 {
        self.0.iter().map(Run::rate).reduce(pick).unwrap_or(0.0).round()
    }
}

/// The medians of a series.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Summary {
    /// Per second.
    pub(crate) per_s: f64,
    /// The slowest run.
    pub(crate) slowest_per_s: f64,
    /// The fastest run.
    pub(crate) fastest_per_s: f64,
    /// Processor time for each message or commit.
    pub(crate) cpu_us: CpuEach,
    /// Write-ahead log for each.
    pub(crate) wal_bytes: f64,
    /// How many in the largest run.
    pub(crate) count: u64,
    /// How many runs the medians are of.
    pub(crate) runs: usize,
}

/// Processor time for each message, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CpuEach {
    /// This program: the relay (or the writers) and the clients of both servers.
    pub(crate) client: f64,
    /// PostgreSQL, all of its processes.
    pub(crate) postgres: f64,
    /// The NATS server.
    pub(crate) nats: f64,
    /// All three.
    pub(crate) total: f64,
}

/// The middle value, or the mean of the two middle ones; 0 for none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The smallest value that at least `percent` of all values do not pass; 0 for none.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// `a / b` with two decimals, 0 where `b` is 0.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return 0.0;
    }
    (a / b * 100.0).round() / 100.0
}

/// Rounded to one decimal.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A count as a figure. Counts here are far below 2^52.
#[allow(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(crate) fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_two() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), 3.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 100.0);
        assert_eq!(percentile(&values, 99), 198.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
        assert_eq!(percentile(&[], 50), 0.0);
    }

    #[test]
    fn a_series_gives_medians_for_each_message() {
        let mut series = Series::default();
        for (count, milliseconds) in [(1_000, 100), (1_000, 50), (1_000, 200)] {
            series.push(Run {
                count,
                took: Duration::from_millis(milliseconds),
                cpu: Cpu { client_us: 4_000.0, postgres_us: 2_000.0, nats_us: 1_000.0 },
                wal_bytes: 80_000,
            });
        }
        let summary = series.summary();
        assert_eq!(summary.per_s, 10_000.0);
        assert_eq!(summary.slowest_per_s, 5_000.0);
        assert_eq!(summary.fastest_per_s, 20_000.0);
        assert_eq!(summary.cpu_us.total, 7.0);
        assert_eq!(summary.wal_bytes, 80.0);
    }
}
