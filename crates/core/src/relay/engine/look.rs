//! Looks: when to read, from where, and what to make of the rows.
//!
//! The front look serves what was just sent. While little lies between floor and position it reads
//! from the floor, so that it sees transactions that commit late at once; with a backlog it reads
//! on from the position. The back look runs beside it: from the floors while there is a backlog,
//! and every few seconds, as well as when lanes were taken, from 0, where the floor is not believed.

use std::time::Duration;

use tokio::time::Instant;

use super::judge::Trouble;
use super::{Engine, Event, STORE_WAITS};
use crate::error::Result;
use crate::lane::Lane;
use crate::relay::lanes::Looked;
use crate::relay::window::{Offer, Offered};
use crate::store::{Content, LaneLook, Look, Reading, Row, Sight};

/// So far may the positions be above the floors for the front look to read from the floors.
const FROM_FLOOR_SEQS: i64 = 8_192;
/// The back look from the floors, and from 0, at most this often; more seldom where it takes long.
const BACK_EVERY: Duration = Duration::from_millis(100);
const FULL_EVERY: Duration = Duration::from_secs(3);
/// A back look may take up to this share of the time: 1/20.
const BACK_SHARE: u32 = 20;
const BACK_ROWS_MAX: usize = 1_024;
/// The fewest rows of one lane that a look asks for.
const LANE_ROWS_MIN: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Front,
    Back,
}

pub(super) struct Looks {
    /// Looks begun since the start: their numbers.
    pub(super) begun: u64,
    front: Option<u64>,
    back: Option<u64>,
    wanted: bool,
    /// Rows were refused since their key had just failed: look again once that is settled.
    refused: bool,
    pub(super) failures: u32,
    not_before: Instant,
    next_poll: Instant,
    next_waiting: Instant,
    next_back: Instant,
    next_full: Instant,
    /// When the look ended whose rows are being taken.
    read_at: Instant,
    /// Bytes promised to looks that are under way.
    promised: usize,
    /// Lanes that were left out of the last front look since too much of them is queued.
    capped: Vec<Lane>,
}

/// A look that has ended.
pub(super) struct Done {
    slot: Slot,
    number: u64,
    full: bool,
    /// Lane, epoch and where it was read from.
    from: Vec<(Lane, i64, i64)>,
    bytes_max: usize,
    at: Duration,
    begun: Instant,
    ended: Instant,
    result: Result<Sight>,
}

impl Looks {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            begun: 0,
            front: None,
            back: None,
            wanted: true,
            refused: false,
            failures: 0,
            not_before: now,
            next_poll: now,
            next_waiting: now,
            next_back: now,
            next_full: now + FULL_EVERY,
            read_at: now,
            promised: 0,
            capped: Vec::new(),
        }
    }

    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Look now at what is new and at what waits.
    pub(super) fn want_front(&mut self, now: Instant) {
        self.wanted = true;
        (self.next_poll, self.next_waiting) = (now, now);
    }

    /// Look now from 0.
    pub(super) fn want_full(&mut self, now: Instant) {
        self.next_full = now;
    }

    pub(super) fn want_if_refused(&mut self) {
        self.wanted |= std::mem::take(&mut self.refused);
    }

    /// The number up to which every look has ended.
    pub(super) fn ended(&self) -> u64 {
        match (self.front, self.back) {
            (Some(one), Some(other)) => one.min(other) - 1,
            (Some(one), None) | (None, Some(one)) => one - 1,
            (None, None) => self.begun,
        }
    }

    pub(super) fn waiting_in(&mut self, now: Instant, after: Duration) {
        self.next_waiting = self.next_waiting.min(now + after);
    }
}

impl Engine {
    /// When the next look is due, where one may begin. A look that has no room waits for a publish
    /// to end, not for a time.
    pub(super) fn looks_deadline(&self, now: Instant) -> Option<Instant> {
        let looks = &self.looks;
        if !self.may_look() || !self.has_room(4, now) {
            return None;
        }
        let front = looks.next_poll.min(looks.next_waiting).max(looks.not_before);
        let front = (looks.front.is_none() && self.has_room(3, now)).then_some(front);
        let back = looks.back.is_none().then_some(looks.next_full.max(looks.not_before));
        front.into_iter().chain(back).min()
    }

    fn may_look(&self) -> bool {
        self.stop_by.is_none()
            && self.tends.told
            && self.lanes.len() > 0
            && self.parts.clock.since_boot() < self.leases.valid_until
    }

    pub(super) fn begin_looks(&mut self, now: Instant) {
        if now < self.looks.not_before || !self.may_look() {
            return;
        }
        self.begin_front_look(now);
        self.begin_back_look(now);
    }

    fn begin_front_look(&mut self, now: Instant) {
        let uncapped = |lane: &Lane| self.window.queued_in(*lane) <= self.lane_cap() / 2;
        let wanted = self.looks.wanted
            || now >= self.looks.next_poll
            || now >= self.looks.next_waiting
            || self.looks.capped.iter().any(uncapped);
        if self.looks.front.is_some() || !wanted || !self.has_room(3, now) {
            return;
        }
        // A line is read from its beginning: what committed late belongs before the rest.
        let from_floor = self.is_strict()
            || self.lanes.iter().all(|(_, owned)| owned.position - owned.floor <= FROM_FLOOR_SEQS);
        let cap = self.lane_cap();
        let (from, capped): (Vec<_>, Vec<_>) = self
            .lanes
            .iter()
            .filter(|(_, owned)| !owned.vacating)
            .map(|(lane, owned)| {
                (lane, owned.epoch, if from_floor { owned.floor } else { owned.position })
            })
            .partition(|(lane, _, _)| self.window.queued_in(*lane) < cap);
        self.looks.capped = capped.into_iter().map(|(lane, _, _)| lane).collect();
        self.looks.wanted = false;
        let rows_max = (self.parts.settings.window_rows - self.window.rows())
            .min(self.rows_that_shares_allow(now));
        let waiting = now >= self.looks.next_waiting || now >= self.looks.next_poll;
        self.looks.next_poll = now + self.poll_interval();
        if waiting {
            self.looks.next_waiting = self.looks.next_poll;
        }
        if from_floor {
            self.looks.next_back = now + BACK_EVERY;
        }
        let look = Look { ready: true, waiting, rows_max, ..Look::default() };
        self.begin_look(Slot::Front, from, look, from_floor);
    }

    fn begin_back_look(&mut self, now: Instant) {
        let fresh = self.lanes.iter().any(|(_, owned)| owned.fresh && !owned.vacating);
        let full = fresh || now >= self.looks.next_full;
        if self.looks.back.is_some()
            || !(full || now >= self.looks.next_back)
            || !self.has_room(4, now)
        {
            return;
        }
        self.looks.next_back = now + BACK_EVERY;
        if full {
            self.looks.next_full = now + FULL_EVERY;
        }
        let from = self
            .lanes
            .iter()
            .filter(|(_, owned)| !owned.vacating)
            .map(|(lane, owned)| (lane, owned.epoch, if full { 0 } else { owned.floor }))
            .collect();
        let rows_max =
            BACK_ROWS_MAX.min(self.parts.settings.window_rows.saturating_sub(self.window.rows()));
        let look = Look { ready: true, background: true, rows_max, ..Look::default() };
        self.begin_look(Slot::Back, from, look, true);
    }

    fn begin_look(
        &mut self,
        slot: Slot,
        from: Vec<(Lane, i64, i64)>,
        mut look: Look,
        all_known: bool,
    ) {
        if from.is_empty() || look.rows_max == 0 {
            return;
        }
        self.looks.begun += 1;
        let number = self.looks.begun;
        *match slot {
            Slot::Front => &mut self.looks.front,
            Slot::Back => &mut self.looks.back,
        } = Some(number);
        look.lane_rows_max = (look.rows_max / from.len()).max(LANE_ROWS_MIN);
        let free = self.parts.settings.window_bytes.saturating_sub(self.bytes_taken());
        // Neither look takes all of the room from the other; the front one gets most.
        let quarter = (free / 4).max(1);
        look.bytes_max = if slot == Slot::Back { quarter } else { quarter * 3 };
        self.looks.promised += look.bytes_max;
        look.known = self.window.known(all_known);
        look.reading = if self.is_strict() { Reading::Line } else { Reading::Lanes };
        look.lanes =
            from.iter().map(|(lane, _, after)| LaneLook { lane: *lane, after: *after }).collect();
        let bytes_max = look.bytes_max;
        let full = from.iter().all(|(_, _, after)| *after == 0);
        let store = self.parts.store.clone();
        let at = self.parts.clock.since_boot();
        self.parts.progress.looks(1);
        self.tasks.spawn(async move {
            let begun = Instant::now();
            let result = store.look(&look).await;
            let ended = Instant::now();
            Event::Looked(Done { slot, number, full, from, bytes_max, at, begun, ended, result })
        });
    }

    pub(super) fn on_looked(&mut self, done: Done, now: Instant) {
        self.looks.promised -= done.bytes_max;
        *match done.slot {
            Slot::Front => &mut self.looks.front,
            Slot::Back => &mut self.looks.back,
        } = None;
        if done.slot == Slot::Back {
            let pause = done.ended.saturating_duration_since(done.begun) * BACK_SHARE;
            self.looks.next_back = now + pause.max(BACK_EVERY);
            if done.full {
                self.looks.next_full = now + pause.max(FULL_EVERY);
            }
        }
        match done.result {
            Err(error) => {
                self.looks.failures += 1;
                self.looks.wanted = true;
                self.looks.not_before = now + STORE_WAITS.wait_with_jitter(self.looks.failures);
                self.store_failed(error);
            }
            Ok(sight) => {
                self.looks.failures = 0;
                self.store_answered();
                self.looks.wanted |= sight.truncated;
                if let Some(after) = sight.next_due_in {
                    self.looks.waiting_in(now, after);
                }
                self.looks.read_at = done.ended;
                let found = sight.truncated || !sight.rows.is_empty();
                self.drain_looked(done.number, done.slot == Slot::Front, done.full, found);
                self.take_rows(sight, done.number, &done.from, done.at);
            }
        }
        self.window.looks_ended(self.looks.ended());
    }

    fn take_rows(
        &mut self,
        mut sight: Sight,
        number: u64,
        from: &[(Lane, i64, i64)],
        at: Duration,
    ) {
        // A lane that changed hands while the look ran shows rows as they were under another owner.
        let still: Vec<(Lane, i64)> = from
            .iter()
            .filter(|(lane, epoch, _)| self.lanes.takes_from(*lane, *epoch, number))
            .map(|(lane, _, after)| (*lane, *after))
            .collect();
        let lanes: std::collections::BTreeMap<Lane, i64> = still.iter().copied().collect();
        let mut rows = std::mem::take(&mut sight.rows);
        if still.len() < from.len() {
            rows.retain(|row| lanes.contains_key(&row.lane));
        }
        self.parts.progress.read(rows.len() as u64);
        let ready = rows.iter().filter(|row| !row.waiting);
        let places: Vec<(Lane, i64)> = ready.map(|row| (row.lane, row.seq)).collect();
        self.joins.retain(|_, join| self.lanes.get(join.lane).is_some());
        for row in rows {
            if self.may_join(&row, &sight) {
                self.take_row(row, number);
            }
        }
        let lowest = self.window.lowest();
        let Sight { truncated, horizon, .. } = sight;
        let looked = Looked { number, from: &still, places: &places, truncated, horizon, at };
        self.lanes.looked(&looked, &lowest);
    }

    fn take_row(&mut self, row: Row, look: u64) {
        let Some(owned) = self.lanes.get(row.lane) else {
            return;
        };
        let (seq, lane, epoch) = (row.seq, row.lane, owned.epoch);
        let attempts = row.attempts;
        let mut outlet = 0;
        let due = self.looks.read_at.checked_sub(row.age.so_far).map(|at| (at, row.age.from));
        let (message, trouble) = match row.content {
            Content::Message(message) => match self.destination(&message, row.waiting) {
                Ok(to) => {
                    outlet = to;
                    (Some(message), None)
                }
                Err(trouble) => (None, Some(trouble)),
            },
            Content::Undecodable(error) => (None, Some(Trouble::Undecodable(error))),
            Content::Blocked => (None, Some(Trouble::Blocked)),
        };
        let offered = self.window.offer(Offer {
            look,
            looks_begun: self.looks.begun,
            seq,
            lane,
            epoch,
            key: row.key,
            outlet,
            attempts,
            blocker: row.blocker,
            waiting: row.waiting,
            due,
            message,
        });
        match (offered, trouble) {
            (Offered::Refused, _) => {
                self.looks.refused = true;
                self.lanes.forgot_of_key(lane, self.looks.begun);
            }
            (Offered::Taken, Some(trouble)) => self.judge_unpublished(seq, trouble),
            (Offered::Taken, None) | (Offered::Known, _) => {}
        }
    }

    /// Queued rows of one lane above which it is not read on, so that one hot lane does not fill
    /// the window. A store with one lane has the window for it, and so has one line of all rows.
    fn lane_cap(&self) -> usize {
        let window = self.parts.settings.window_rows;
        if self.lanes.len() <= 1 || self.is_strict() {
            window
        } else {
            (window / 8).max(LANE_ROWS_MIN)
        }
    }

    /// Whether less than this much of the rows and of the bytes is taken. The front look begins while
    /// a quarter is free: what is in flight or being settled counts, and must not leave the publisher
    /// without the next rows while a look runs.
    fn has_room(&self, quarters: usize, now: Instant) -> bool {
        let part = |max: usize| (max / 4 * quarters + max % 4 * quarters / 4).max(1);
        let rows_max = self.parts.settings.window_rows;
        self.window.rows() < part(rows_max)
            && self.bytes_taken() < part(self.parts.settings.window_bytes)
            // While one look is slow, what is settled beside it has to be remembered.
            && self.window.settled_rows() < rows_max.saturating_mul(4)
            && self.shares_have_room(quarters, now)
    }

    fn bytes_taken(&self) -> usize {
        self.window.bytes() + self.looks.promised
    }

    /// With jitter, so that relays do not poll in step.
    pub(super) fn poll_interval(&self) -> Duration {
        self.parts.settings.poll.mul_f64(0.8 + 0.2 * fastrand::f64())
    }
}
