//! Pauses in memory, and bringing parked rows back.

use async_trait::async_trait;

use super::row::{Spot, Stored};
use super::state::State;
use super::store::MemoryStore;
use crate::error::Result;
use crate::store::{
    PAUSE_REASON_CHARS_MAX, ParkedFor, Pause, PauseDesk, PauseScope, PauseStanding, Tend, Tended,
};
use crate::time::Timestamp;

#[async_trait]
impl PauseDesk for MemoryStore {
    async fn pause(&self, scope: &PauseScope, reason: &str) -> Result<bool> {
        let paused_at = self.shared.now();
        let reason: String = reason.chars().take(PAUSE_REASON_CHARS_MAX).collect();
        let mut state = self.shared.lock();
        state.need_schema("pausing messages")?;
        if let Some(pause) = state.pauses.iter_mut().find(|pause| pause.scope == *scope) {
            pause.reason = reason;
            return Ok(false);
        }
        state.pauses.push(Pause { scope: scope.clone(), reason, paused_at });
        Ok(true)
    }

    async fn resume(&self, scope: Option<&PauseScope>) -> Result<u64> {
        let mut state = self.shared.lock();
        state.need_schema("resuming messages")?;
        let before = state.pauses.len();
        state.pauses.retain(|pause| scope.is_some_and(|scope| pause.scope != *scope));
        Ok(u64::try_from(before - state.pauses.len()).unwrap_or(u64::MAX))
    }

    async fn pauses(&self) -> Result<Vec<PauseStanding>> {
        let state = self.shared.lock();
        state.need_schema("reading the pauses")?;
        Ok(state.pauses.iter().map(|pause| state.standing_of(pause)).collect())
    }
}

impl State {
    fn standing_of(&self, pause: &Pause) -> PauseStanding {
        let mark = ParkedFor::Pause(pause.scope.clone()).mark();
        let parked = self.parked.get(mark.as_str());
        let keys = parked.into_iter().flatten().filter_map(|seq| self.rows.get(seq)?.key());
        let keys: std::collections::BTreeSet<&str> = keys.collect();
        let held: usize =
            keys.into_iter().filter_map(|key| self.held.get(key)).map(|held| held.len()).sum();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let parked = parked.map_or(0, |parked| parked.len());
        PauseStanding::new(pause.clone(), count(parked), count(held))
    }

    /// Whether a row is parked for a pause that is there.
    pub(super) fn is_paused(&self, row: &Stored) -> bool {
        row.spot() == Spot::Parked
            && self.pauses.iter().any(|pause| {
                row.parked.as_deref() == Some(&ParkedFor::Pause(pause.scope.clone()).mark())
            })
    }

    pub(super) fn tend(&mut self, tend: &Tend, now: Timestamp) -> Tended {
        let pauses = self.pauses.clone();
        let paused: Vec<String> =
            pauses.iter().map(|pause| ParkedFor::Pause(pause.scope.clone()).mark()).collect();
        let mut recalled = Vec::new();
        for (mark, seqs) in &self.parked {
            let room = tend.targets.iter().find(|room| room.mark == **mark);
            let rows_max = match room {
                _ if paused.iter().any(|paused| **paused == **mark) => 0,
                Some(room) => room.rows_max,
                None => tend.rows_max,
            };
            let ours = seqs.iter().copied().filter(|seq| {
                let lane =
                    self.rows.get(seq).and_then(|row| self.lanes.get(usize::from(row.lane.0)));
                lane.is_some_and(|lane| {
                    lane.until > now && lane.owner.as_deref() == Some(tend.relay.as_str())
                })
            });
            recalled.extend(ours.take(rows_max));
        }
        for seq in &recalled {
            self.change(*seq, |row| {
                row.parked = None;
                row.retry_at = Some(now);
            });
        }
        Tended { pauses, recalled: u64::try_from(recalled.len()).unwrap_or(u64::MAX) }
    }
}
