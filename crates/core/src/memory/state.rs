//! What the memory store holds, behind one lock: rows with their indexes, sent ids, lanes, relays
//! and the transactions that are running.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::kept::Shelf;
use super::row::{PlainRow, Spot, Stored};
use crate::error::{Error, ErrorKind, Result};
use crate::lane::Lane;
use crate::store::Pause;
use crate::time::Timestamp;

/// The schema that this program's memory store has.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Everything.
pub(super) struct State {
    pub(super) schema: u32,
    /// From which version on programs may use the schema.
    pub(super) usable_from: u32,
    pub(super) rows: BTreeMap<i64, Stored>,
    /// Per lane.
    pub(super) ready: Vec<BTreeSet<i64>>,
    /// Per lane, by the time, then the seq.
    pub(super) waiting: Vec<BTreeSet<(Timestamp, i64)>>,
    /// By key: rows that the key's later rows wait for.
    pub(super) blockers: HashMap<String, BTreeSet<i64>>,
    /// By key: rows that are held.
    pub(super) held: HashMap<String, BTreeSet<i64>>,
    pub(super) quarantine: BTreeSet<i64>,
    /// By mark.
    pub(super) parked: BTreeMap<Arc<str>, BTreeSet<i64>>,
    pub(super) pauses: Vec<Pause>,
    /// By id and source, so that an id is found without its source.
    pub(super) pairs: BTreeMap<(String, String), Pair>,
    pub(super) lanes: Vec<LaneRow>,
    pub(super) relays: BTreeMap<String, RelayRow>,
    /// Claims that are open, by number: until when.
    pub(super) claims: HashMap<u64, Timestamp>,
    pub(super) claim_last: u64,
    /// Rows that are locked, and by which claim.
    pub(super) locked: HashMap<i64, u64>,
    pub(super) published: u64,
    pub(super) shelf: Shelf,
    pub(super) seq_last: i64,
    pub(super) running: Running,
    /// Goes up with every commit that adds rows.
    pub(super) news: u64,
}

/// A pair of id and source.
#[derive(Clone, Copy)]
pub(super) enum Pair {
    /// A running transaction has written it.
    Claimed(u64),
    /// It was committed.
    Kept {
        sent_at: Timestamp,
        /// Its row, while there is one.
        seq: Option<i64>,
        /// The position that its row has or had.
        was: i64,
    },
}

/// A lane's row.
#[derive(Clone, Default)]
pub(super) struct LaneRow {
    pub(super) owner: Option<String>,
    pub(super) epoch: i64,
    pub(super) until: Timestamp,
    pub(super) floor: i64,
}

impl LaneRow {
    /// Whether another relay holds it.
    pub(super) fn is_others(&self, me: &str, now: Timestamp) -> bool {
        self.until > now && self.owner.as_deref().is_some_and(|owner| owner != me)
    }
}

/// A relay's row.
#[derive(Clone)]
pub(super) struct RelayRow {
    pub(super) until: Timestamp,
    pub(super) target: Option<String>,
}

/// Transactions.
#[derive(Default)]
pub(super) struct Running {
    /// The last token given to a transaction at its begin.
    pub(super) token_last: u64,
    /// The xids of those that have written, as PostgreSQL gives them: at the first write.
    pub(super) xids: BTreeSet<u64>,
    pub(super) xid_last: u64,
    /// Who waits for whom, by token.
    pub(super) waits: HashMap<u64, u64>,
}

impl State {
    pub(super) fn new(lanes: u16, schema: u32) -> Self {
        let count = usize::from(lanes);
        Self {
            schema,
            usable_from: schema,
            rows: BTreeMap::new(),
            ready: vec![BTreeSet::new(); count],
            waiting: vec![BTreeSet::new(); count],
            blockers: HashMap::new(),
            held: HashMap::new(),
            quarantine: BTreeSet::new(),
            parked: BTreeMap::new(),
            pauses: Vec::new(),
            pairs: BTreeMap::new(),
            lanes: vec![LaneRow::default(); count],
            relays: BTreeMap::new(),
            claims: HashMap::new(),
            claim_last: 0,
            locked: HashMap::new(),
            published: 0,
            shelf: Shelf::default(),
            seq_last: 0,
            running: Running::default(),
            news: 0,
        }
    }

    /// Refuses where a database would say that the tables are not there.
    pub(super) fn need_schema(&self, operation: &'static str) -> Result<()> {
        let kind = match self.schema {
            SCHEMA_VERSION => return Ok(()),
            _ if self.is_newer_and_usable() => return Ok(()),
            version if version > SCHEMA_VERSION => ErrorKind::SchemaTooNew,
            _ => ErrorKind::SchemaMissing,
        };
        Err(Error::new(kind, operation)
            .subject(super::store::ADDRESS)
            .detail(format!("the schema has version {}, {SCHEMA_VERSION} is needed", self.schema)))
    }

    pub(super) fn is_newer_and_usable(&self) -> bool {
        self.schema > SCHEMA_VERSION && self.usable_from <= SCHEMA_VERSION
    }

    pub(super) fn lane_of(&self, plain: &PlainRow) -> Lane {
        let lanes = u16::try_from(self.lanes.len()).unwrap_or(u16::MAX);
        Lane::of(plain.key.as_deref().unwrap_or(&plain.id), lanes)
    }

    /// Adds a committed row, and its pair.
    pub(super) fn insert(&mut self, row: Stored) {
        let pair = (row.plain.id.clone(), row.plain.source.clone());
        let kept = Pair::Kept { sent_at: row.created_at, seq: Some(row.seq), was: row.seq };
        self.pairs.insert(pair, kept);
        self.enlist(&row);
        self.rows.insert(row.seq, row);
    }

    /// Takes a row out. Its pair stays, for the horizon.
    pub(super) fn remove(&mut self, seq: i64) -> Option<Stored> {
        let row = self.rows.remove(&seq)?;
        self.delist(&row);
        let pair = (row.plain.id.clone(), row.plain.source.clone());
        if let Some(Pair::Kept { seq, .. }) = self.pairs.get_mut(&pair) {
            *seq = None;
        }
        Some(row)
    }

    /// Changes a row and moves it to the list where it then belongs.
    pub(super) fn change(&mut self, seq: i64, change: impl FnOnce(&mut Stored)) -> bool {
        let Some(mut row) = self.rows.remove(&seq) else {
            return false;
        };
        self.delist(&row);
        change(&mut row);
        self.enlist(&row);
        self.rows.insert(seq, row);
        true
    }

    fn enlist(&mut self, row: &Stored) {
        let lane = usize::from(row.lane.0);
        match row.spot() {
            Spot::Ready => {
                self.ready[lane].insert(row.seq);
            }
            Spot::Waiting(at) => {
                self.waiting[lane].insert((at, row.seq));
            }
            Spot::Held => enlist_key(&mut self.held, row),
            Spot::Parked => {
                if let Some(mark) = &row.parked {
                    self.parked.entry(Arc::clone(mark)).or_default().insert(row.seq);
                }
            }
            Spot::Quarantined => {
                self.quarantine.insert(row.seq);
            }
        }
        if row.blocks() {
            enlist_key(&mut self.blockers, row);
        }
    }

    fn delist(&mut self, row: &Stored) {
        let lane = usize::from(row.lane.0);
        match row.spot() {
            Spot::Ready => {
                self.ready[lane].remove(&row.seq);
            }
            Spot::Waiting(at) => {
                self.waiting[lane].remove(&(at, row.seq));
            }
            Spot::Held => delist_key(&mut self.held, row),
            Spot::Parked => {
                if let Some(mark) = &row.parked
                    && let Some(seqs) = self.parked.get_mut(mark)
                {
                    seqs.remove(&row.seq);
                    if seqs.is_empty() {
                        self.parked.remove(mark);
                    }
                }
            }
            Spot::Quarantined => {
                self.quarantine.remove(&row.seq);
            }
        }
        if row.blocks() {
            delist_key(&mut self.blockers, row);
        }
    }

    /// The first row that this one has to wait for. A row that falls due for the first time joins
    /// its key's order then, behind everything that stands there; every other row waits for
    /// blockers with a lower seq.
    pub(super) fn blocker_of(&self, row: &Stored) -> Option<i64> {
        let blockers = self.blockers.get(row.key()?)?;
        if row.plain.due_at.is_some() && row.retry_at.is_none() {
            return blockers.iter().copied().find(|seq| *seq != row.seq);
        }
        blockers.range(..row.seq).next().copied()
    }

    /// Marks the ready rows of a key that come after `seq`.
    pub(super) fn hold_after(&mut self, key: &str, lane: Lane, seq: i64) {
        let later: Vec<i64> = self.ready[usize::from(lane.0)]
            .range((Bound::Excluded(seq), Bound::Unbounded))
            .copied()
            .filter(|later| self.rows.get(later).is_some_and(|row| row.key() == Some(key)))
            .collect();
        for later in later {
            self.change(later, |row| row.held = true);
        }
    }

    /// The held rows of a key that nothing blocks any more, in seq order.
    pub(super) fn stuck(&self, key: &str) -> Vec<i64> {
        let held = self.held.get(key).into_iter().flatten().copied();
        held.filter(|seq| self.rows.get(seq).is_some_and(|row| self.blocker_of(row).is_none()))
            .collect()
    }

    /// Lets go the held rows of a key that nothing blocks any more: they are ready again.
    pub(super) fn release(&mut self, key: &str) -> u64 {
        let mut released = 0;
        for seq in self.stuck(key) {
            self.change(seq, |row| row.held = false);
            released += 1;
        }
        released
    }

    /// Where a key has held rows and nothing that they wait for, the first of them becomes that: it
    /// is tried at once, and lets the others go once it is published. If all became ready, a row
    /// that is sent now could go before them, since their owner has read past them.
    pub(super) fn promote(&mut self, key: &str, now: Timestamp) {
        if let Some(first) = self.stuck(key).first() {
            self.change(*first, |row| {
                row.held = false;
                row.retry_at = Some(now);
                row.holds = true;
            });
        }
    }
}

fn enlist_key(list: &mut HashMap<String, BTreeSet<i64>>, row: &Stored) {
    // A row without a key holds nobody and is held by nobody; the empty key is a key.
    if let Some(key) = row.key() {
        list.entry(key.to_owned()).or_default().insert(row.seq);
    }
}

fn delist_key(list: &mut HashMap<String, BTreeSet<i64>>, row: &Stored) {
    if let Some(key) = row.key()
        && let Some(seqs) = list.get_mut(key)
    {
        seqs.remove(&row.seq);
        if seqs.is_empty() {
            list.remove(key);
        }
    }
}
