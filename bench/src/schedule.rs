//! A schedule that writers keep to, whatever the answers take: an open loop.
//!
//! With a closed loop a slow system is asked less, and its latency looks better than it is.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use crate::failure::{Doing, Result};
use crate::ground::Ground;
use crate::writers::{Wakes, Woken, Writer, Writing};

/// When each message is due to be sent: evenly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    interval: Duration,
    messages: usize,
}

impl Schedule {
    /// `per_s` messages a second for `time`.
    pub(crate) fn new(per_s: u32, time: Duration) -> Self {
        let interval = Duration::from_secs(1) / per_s;
        let messages = time.as_nanos() / interval.as_nanos().max(1);
        Self { interval, messages: usize::try_from(messages).unwrap_or(usize::MAX) }
    }

    /// How many messages it has.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// When message `number` is due, from the start.
    pub(crate) fn offset(&self, number: usize) -> Duration {
        self.interval.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX))
    }
}

/// A commit on the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    /// Which message.
    pub(crate) number: usize,
    /// When the commit had returned.
    pub(crate) at: Instant,
    /// How much later than due its transaction began: its writer was busy.
    pub(crate) late_by: Duration,
}

/// Sends the messages of a schedule over `connections`, each in turn; their ids are their numbers.
///
/// # Errors
/// The first failure.
pub(crate) async fn keep_to(
    ground: &Ground,
    schedule: &Schedule,
    connections: usize,
    woken: Woken,
) -> Result<Vec<Committed>> {
    let writing = Writing::One(Wakes::No);
    let connecting = (0..connections).map(|_| Writer::connect(ground, writing, woken.clone()));
    let writers = try_join_all(connecting).await?;
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (first, mut writer) in writers.into_iter().enumerate() {
        let schedule = *schedule;
        running.spawn(async move {
            let mut committed = Vec::new();
            for number in (first..schedule.messages()).step_by(connections) {
                let due = start + schedule.offset(number);
                tokio::time::sleep_until(due.into()).await;
                let late_by = due.elapsed();
                let at = writer.commit_one(Some(number.to_string())).await?;
                committed.push(Committed { number, at, late_by });
            }
            Ok(committed)
        });
    }
    let mut all = Vec::with_capacity(schedule.messages());
    while let Some(ended) = running.join_next().await {
        let committed: Vec<Committed> = ended.doing("writing on schedule")??;
        all.extend(committed);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_spreads_messages_evenly() {
        let schedule = Schedule::new(1_000, Duration::from_secs(2));
        assert_eq!(schedule.messages(), 2_000);
        assert_eq!(schedule.offset(0), Duration::ZERO);
        assert_eq!(schedule.offset(1_500), Duration::from_millis(1_500));
    }
}
