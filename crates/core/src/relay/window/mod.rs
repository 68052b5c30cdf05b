//! The window: the rows that the relay has in memory, and which of them may be published next.
//!
//! Pure state, no clock and no input or output. It keeps the rule of order: of each key at most one
//! message is in flight, in the order in which the rows were offered, and none while an earlier one
//! has failed and its verdict is not in the store yet. In a strict window the order is that of all
//! seqs, as if all rows were of one key. What may go stands in a line for each outlet (a target, or the
//! store's own errands), so that none waits for another outlet's; a key is one key, whatever outlets its
//! messages leave through.

mod entry;
mod forget;
mod line;
mod order;
mod park;
mod survey;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::lane::Lane;
use crate::message::Message;

pub(super) use entry::{Confirmed, Entry, Offer, Offered};
use entry::{Key, State};
use line::Line;

#[derive(Debug)]
pub(super) struct Window {
    /// The name of the order of all rows, where the window is strict.
    one_line: Option<Arc<str>>,
    entries: FxHashMap<i64, Entry>,
    keys: HashMap<Arc<str>, Key>,
    /// One for each outlet.
    lines: Vec<Line>,
    /// Settled rows and keys that refuse, with the look number that has to pass.
    passing: VecDeque<(u64, i64)>,
    refusing: VecDeque<(u64, Arc<str>)>,
    queued: BTreeMap<Lane, usize>,
    turns: u64,
    in_flight: usize,
    settled: usize,
    bytes: usize,
}

/// A publish whose outcome is unknown this often goes alone from then on.
const UNKNOWN_TO_SUSPECT: u32 = 2;

impl Window {
    /// An empty window for so many outlets, at least one.
    pub(super) fn new(outlets: usize) -> Self {
        Self {
            one_line: None,
            entries: FxHashMap::default(),
            keys: HashMap::new(),
            lines: std::iter::repeat_with(Line::default).take(outlets.max(1)).collect(),
            passing: VecDeque::new(),
            refusing: VecDeque::new(),
            queued: BTreeMap::new(),
            turns: 0,
            in_flight: 0,
            settled: 0,
            bytes: 0,
        }
    }

    /// Rows in memory whose verdict is not in the store.
    pub(super) fn rows(&self) -> usize {
        self.entries.len() - self.settled
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn queued_in(&self, lane: Lane) -> usize {
        self.queued.get(&lane).copied().unwrap_or(0)
    }

    pub(super) fn get(&self, seq: i64) -> Option<&Entry> {
        self.entries.get(&seq)
    }

    /// Remembers a row that a look gave.
    pub(super) fn offer(&mut self, offer: Offer) -> Offered {
        if self.entries.contains_key(&offer.seq) {
            return Offered::Known;
        }
        self.turns += 1;
        let key = offer.key;
        let judged = offer.message.is_none();
        let order = self.order(key.as_ref());
        if let Some(order) = &order {
            let state = self.keys.entry(Arc::clone(order)).or_default();
            if state.holding > 0 {
                // Looks that are under way may have begun above this row; the next ones will not.
                state.refuses_up_to = offer.looks_begun;
                return Offered::Refused;
            }
            if offer.look <= state.refuses_up_to {
                return Offered::Refused;
            }
            if judged {
                self.forget_idle_key(order);
            } else if self.one_line.is_some() {
                self.line_up(order, (offer.seq, offer.outlet));
            } else if state.active.is_some() {
                state.queue.push_back(offer.seq);
            } else {
                state.active = Some(offer.seq);
                self.lines[offer.outlet].ready.push_back((offer.seq, self.turns));
            }
        } else if !judged {
            self.lines[offer.outlet].ready.push_back((offer.seq, self.turns));
        }
        let size = offer.message.as_ref().map_or(0, |message| message.size_bytes());
        self.bytes += size;
        if !judged {
            let line = &mut self.lines[offer.outlet];
            line.rows += 1;
            line.bytes += size;
            *self.queued.entry(offer.lane).or_default() += 1;
        }
        self.entries.insert(
            offer.seq,
            Entry {
                lane: offer.lane,
                epoch: offer.epoch,
                key,
                outlet: offer.outlet,
                attempts: offer.attempts,
                blocker: offer.blocker,
                waiting: offer.waiting,
                due: offer.due,
                message: offer.message,
                size,
                state: if judged { State::Judged } else { State::Queued },
                turn: self.turns,
                holds: false,
                unknown: 0,
                alone_losses: 0,
            },
        );
        Offered::Taken
    }

    /// Whether something is in the outlet's line to be published.
    pub(super) fn has_next(&self, outlet: usize) -> bool {
        self.lines[outlet].has_next()
    }

    /// The next message to publish through the outlet, in flight from now on.
    pub(super) fn next(&mut self, outlet: usize) -> Option<(i64, Arc<Message>)> {
        let line = &self.lines[outlet];
        if line.alone.is_some() {
            return None;
        }
        if line.suspects.is_empty() {
            return self.begin_first(outlet, false);
        }
        // A suspect goes alone: nothing else begins until what is in flight there has ended.
        if line.in_flight > 0 {
            return None;
        }
        let begun = self.begin_first(outlet, true);
        self.lines[outlet].alone = begun.as_ref().map(|(seq, _)| *seq);
        begun.or_else(|| self.begin_first(outlet, false))
    }

    fn begin_first(&mut self, outlet: usize, suspect: bool) -> Option<(i64, Arc<Message>)> {
        let line = &mut self.lines[outlet];
        let from = if suspect { &mut line.suspects } else { &mut line.ready };
        while let Some((seq, turn)) = from.pop_front() {
            // A row that was forgotten meanwhile leaves its number behind.
            let Some(entry) = self.entries.get_mut(&seq) else {
                continue;
            };
            if entry.turn != turn {
                continue;
            }
            let (State::Queued, Some(message)) = (entry.state, &entry.message) else {
                continue;
            };
            entry.state = State::InFlight;
            self.in_flight += 1;
            line.in_flight += 1;
            if let Some(queued) = self.queued.get_mut(&entry.lane) {
                *queued = queued.saturating_sub(1);
            }
            return Some((seq, Arc::clone(message)));
        }
        None
    }

    /// The message was confirmed: its key's next one may go, its verdict is on the way. What a
    /// blocker held comes back only when that is settled; no later row may go before it does.
    /// Answers what its verdict needs.
    pub(super) fn confirmed(&mut self, seq: i64) -> Option<Confirmed> {
        let entry = self.entries.get(&seq)?;
        let Entry { lane, epoch, blocker, .. } = *entry;
        let key = entry.key.clone();
        let mut forgotten = Vec::new();
        if entry.state == State::InFlight
            && let Some(order) = self.judge(seq)
        {
            self.advance_key(&order);
            if blocker {
                // In one line of all rows, what it held may belong before any that is queued.
                let above = if self.one_line.is_some() { seq } else { i64::MAX };
                forgotten = self.hold_key(seq, &order, above);
            }
        }
        Some(Confirmed { lane, epoch, key, releases: blocker, forgotten })
    }

    /// The message failed and holds nobody: its key's next one may go.
    pub(super) fn passed(&mut self, seq: i64) {
        if let Some(order) = self.judge(seq) {
            self.advance_key(&order);
        }
    }

    /// The message failed and its verdict is on the way: its key's other rows are forgotten, and
    /// refused until that is settled. Answers the lanes of what was forgotten.
    pub(super) fn failed(&mut self, seq: i64) -> Vec<Lane> {
        let Some(order) = self.judge(seq) else {
            return Vec::new();
        };
        if let Some(state) = self.keys.get_mut(&order) {
            state.active = None;
        }
        self.hold_key(seq, &order, i64::MIN)
    }

    /// A row that is judged without a publish, and whose verdict holds its key: later rows of the
    /// key are forgotten, and refused until that is settled; earlier ones go on. Answers the lanes
    /// of what was forgotten.
    pub(super) fn refused(&mut self, seq: i64) -> Vec<Lane> {
        let Some(order) = self.entries.get(&seq).and_then(|entry| self.order(entry.key.as_ref()))
        else {
            return Vec::new();
        };
        self.hold_key(seq, &order, seq)
    }

    /// The outcome is unknown, or the target took nothing: back to the head of its key.
    pub(super) fn back(&mut self, seq: i64, unknown: bool, alone: bool) {
        let Some(entry) = self.entries.get_mut(&seq) else {
            return;
        };
        if entry.state != State::InFlight {
            return;
        }
        entry.state = State::Queued;
        self.in_flight -= 1;
        let line = &mut self.lines[entry.outlet];
        line.landed(seq);
        *self.queued.entry(entry.lane).or_default() += 1;
        if unknown {
            entry.unknown += 1;
            entry.alone_losses += u32::from(alone);
        }
        let (outlet, unknown, turn) = (entry.outlet, entry.unknown, entry.turn);
        if self.made_way(seq) {
            return;
        }
        let line = &mut self.lines[outlet];
        if unknown >= UNKNOWN_TO_SUSPECT {
            line.suspects.push_back((seq, turn));
        } else {
            line.ready.push_front((seq, turn));
        }
    }

    /// The verdict is in the store. The row stays known until looks up to `looks_begun` have ended.
    pub(super) fn settled(&mut self, seq: i64, looks_begun: u64) {
        let Some(entry) = self.entries.get_mut(&seq) else {
            return;
        };
        if matches!(entry.state, State::Settled(_)) {
            return;
        }
        entry.state = State::Settled(looks_begun);
        self.settled += 1;
        self.passing.push_back((looks_begun, seq));
        let order = if entry.holds { self.one_line.as_ref().or(entry.key.as_ref()) } else { None };
        if let Some(order) = order
            && let Some(state) = self.keys.get_mut(order)
        {
            state.holding = state.holding.saturating_sub(1);
            state.refuses_up_to = looks_begun;
            self.refusing.push_back((looks_begun, Arc::clone(order)));
        }
    }

    /// As [`Window::settled`], for a verdict that may have changed nothing: the row is forgotten at
    /// once, since the next look has to find it where it is still ready.
    pub(super) fn dismissed(&mut self, seq: i64, looks_begun: u64) {
        self.settled(seq, looks_begun);
        if self.entries.remove(&seq).is_some() {
            self.settled -= 1;
        }
    }

    /// Settled rows that older looks may still show.
    pub(super) fn settled_rows(&self) -> usize {
        self.settled
    }

    /// Looks up to number `ended` have all ended: what only they could still show is forgotten.
    pub(super) fn looks_ended(&mut self, ended: u64) {
        while let Some((number, seq)) = self.passing.front().copied() {
            if number > ended {
                break;
            }
            self.passing.pop_front();
            if self.entries.get(&seq).is_some_and(|entry| entry.state == State::Settled(number)) {
                self.settled -= 1;
                self.entries.remove(&seq);
            }
        }
        while self.refusing.front().is_some_and(|(number, _)| *number <= ended) {
            let Some((_, key)) = self.refusing.pop_front() else { break };
            if let Some(state) = self.keys.get_mut(&key)
                && state.holding == 0
                && state.refuses_up_to <= ended
            {
                state.refuses_up_to = 0;
                self.forget_idle_key(&key);
            }
        }
    }

    /// Answers the order that it stands in.
    fn judge(&mut self, seq: i64) -> Option<Arc<str>> {
        let entry = self.entries.get_mut(&seq)?;
        if entry.state != State::InFlight {
            return None;
        }
        let size = entry.judge();
        self.in_flight -= 1;
        self.bytes -= size;
        let line = &mut self.lines[entry.outlet];
        line.landed(seq);
        line.left(size);
        let key = entry.key.clone();
        self.one_line.clone().or(key)
    }

    fn advance_key(&mut self, key: &Arc<str>) {
        let Some(state) = self.keys.get_mut(key) else {
            return;
        };
        state.active = None;
        while let Some(next) = state.queue.pop_front() {
            if let Some(entry) = self.entries.get(&next) {
                state.active = Some(next);
                self.lines[entry.outlet].ready.push_back((next, entry.turn));
                return;
            }
        }
        if state.is_idle() {
            self.keys.remove(key);
        }
    }

    fn forget_idle_key(&mut self, key: &Arc<str>) {
        if self.keys.get(key).is_some_and(Key::is_idle) {
            self.keys.remove(key);
        }
    }
}
