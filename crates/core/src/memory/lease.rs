//! Leases in memory: the algorithm that [`crate::store::OutboxStore::lease`] describes.

use super::state::{RelayRow, State};
use super::store::later;
use crate::lane::Lane;
use crate::store::{Ask, LaneLease, LeaseGrant, LeaseRequest};
use crate::time::Timestamp;

impl State {
    pub(super) fn lease(&mut self, request: &LeaseRequest, now: Timestamp) -> LeaseGrant {
        let me = request.relay.as_str();
        let until = later(now, request.ttl);
        self.relays.retain(|_, relay| relay.until > now);
        if request.ask == Ask::Leave {
            self.relays.remove(me);
        } else {
            let row = RelayRow { until, target: request.target.clone() };
            self.relays.insert(me.to_owned(), row);
        }
        self.give_back(me, &request.release);
        self.keep(request, until);
        let relays = self.relays.len();
        let share = self.lanes.len().div_ceil(relays.max(1));
        // Rows that are claimed under locks are nobody's to read without.
        let is_claimed = self.claims.values().any(|until| *until > now);
        let others = || self.lanes.iter().any(|lane| lane.is_others(me, now));
        match request.ask {
            Ask::Share | Ask::All if is_claimed => {}
            Ask::Share => self.take(me, share, now, until),
            Ask::All if !others() => self.take(me, self.lanes.len(), now, until),
            Ask::All => drop(self.relays.remove(me)),
            Ask::Nothing | Ask::Leave => {}
        }
        let lanes = self.owned(me, now);
        self.promote_orphans(&lanes, now);
        LeaseGrant {
            lanes,
            share,
            lanes_total: u16::try_from(self.lanes.len()).unwrap_or(u16::MAX),
            relays: self.relays.len(),
        }
    }

    /// Whether a relay holds a lane under this epoch. A lapsed lease that nobody took still counts.
    pub(super) fn holds(&self, me: &str, lane: Lane, epoch: i64) -> bool {
        self.lanes
            .get(usize::from(lane.0))
            .is_some_and(|row| row.epoch == epoch && row.owner.as_deref() == Some(me))
    }

    fn give_back(&mut self, me: &str, release: &[LaneLease]) {
        for lease in release {
            if self.holds(me, lease.lane, lease.epoch) {
                let row = &mut self.lanes[usize::from(lease.lane.0)];
                row.owner = None;
                row.floor = lease.floor;
            }
        }
    }

    fn keep(&mut self, request: &LeaseRequest, until: Timestamp) {
        let me = request.relay.as_str();
        for lease in &request.keep {
            if self.holds(me, lease.lane, lease.epoch) {
                let row = &mut self.lanes[usize::from(lease.lane.0)];
                row.until = until;
                row.floor = lease.floor;
            }
        }
        if request.ask == Ask::Leave {
            return;
        }
        // What it took in a call whose answer was lost: the answer of this one lists it, so it has
        // to last as long as the rest.
        for row in &mut self.lanes {
            if row.owner.as_deref() == Some(me) {
                row.until = until;
            }
        }
    }

    fn take(&mut self, me: &str, share: usize, now: Timestamp, until: Timestamp) {
        let mut have = self.owned(me, now).len();
        for row in &mut self.lanes {
            if have >= share {
                return;
            }
            if row.owner.is_none() || row.until <= now {
                row.owner = Some(me.to_owned());
                row.epoch += 1;
                row.until = until;
                have += 1;
            }
        }
    }

    fn owned(&self, me: &str, now: Timestamp) -> Vec<LaneLease> {
        (0_u16..)
            .zip(&self.lanes)
            .filter(|(_, row)| row.owner.as_deref() == Some(me) && row.until > now)
            .map(|(lane, row)| LaneLease { lane: Lane(lane), epoch: row.epoch, floor: row.floor })
            .collect()
    }

    /// Whatever left held rows without anything to wait for, their owner mends it here.
    fn promote_orphans(&mut self, lanes: &[LaneLease], now: Timestamp) {
        let is_mine = |seq: &i64| {
            let row = self.rows.get(seq);
            row.is_some_and(|row| lanes.iter().any(|lease| lease.lane == row.lane))
        };
        let of_mine = self.held.iter().filter(|(_, seqs)| seqs.first().is_some_and(is_mine));
        let keys: Vec<String> = of_mine.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.promote(&key, now);
        }
    }
}
