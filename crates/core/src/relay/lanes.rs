//! The lanes that this relay owns: epochs, floors and how far it has read.
//!
//! A floor is a seq at or below which, as far as this relay knows, nothing ready is left in the
//! lane. Looks start from it, so that they never walk over what was published long ago. It may only
//! move where a look from the floor itself has seen everything and every row it saw is remembered:
//! a transaction that drew its seq early and commits late stands below rows that left long before.
//!
//! Nor does a seq count before a row at or above it was seen: that row has committed, so the database
//! knows for good that it gave the seq out. Above it a crash may make it forget, and give the seq to
//! another transaction (PostgreSQL does, where no commit had taken the counter to disk).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::lane::Lane;
use crate::store::{Horizon, LaneLease};

/// A seq counts for the floor only after it was drawn this long ago. Between drawing its seq and
/// getting its xid a transaction is invisible to every snapshot; this covers an INSERT that the
/// machine interrupted in between. What waits longer than that is found by the look from 0.
const MARGIN: Duration = Duration::from_secs(1);

/// So many horizons are remembered; older ones are thinned out.
const HORIZONS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) struct OwnedLane {
    pub(super) epoch: i64,
    pub(super) floor: i64,
    /// The highest seq read.
    pub(super) position: i64,
    /// Looks up to this number may not move the floor: a row was forgotten while they ran.
    advance_after: u64,
    /// What looks up to this number give is not taken: rows below it were forgotten while they ran.
    stale_up_to: u64,
    /// Being given back: nothing new is read or begun.
    pub(super) vacating: bool,
    /// No look from 0 has been made since the lane was taken.
    pub(super) fresh: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    owned: BTreeMap<Lane, OwnedLane>,
    horizons: VecDeque<(Duration, Horizon)>,
    /// The highest seq of a row that was seen, in whatever lane.
    seen: i64,
}

/// A look that moved through lanes, for [`Lanes::looked`].
#[derive(Debug)]
pub(super) struct Looked<'a> {
    /// Its number.
    pub(super) number: u64,
    /// From where it read each lane.
    pub(super) from: &'a [(Lane, i64)],
    /// The ready rows that it gave.
    pub(super) places: &'a [(Lane, i64)],
    /// Whether a bound left some out.
    pub(super) truncated: bool,
    /// What it could see of running transactions.
    pub(super) horizon: Option<Horizon>,
    /// When it began, on the boot clock.
    pub(super) at: Duration,
}

impl Lanes {
    pub(super) fn len(&self) -> usize {
        self.owned.len()
    }

    pub(super) fn get(&self, lane: Lane) -> Option<&OwnedLane> {
        self.owned.get(&lane)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Lane, &OwnedLane)> {
        self.owned.iter().map(|(lane, owned)| (*lane, owned))
    }

    /// Takes over what a grant says. Answers the lanes that are new (or came back under another
    /// epoch) and those that are lost.
    pub(super) fn granted(&mut self, grant: &[LaneLease]) -> (Vec<Lane>, Vec<Lane>) {
        let mut gained = Vec::new();
        let mut lost = Vec::new();
        let now: BTreeMap<Lane, LaneLease> = grant.iter().map(|held| (held.lane, *held)).collect();
        self.owned.retain(|lane, owned| {
            let kept = now.get(lane).is_some_and(|held| held.epoch == owned.epoch);
            if !kept {
                lost.push(*lane);
            }
            kept
        });
        for (lane, held) in now {
            self.owned.entry(lane).or_insert_with(|| {
                gained.push(lane);
                OwnedLane {
                    epoch: held.epoch,
                    floor: held.floor,
                    position: held.floor,
                    advance_after: 0,
                    stale_up_to: 0,
                    vacating: false,
                    fresh: true,
                }
            });
        }
        (gained, lost)
    }

    pub(super) fn remove(&mut self, lane: Lane) {
        self.owned.remove(&lane);
    }

    pub(super) fn vacate(&mut self, lane: Lane) {
        if let Some(owned) = self.owned.get_mut(&lane) {
            owned.vacating = true;
        }
    }

    /// Leases as a renewal sends them.
    pub(super) fn leases(&self) -> Vec<LaneLease> {
        self.iter()
            .map(|(lane, owned)| LaneLease { lane, epoch: owned.epoch, floor: owned.floor })
            .collect()
    }

    /// Rows of one key were forgotten, and the key refuses what looks that are under way (up to
    /// number `looks_begun`) give of it: the lane is read again from its floor.
    pub(super) fn forgot_of_key(&mut self, lane: Lane, looks_begun: u64) {
        if let Some(owned) = self.owned.get_mut(&lane) {
            owned.advance_after = looks_begun;
            owned.position = owned.floor;
        }
    }

    /// Rows of the lane were forgotten, whatever their key: it is read again from its floor, and
    /// looks that are under way may have begun above them.
    pub(super) fn forgot(&mut self, lane: Lane, looks_begun: u64) {
        self.forgot_of_key(lane, looks_begun);
        if let Some(owned) = self.owned.get_mut(&lane) {
            owned.stale_up_to = looks_begun;
        }
    }

    /// As [`Lanes::forgot`], for every lane.
    pub(super) fn forgot_all(&mut self, looks_begun: u64) {
        for owned in self.owned.values_mut() {
            owned.advance_after = looks_begun;
            owned.stale_up_to = looks_begun;
            owned.position = owned.floor;
        }
    }

    /// Whether what look `number` gives of the lane may be taken.
    pub(super) fn takes_from(&self, lane: Lane, epoch: i64, number: u64) -> bool {
        self.owned.get(&lane).is_some_and(|owned| {
            owned.epoch == epoch && !owned.vacating && number > owned.stale_up_to
        })
    }

    /// Rows above `seq` became ready again.
    pub(super) fn let_go_above(&mut self, lane: Lane, seq: i64, looks_begun: u64) {
        if let Some(owned) = self.owned.get_mut(&lane) {
            owned.floor = owned.floor.min(seq);
        }
        self.forgot_of_key(lane, looks_begun);
    }

    /// Moves positions and floors after a look. `lowest` is the lowest seq of a ready row that the
    /// relay remembers in a lane.
    pub(super) fn looked(&mut self, looked: &Looked<'_>, lowest: &BTreeMap<Lane, i64>) {
        let mut last: BTreeMap<Lane, i64> = BTreeMap::new();
        for (lane, seq) in looked.places {
            let seen = last.entry(*lane).or_insert(i64::MIN);
            *seen = (*seen).max(*seq);
            self.seen = self.seen.max(*seq);
        }
        let safe = looked.horizon.and_then(|horizon| self.safe_seq(looked.at, horizon));
        for (lane, after) in looked.from {
            let Some(owned) = self.owned.get_mut(lane) else {
                continue;
            };
            if *after == 0 {
                owned.fresh = false;
            }
            // A look that rows were forgotten beside may have begun above them: the lane is read again
            // from its floor, whatever that look saw.
            if looked.number > owned.advance_after
                && let Some(seen) = last.get(lane)
            {
                owned.position = owned.position.max(*seen);
            }
            let Some(safe) = safe else { continue };
            if *after > owned.floor || looked.number <= owned.advance_after {
                continue;
            }
            // A bound cut the look short: it saw the lane only as far as the last row it gave.
            let covered = match (looked.truncated, last.get(lane)) {
                (false, _) => i64::MAX,
                (true, Some(seen)) => *seen,
                (true, None) => *after,
            };
            let remembered = lowest.get(lane).map_or(i64::MAX, |seq| seq - 1);
            owned.floor = owned.floor.max(safe.min(covered).min(remembered));
            owned.position = owned.position.max(owned.floor);
        }
    }

    /// The highest seq up to which a look with the horizon `now` has seen every row there will ever
    /// be, as far as earlier horizons tell. Remembers `now` for later looks.
    fn safe_seq(&mut self, at: Duration, now: Horizon) -> Option<i64> {
        let now = Horizon { seq: now.seq.min(self.seen), ..now };
        let closed = self.horizons.iter().rposition(|(seen_at, horizon)| {
            horizon.next <= now.oldest && at.saturating_sub(*seen_at) >= MARGIN
        });
        let safe = closed.map(|last| {
            self.horizons.drain(..last);
            self.horizons[0].1.seq
        });
        // While nothing is sent the first horizon of a seq is the one that closes first.
        if self.horizons.back().is_none_or(|(_, last)| last.seq < now.seq) {
            if self.horizons.len() >= HORIZONS_MAX {
                let mut keep = false;
                self.horizons.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
            self.horizons.push_back((at, now));
        }
        safe
    }
}
