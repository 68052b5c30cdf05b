//! Verdicts in memory: what [`crate::store::OutboxStore::settle`] writes.

use std::sync::Arc;

use super::row::Quarantine;
use super::state::State;
use super::store::later;
use crate::store::{Outcome, RelayId, Settled, Verdict};
use crate::time::Timestamp;

impl State {
    pub(super) fn settle(
        &mut self,
        relay: &RelayId,
        verdicts: &[Verdict],
        now: Timestamp,
    ) -> Settled {
        let target = self.relays.get(relay.as_str()).and_then(|relay| relay.target.clone());
        let mut settled = Settled::default();
        let mut freed: Vec<(&Verdict, bool)> = Vec::new();
        let mut passing: Vec<&Verdict> = Vec::new();
        for verdict in verdicts {
            let fenced = !self.holds(relay.as_str(), verdict.lane, verdict.epoch);
            if fenced {
                settled.fenced.push(verdict.seq);
            }
            match &verdict.outcome {
                // A fact, whoever owns the lane by now.
                Outcome::Published { releases } => {
                    if let Some(row) = self.remove(verdict.seq) {
                        settled.published += 1;
                        self.published += 1;
                        self.shelve(row, target.clone(), now);
                        freed.push((verdict, *releases && !fenced));
                    }
                }
                _ if fenced => {}
                outcome => {
                    if self.set_aside(verdict, outcome, now) {
                        passing.push(verdict);
                    }
                }
            }
        }
        // Last, so that a row which the same settlement holds is let go as well.
        for (verdict, releases) in freed {
            let Some(key) = verdict.key.as_deref() else { continue };
            if releases {
                settled.released += self.let_go(verdict, key);
            } else {
                // The owner does not know that its key's rows wait for nothing any more.
                self.promote(key, now);
            }
        }
        for key in passing.iter().filter_map(|verdict| verdict.key.as_deref()) {
            self.promote(key, now);
        }
        settled
    }

    fn let_go(&mut self, verdict: &Verdict, key: &str) -> u64 {
        let released = self.release(key);
        if let Some(lane) = self.lanes.get_mut(usize::from(verdict.lane.0)) {
            lane.floor = lane.floor.min(verdict.seq);
        }
        released
    }

    /// Everything but a publish. Answers whether the row has failed and holds nobody.
    fn set_aside(&mut self, verdict: &Verdict, outcome: &Outcome, now: Timestamp) -> bool {
        let (was_there, holds) = match outcome {
            Outcome::Published { .. } => (false, false),
            Outcome::Held => {
                // Where its blocker has gone meanwhile, nothing would let it go.
                let row = self.rows.get(&verdict.seq);
                if row.is_some_and(|row| self.blocker_of(row).is_some()) {
                    self.change(verdict.seq, |row| row.held = true);
                }
                return false;
            }
            Outcome::Parked { mark } => {
                self.change(verdict.seq, |row| {
                    // A row in quarantine stays there.
                    if row.quarantine.is_none() {
                        row.parked = Some(Arc::clone(mark));
                        row.retry_at = Some(Timestamp::MAX);
                    }
                });
                (true, false)
            }
            Outcome::Retry { after, error, counts, holds } => {
                let there = self.change(verdict.seq, |row| {
                    row.parked = None;
                    row.retry_at = Some(later(now, *after));
                    row.holds = *holds;
                    row.attempts = row.attempts.saturating_add(u32::from(*counts));
                    row.last_error = Some(error.clone());
                });
                (there, *holds)
            }
            Outcome::Quarantined { reason, error, holds } => {
                let there = self.change(verdict.seq, |row| {
                    row.quarantine.get_or_insert(Quarantine { at: now, reason: *reason });
                    row.retry_at = None;
                    row.parked = None;
                    row.held = false;
                    row.holds = *holds;
                    row.last_error = Some(error.clone());
                });
                (there, *holds)
            }
        };
        if was_there
            && holds
            && let Some(key) = &verdict.key
        {
            self.hold_after(key, verdict.lane, verdict.seq);
        }
        was_there && !holds
    }
}
