//! What is due and what is set aside, counted.

use super::row::{Spot, Stored};
use super::state::State;
use crate::store::{Backlog, Stats};
use crate::time::Timestamp;

impl State {
    /// As the databases count it, but for the bound on what is walked: memory is walked at once.
    pub(super) fn backlog(&self, count_max: u32, now: Timestamp) -> Backlog {
        let Stats { due, held, quarantined, .. } = self.stats(now);
        let count_max = u64::from(count_max);
        let waits = |row: &&Stored| matches!(row.spot(), Spot::Ready | Spot::Waiting(_));
        let due_rows = self.rows.values().filter(waits).filter(|row| row.due_since() <= now);
        Backlog {
            oldest_due: due_rows.map(|row| row.due_for(now)).max(),
            due: due.min(count_max),
            held: held.min(count_max),
            quarantined: quarantined.min(count_max),
        }
    }
}
