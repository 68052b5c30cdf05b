//! Queued rows that may not leave now: they get a verdict without a publish.

use super::Window;
use super::entry::State;
use crate::lane::Lane;
use crate::message::Message;

impl Window {
    /// Seqs of queued rows that `of` picks by outlet and message, lowest first, but for those whose
    /// outcome is unknown: they may have left.
    pub(in crate::relay) fn queued_of(&self, of: impl Fn(usize, &Message) -> bool) -> Vec<i64> {
        let mut seqs: Vec<i64> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.state == State::Queued && entry.unknown == 0)
            .filter(|(_, entry)| {
                entry.message.as_ref().is_some_and(|message| of(entry.outlet, message))
            })
            .map(|(seq, _)| *seq)
            .collect();
        seqs.sort_unstable();
        seqs
    }

    /// A queued row whose verdict is on the way: what is queued behind it in its key is forgotten,
    /// and its key refuses until that is settled; what is before it goes on. Answers the lanes of what
    /// was forgotten.
    pub(in crate::relay) fn parked(&mut self, seq: i64) -> Vec<Lane> {
        let Some(entry) = self.entries.get_mut(&seq) else {
            return Vec::new();
        };
        if entry.state != State::Queued {
            return Vec::new();
        }
        let size = entry.judge();
        self.bytes -= size;
        self.lines[entry.outlet].left(size);
        if let Some(queued) = self.queued.get_mut(&entry.lane) {
            *queued = queued.saturating_sub(1);
        }
        let Some(order) = self.one_line.clone().or_else(|| entry.key.clone()) else {
            return Vec::new();
        };
        entry.holds = true;
        let state = self.keys.entry(order).or_default();
        state.holding += 1;
        let behind: Vec<i64> = match state.queue.iter().position(|queued| *queued == seq) {
            Some(place) => state.queue.drain(place..).skip(1).collect(),
            None => {
                state.active = None;
                state.queue.drain(..).collect()
            }
        };
        behind.into_iter().filter_map(|queued| self.forget_entry(queued)).collect()
    }
}
