//! What is asked of the window as a whole.

use std::collections::BTreeMap;

use super::Window;
use super::entry::State;
use crate::lane::Lane;

impl Window {
    /// Seqs that a look need not give: all of them, or only those that came by their time.
    pub(in crate::relay) fn known(&self, all: bool) -> Vec<i64> {
        self.entries.iter().filter(|(_, entry)| all || entry.waiting).map(|(seq, _)| *seq).collect()
    }

    /// Per lane, the lowest seq of a ready row that is remembered and not settled.
    pub(in crate::relay) fn lowest(&self) -> BTreeMap<Lane, i64> {
        let mut lowest = BTreeMap::new();
        for (seq, entry) in &self.entries {
            if !entry.waiting && !matches!(entry.state, State::Settled(_)) {
                let low = lowest.entry(entry.lane).or_insert(*seq);
                *low = (*low).min(*seq);
            }
        }
        lowest
    }

    /// Rows of the outlet that are queued or in flight.
    pub(in crate::relay) fn rows_of(&self, outlet: usize) -> usize {
        self.lines[outlet].rows
    }

    /// What these weigh, in bytes.
    pub(in crate::relay) fn bytes_of(&self, outlet: usize) -> usize {
        self.lines[outlet].bytes
    }

    /// Publishes through the outlet that are in flight.
    pub(in crate::relay) fn in_flight_of(&self, outlet: usize) -> usize {
        self.lines[outlet].in_flight
    }

    /// Whether something of the lane is in flight, on the way to the store, or of unknown outcome.
    pub(in crate::relay) fn busy(&self, lane: Lane) -> bool {
        self.entries.values().any(|entry| {
            entry.lane == lane
                && (matches!(entry.state, State::InFlight | State::Judged) || entry.unknown > 0)
        })
    }
}
