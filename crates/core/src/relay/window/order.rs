//! What keeps the order of a key, or of all rows where the window is strict.

use std::sync::Arc;

use super::Window;
use super::entry::State;
use crate::lane::Lane;

impl Window {
    /// A window for so many outlets in which all rows leave in the order of their seqs.
    pub(in crate::relay) fn strict(outlets: usize) -> Self {
        Self { one_line: Some(Arc::from("")), ..Self::new(outlets) }
    }

    /// In which order a row with this key stands: its key's, or that of all.
    pub(super) fn order(&self, key: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.one_line.as_ref().or(key).map(Arc::clone)
    }

    /// Puts a row where its seq belongs: one that committed late goes before what is not in flight.
    pub(super) fn line_up(&mut self, order: &Arc<str>, (seq, outlet): (i64, usize)) {
        let state = self.keys.entry(Arc::clone(order)).or_default();
        let Some(first) = state.active else {
            state.active = Some(seq);
            self.lines[outlet].ready.push_back((seq, self.turns));
            return;
        };
        let passed = self
            .entries
            .get_mut(&first)
            .filter(|entry| seq < first && entry.state == State::Queued);
        if let Some(passed) = passed {
            // Its place among the ready ones means nothing any more.
            passed.turn = self.turns;
            state.active = Some(seq);
            state.queue.push_front(first);
            self.lines[outlet].ready.push_back((seq, self.turns));
        } else {
            let behind = state.queue.partition_point(|queued| *queued < seq);
            state.queue.insert(behind, seq);
        }
    }

    /// Where all rows stand in one order: whether one that committed late goes before this one, which
    /// has been in flight and is to be tried again.
    pub(super) fn made_way(&mut self, seq: i64) -> bool {
        let Some(state) = self.one_line.as_ref().and_then(|line| self.keys.get_mut(line)) else {
            return false;
        };
        let Some(first) = state.queue.pop_front_if(|first| *first < seq) else {
            return false;
        };
        let behind = state.queue.partition_point(|queued| *queued < seq);
        state.queue.insert(behind, seq);
        state.active = Some(first);
        self.turns += 1;
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.turn = self.turns;
        }
        if let Some(entry) = self.entries.get(&first) {
            self.lines[entry.outlet].ready.push_front((first, entry.turn));
        }
        true
    }

    /// The row's verdict holds its order: rows above `above` are forgotten. Answers their lanes.
    pub(super) fn hold_key(&mut self, seq: i64, order: &Arc<str>, above: i64) -> Vec<Lane> {
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.holds = true;
        }
        let state = self.keys.entry(Arc::clone(order)).or_default();
        state.holding += 1;
        let mut behind: Vec<i64> =
            state.queue.iter().copied().filter(|queued| *queued > above).collect();
        if self.one_line.is_some() {
            // The first in line as well, unless it has begun: then it is not forgotten.
            behind.extend(state.active.filter(|first| *first > above));
        }
        behind.into_iter().filter_map(|queued| self.forget(queued)).collect()
    }
}
