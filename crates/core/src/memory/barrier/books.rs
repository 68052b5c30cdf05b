//! The rows, and what undoes a transaction's changes to them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use tokio::sync::OwnedMutexGuard;

use crate::barrier::plain::{Found, Header, Tallies};
use crate::barrier::{BarrierId, EVIDENCE_MAX, Evidence, Json, MemberName};

/// All barriers.
#[derive(Default)]
pub(in crate::memory) struct Books {
    pub(super) barriers: BTreeMap<i64, Kept>,
    /// The last incarnation of each id.
    pub(super) ids: HashMap<BarrierId, i64>,
    pub(super) no_last: i64,
}

/// A barrier.
pub(super) struct Kept {
    pub(super) header: Header,
    pub(super) state: Option<Json>,
    pub(super) tallies: Tallies,
    pub(super) members: BTreeMap<MemberName, Row>,
    pub(super) pending: BTreeSet<MemberName>,
    pub(super) evidence: VecDeque<Evidence>,
}

/// A member.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) group: String,
    pub(super) found: Found,
}

impl Row {
    fn is_pending(&self) -> bool {
        self.found.resolved.is_none() && !self.found.missing
    }
}

/// What a change was before.
enum Undo {
    /// A barrier was added; the id meant this one before.
    Added(i64, Option<i64>),
    Header(Box<Header>),
    Tallies(i64, Tallies),
    Member(i64, MemberName, Option<Row>),
}

/// The barriers, held by a transaction. Dropped, it undoes what was not committed.
pub(in crate::memory) struct Session {
    books: OwnedMutexGuard<Books>,
    undo: Vec<Undo>,
}

impl Session {
    pub(super) fn new(books: OwnedMutexGuard<Books>) -> Self {
        Self { books, undo: Vec::new() }
    }

    pub(super) fn books(&self) -> &Books {
        &self.books
    }

    /// How much there is to undo; a savepoint.
    pub(in crate::memory) fn mark(&self) -> usize {
        self.undo.len()
    }

    pub(in crate::memory) fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark
            && let Some(undo) = self.undo.pop()
        {
            self.books.undo(undo);
        }
    }

    pub(in crate::memory) fn commit(mut self) {
        self.undo.clear();
    }

    pub(super) fn insert(&mut self, header: &Header, state: Option<&Json>) -> i64 {
        self.books.no_last += 1;
        let no = self.books.no_last;
        let before = self.books.ids.insert(header.id.clone(), no);
        let kept = Kept {
            header: Header { no, ..header.clone() },
            state: state.cloned(),
            tallies: Tallies::default(),
            members: BTreeMap::new(),
            pending: BTreeSet::new(),
            evidence: VecDeque::new(),
        };
        self.books.barriers.insert(no, kept);
        self.undo.push(Undo::Added(no, before));
        no
    }

    pub(super) fn update(&mut self, header: &Header) {
        if let Some(kept) = self.books.barriers.get_mut(&header.no) {
            let before = std::mem::replace(&mut kept.header, header.clone());
            self.undo.push(Undo::Header(Box::new(before)));
        }
    }

    pub(super) fn set_tallies(&mut self, no: i64, tallies: Tallies) {
        if let Some(kept) = self.books.barriers.get_mut(&no) {
            let before = std::mem::replace(&mut kept.tallies, tallies);
            self.undo.push(Undo::Tallies(no, before));
        }
    }

    pub(super) fn set_member(&mut self, no: i64, name: &MemberName, row: Option<Row>) {
        if let Some(kept) = self.books.barriers.get_mut(&no) {
            let before = kept.set(name, row);
            self.undo.push(Undo::Member(no, name.clone(), before));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.undo_to(0);
    }
}

impl Books {
    pub(super) fn last(&self, id: &BarrierId) -> Option<&Kept> {
        self.barriers.get(self.ids.get(id)?)
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Added(no, before) => {
                if let Some(kept) = self.barriers.remove(&no) {
                    match before {
                        Some(before) => self.ids.insert(kept.header.id, before),
                        None => self.ids.remove(&kept.header.id),
                    };
                }
            }
            Undo::Header(header) => {
                if let Some(kept) = self.barriers.get_mut(&header.no) {
                    kept.header = *header;
                }
            }
            Undo::Tallies(no, tallies) => {
                if let Some(kept) = self.barriers.get_mut(&no) {
                    kept.tallies = tallies;
                }
            }
            Undo::Member(no, name, row) => {
                if let Some(kept) = self.barriers.get_mut(&no) {
                    kept.set(&name, row);
                }
            }
        }
    }
}

impl Kept {
    /// Gives what was there.
    fn set(&mut self, name: &MemberName, row: Option<Row>) -> Option<Row> {
        match &row {
            Some(row) if row.is_pending() => {
                self.pending.insert(name.clone());
            }
            _ => {
                self.pending.remove(name);
            }
        }
        match row {
            Some(row) => self.members.insert(name.clone(), row),
            None => self.members.remove(name),
        }
    }

    pub(super) fn add_evidence(&mut self, evidence: Vec<Evidence>) {
        self.evidence.extend(evidence);
        let over = self.evidence.len().saturating_sub(EVIDENCE_MAX);
        self.evidence.drain(..over);
    }
}
