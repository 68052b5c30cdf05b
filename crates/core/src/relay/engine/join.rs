//! Rows that fall due: where they join their key's order.

use super::Engine;
use crate::lane::Lane;
use crate::store::{Row, Sight};

/// Where a row that fell due during a backlog stands in the order.
pub(super) struct Join {
    pub(super) lane: Lane,
    /// The last seq that goes before it.
    behind: i64,
}

/// So many rows that fell due during a backlog are remembered; more are remembered later.
const JOINS_MAX: usize = 10_000;

impl Engine {
    /// Whether a row that fell due may be taken yet: it joins its key's order when it falls due, so
    /// behind everything of its lane that was sent before it was first seen due.
    pub(super) fn may_join(&mut self, row: &Row, sight: &Sight) -> bool {
        if !row.waiting || row.blocker || row.key.is_none() || self.is_strict() {
            return true;
        }
        let Some(owned) = self.lanes.get(row.lane) else { return false };
        if !sight.truncated {
            self.joins.remove(&row.seq);
            return true;
        }
        let behind = sight.horizon.map_or(i64::MAX, |horizon| horizon.seq);
        if !self.joins.contains_key(&row.seq) && self.joins.len() < JOINS_MAX {
            self.joins.insert(row.seq, Join { lane: row.lane, behind });
        }
        let joins = self.joins.get(&row.seq).is_some_and(|join| owned.position >= join.behind);
        if joins {
            self.joins.remove(&row.seq);
        }
        joins
    }
}
