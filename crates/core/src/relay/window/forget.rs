//! Forgetting queued rows: the store has them, and a look finds them again.

use super::Window;
use super::entry::State;
use crate::lane::Lane;

impl Window {
    /// Forgets what is queued in lanes that `of` picks, but for rows whose outcome is unknown where
    /// those are to be kept: their lane may not change hands. Answers the lanes of what was forgotten.
    pub(in crate::relay) fn forget_queued(
        &mut self,
        keep_unknown: bool,
        of: impl Fn(Lane) -> bool,
    ) -> Vec<Lane> {
        let seqs: Vec<i64> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.state == State::Queued && of(entry.lane))
            .filter(|(_, entry)| !keep_unknown || entry.unknown == 0)
            .map(|(seq, _)| *seq)
            .collect();
        let mut lanes: Vec<Lane> = seqs.into_iter().filter_map(|seq| self.forget(seq)).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let entries = &self.entries;
        for line in &mut self.lines {
            line.retain(|seq, turn| entries.get(&seq).is_some_and(|entry| entry.turn == turn));
        }
        lanes
    }

    /// Forgets one queued row; its key's next one may go.
    pub(in crate::relay) fn forget(&mut self, seq: i64) -> Option<Lane> {
        let order = self.order(self.entries.get(&seq)?.key.as_ref());
        let lane = self.forget_entry(seq)?;
        if let Some(order) = order
            && let Some(state) = self.keys.get_mut(&order)
        {
            match state.queue.iter().position(|queued| *queued == seq) {
                Some(behind) => drop(state.queue.remove(behind)),
                None => self.advance_key(&order),
            }
        }
        Some(lane)
    }

    /// Forgets a queued row, but not what its key knows of it.
    pub(super) fn forget_entry(&mut self, seq: i64) -> Option<Lane> {
        let entry = self.entries.get(&seq).filter(|entry| entry.state == State::Queued)?;
        let (lane, size) = (entry.lane, entry.size);
        self.bytes -= size;
        self.lines[entry.outlet].left(size);
        if let Some(queued) = self.queued.get_mut(&lane) {
            *queued = queued.saturating_sub(1);
        }
        self.entries.remove(&seq);
        Some(lane)
    }
}
