//! Looks in memory: what [`crate::store::OutboxStore::look`] reads.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::row::{Spot, Stored};
use super::state::State;
use crate::store::{Age, AgeFrom, Content, Horizon, Look, Reading, Row, Sight};
use crate::time::Timestamp;

/// Rows taken so far, against the bounds of a look.
struct Basket<'a> {
    look: &'a Look,
    rows: Vec<Row>,
    bytes: usize,
    /// Rows of the kind that is being read.
    kind_rows: usize,
    /// That kind.
    waiting: bool,
    now: Timestamp,
}

impl State {
    pub(super) fn look(&self, look: &Look, now: Timestamp) -> Sight {
        let known: HashSet<i64> = look.known.iter().copied().collect();
        let mut basket =
            Basket { look, rows: Vec::new(), bytes: 0, kind_rows: 0, waiting: false, now };
        if look.reading == Reading::Line {
            return self.look_along(basket, &known, now);
        }
        let truncated = look.ready && self.look_ready(&mut basket, &known);
        (basket.kind_rows, basket.waiting) = (0, true);
        let next_due =
            if look.waiting { self.look_waiting(&mut basket, &known, now) } else { None };
        Sight {
            rows: basket.rows,
            truncated,
            horizon: look.ready.then(|| self.horizon()),
            next_due_in: next_due
                .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)),
        }
    }

    /// Answers whether a bound left something out.
    fn look_ready(&self, basket: &mut Basket<'_>, known: &HashSet<i64>) -> bool {
        let mut left_out = false;
        for lane in &basket.look.lanes {
            let Some(ready) = self.ready.get(usize::from(lane.lane.0)) else {
                continue;
            };
            let mut lane_rows = 0;
            for seq in ready.range((Bound::Excluded(lane.after), Bound::Unbounded)) {
                let Some(row) = self.rows.get(seq) else {
                    continue;
                };
                if known.contains(seq) {
                    continue;
                }
                if lane_rows == basket.look.lane_rows_max {
                    left_out = true;
                    break;
                }
                if !basket.take(row, self.blocker_of(row).is_some()) {
                    return true;
                }
                lane_rows += 1;
            }
        }
        left_out
    }

    /// Answers when the next row that was not given falls due.
    fn look_waiting(
        &self,
        basket: &mut Basket<'_>,
        known: &HashSet<i64>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        // One more of each lane than may be given tells when the next one is due.
        let enough = basket.look.rows_max.saturating_add(1);
        let mut waiting: Vec<(Timestamp, i64)> = basket
            .look
            .lanes
            .iter()
            .filter_map(|lane| self.waiting.get(usize::from(lane.lane.0)))
            .flat_map(|lane| {
                lane.iter().copied().filter(|(_, seq)| !known.contains(seq)).take(enough)
            })
            .collect();
        waiting.sort_unstable();
        for (at, seq) in waiting {
            let Some(row) = self.rows.get(&seq) else {
                continue;
            };
            if at > now || !basket.take(row, self.blocker_of(row).is_some()) {
                return Some(at);
            }
        }
        None
    }

    /// The line of all rows, in seq order.
    fn look_along(&self, mut basket: Basket<'_>, known: &HashSet<i64>, now: Timestamp) -> Sight {
        let lanes = &basket.look.lanes;
        let after: HashMap<_, _> = lanes.iter().map(|lane| (lane.lane, lane.after)).collect();
        let (mut truncated, mut stopped) = (false, false);
        let mut next_due = None;
        for row in self.rows.values() {
            let Some(after) = after.get(&row.lane) else { continue };
            let in_turn = match row.spot() {
                Spot::Ready => row.seq > *after,
                Spot::Waiting(at) if at > now => {
                    next_due = Some(next_due.map_or(at, |next| at.min(next)));
                    false
                }
                Spot::Waiting(_) => true,
                Spot::Parked => false,
                Spot::Held | Spot::Quarantined => continue,
            };
            if truncated || stopped {
                continue;
            }
            basket.waiting = matches!(row.spot(), Spot::Waiting(_));
            truncated = in_turn
                && !known.contains(&row.seq)
                && !basket.take(row, self.blocker_of(row).is_some());
            stopped = matches!(row.spot(), Spot::Waiting(_) | Spot::Parked) && row.blocks();
        }
        Sight {
            rows: basket.rows,
            truncated,
            horizon: (!stopped).then(|| self.horizon()),
            next_due_in: next_due
                .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)),
        }
    }

    fn horizon(&self) -> Horizon {
        let next = self.running.xid_last + 1;
        Horizon {
            seq: self.seq_last,
            oldest: self.running.xids.first().copied().unwrap_or(next),
            next,
        }
    }
}

impl Basket<'_> {
    /// Takes a row unless a bound forbids it.
    fn take(&mut self, row: &Stored, blocked: bool) -> bool {
        let bytes = if blocked { 0 } else { row.size_bytes() };
        let too_heavy = self.bytes.saturating_add(bytes) > self.look.bytes_max;
        if self.kind_rows == self.look.rows_max || (too_heavy && !self.rows.is_empty()) {
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.kind_rows += 1;
        self.rows.push(Row {
            seq: row.seq,
            lane: row.lane,
            key: row.plain.key.as_deref().map(Arc::from),
            attempts: row.attempts,
            blocker: row.retry_at.is_some() && row.holds,
            waiting: self.waiting,
            age: Age { so_far: row.due_for(self.now), from: AgeFrom::Creation },
            content: if blocked { Content::Blocked } else { row.decode() },
        });
        true
    }
}
