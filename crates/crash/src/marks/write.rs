//! The relay's side of the marks.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use sendoff::lane::Lane;

use super::{Mark, Phase, now};

/// A publish that begins this long after the end of its lease, in nanoseconds, is late. The process
/// may lose the processor between its last look at the clock and the publish, but not for long.
const GRACE: u64 = 50_000_000;

/// Writes marks. Shared by the watched store and the watched publisher of one relay.
#[derive(Debug)]
pub struct Marks(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    /// Verdicts name rows by seq, publishes by id.
    ids: HashMap<i64, u128>,
    rows: HashMap<u128, (i64, Phase, Lane)>,
    published: HashSet<u128>,
    /// Until when each lane is leased, counted from before the lease was asked for.
    leased: HashMap<Lane, u64>,
}

impl Marks {
    /// Begins a new file.
    ///
    /// # Errors
    /// Where the file is there already or cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        Ok(Self(Mutex::new(Inner {
            file,
            ids: HashMap::new(),
            rows: HashMap::new(),
            published: HashSet::new(),
            leased: HashMap::new(),
        })))
    }

    /// Rows were read. Those that are under way already, or that this process has settled as
    /// published, are no news: looks overlap each other and the settlements.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(&self, rows: &[(i64, u128, Lane)]) -> io::Result<()> {
        self.with(|inner| {
            let mut news = Vec::new();
            for (seq, id, lane) in rows {
                if inner.published.contains(id) || inner.rows.contains_key(id) {
                    continue;
                }
                inner.ids.insert(*seq, *id);
                inner.rows.insert(*id, (*seq, Phase::Read, *lane));
                news.push((*seq, *id));
            }
            inner.write(Phase::Read, news.into_iter())
        })
    }

    /// One message enters a phase.
    ///
    /// # Errors
    /// Those of the file.
    pub fn enter(&self, phase: Phase, id: u128) -> io::Result<()> {
        self.with(|inner| inner.enter(phase, &[id]))
    }

    /// One message is handed to the broker.
    ///
    /// # Errors
    /// Those of the file.
    pub fn publish(&self, id: u128) -> io::Result<()> {
        self.with(|inner| {
            let lane = inner.rows.get(&id).map(|(_, _, lane)| *lane);
            let until = lane.and_then(|lane| inner.leased.get(&lane).copied());
            if until.is_some_and(|until| now() > until.saturating_add(GRACE)) {
                inner.write(Phase::Late, std::iter::once((0, id)))?;
            }
            inner.enter(Phase::Published, &[id])
        })
    }

    /// Rows enter a phase.
    ///
    /// # Errors
    /// Those of the file.
    pub fn rows_enter(&self, phase: Phase, seqs: impl Iterator<Item = i64>) -> io::Result<()> {
        self.with(|inner| {
            let ids: Vec<u128> = seqs.filter_map(|seq| inner.ids.get(&seq).copied()).collect();
            inner.enter(phase, &ids)
        })
    }

    /// Verdicts on rows are in the store.
    ///
    /// # Errors
    /// Those of the file.
    pub fn settled(&self, rows: impl Iterator<Item = (i64, Phase)>) -> io::Result<()> {
        self.with(|inner| {
            let mut over: HashMap<Phase, Vec<(i64, u128)>> = HashMap::new();
            for (seq, phase) in rows {
                let Some(id) = inner.ids.remove(&seq) else {
                    continue;
                };
                inner.rows.remove(&id);
                if phase == Phase::Settled {
                    inner.published.insert(id);
                }
                over.entry(phase).or_default().push((seq, id));
            }
            over.into_iter().try_for_each(|(phase, rows)| inner.write(phase, rows.into_iter()))
        })
    }

    /// The relay holds these lanes now, until this time: what it had only read of others is given
    /// up.
    ///
    /// # Errors
    /// Those of the file.
    pub fn hold(&self, lanes: &[Lane], until: u64) -> io::Result<()> {
        self.with(|inner| {
            inner.leased.extend(lanes.iter().map(|lane| (*lane, until)));
            let lost: Vec<(i64, u128)> = inner
                .rows
                .iter()
                .filter(|(_, (_, phase, lane))| *phase == Phase::Read && !lanes.contains(lane))
                .map(|(id, (seq, _, _))| (*seq, *id))
                .collect();
            for (_, id) in &lost {
                inner.rows.remove(id);
            }
            inner.write(Phase::Dropped, lost.into_iter())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn enter(&mut self, phase: Phase, ids: &[u128]) -> io::Result<()> {
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            let row = self.rows.get_mut(id).map(|(seq, now, _)| {
                *now = phase;
                *seq
            });
            rows.push((row.unwrap_or(0), *id));
        }
        self.write(phase, rows.into_iter())
    }

    /// One `write` for all of them: a kill leaves all or none.
    fn write(&mut self, phase: Phase, rows: impl Iterator<Item = (i64, u128)>) -> io::Result<()> {
        let at = now();
        let mut records = Vec::new();
        for (seq, id) in rows {
            Mark { seq, phase, at, id }.encode(&mut records);
        }
        if records.is_empty() {
            return Ok(());
        }
        self.file.write_all(&records)
    }
}
