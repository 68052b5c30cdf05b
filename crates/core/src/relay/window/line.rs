//! Lines: what keeps the order of a key, or of all rows where the window is strict.

use std::sync::Arc;

use super::Window;
use super::entry::State;
use crate::lane::Lane;

impl Window {
    /// A window in which all rows stand in one line, in the order of their seqs.
    pub(in crate::relay) fn strict() -> Self {
        Self { one_line: Some(Arc::from("")), ..Self::default() }
    }

    /// In which line a row with this key stands.
    pub(super) fn line(&self, key: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.one_line.as_ref().or(key).map(Arc::clone)
    }

    /// Puts a row where its seq belongs: one that committed late goes before what is not in flight.
    pub(super) fn line_up(&mut self, line: &Arc<str>, seq: i64) {
        let state = self.keys.entry(Arc::clone(line)).or_default();
        let Some(first) = state.active else {
            state.active = Some(seq);
            self.ready.push_back((seq, self.turns));
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
            self.ready.push_back((seq, self.turns));
        } else {
            let behind = state.queue.partition_point(|queued| *queued < seq);
            state.queue.insert(behind, seq);
        }
    }

    /// Where all rows stand in one line: whether one that committed late goes before this one, which
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
            self.ready.push_front((first, entry.turn));
        }
        true
    }

    /// The row's verdict holds its line: rows above `above` are forgotten. Answers their lanes.
    pub(super) fn hold_key(&mut self, seq: i64, line: &Arc<str>, above: i64) -> Vec<Lane> {
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.holds = true;
        }
        let state = self.keys.entry(Arc::clone(line)).or_default();
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
