//! The relay's side of the marks.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use sendoff_core::lane::Lane;

use super::{Mark, Phase, now};

/// Writes marks. Shared by the watched store and the watched publisher of one relay.
#[derive(Debug)]
pub struct Marks(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    /// Verdicts name rows by seq, publishes by id.
    ids: HashMap<i64, u128>,
    rows: HashMap<u128, (Phase, Lane)>,
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
        })))
    }

    /// Rows were read.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(&self, rows: &[(i64, u128, Lane)]) -> io::Result<()> {
        self.with(|inner| {
            for (seq, id, lane) in rows {
                inner.ids.insert(*seq, *id);
                inner.rows.insert(*id, (Phase::Read, *lane));
            }
            inner.write(Phase::Read, rows.iter().map(|(_, id, _)| *id))
        })
    }

    /// One message enters a phase.
    ///
    /// # Errors
    /// Those of the file.
    pub fn enter(&self, phase: Phase, id: u128) -> io::Result<()> {
        self.with(|inner| inner.enter(phase, &[id]))
    }

    /// Rows enter a phase.
    ///
    /// # Errors
    /// Those of the file.
    pub fn rows_enter(&self, phase: Phase, seqs: impl Iterator<Item = i64>) -> io::Result<()> {
        self.with(|inner| {
            let ids: Vec<u128> = seqs
                .filter_map(|seq| inner.ids.get(&seq).copied())
                .collect();
            inner.enter(phase, &ids)
        })
    }

    /// Verdicts on rows are in the store.
    ///
    /// # Errors
    /// Those of the file.
    pub fn settled(&self, seqs: impl Iterator<Item = i64>, fenced: usize) -> io::Result<()> {
        self.with(|inner| {
            let ids: Vec<u128> = seqs.filter_map(|seq| inner.ids.remove(&seq)).collect();
            for id in &ids {
                inner.rows.remove(id);
            }
            inner.write(Phase::Settled, ids.into_iter())?;
            inner.write(Phase::Fenced, std::iter::repeat_n(0, fenced))
        })
    }

    /// The relay holds these lanes now: what it had only read of others is given up.
    ///
    /// # Errors
    /// Those of the file.
    pub fn hold(&self, lanes: &[Lane]) -> io::Result<()> {
        self.with(|inner| {
            let lost: Vec<u128> = inner
                .rows
                .iter()
                .filter(|(_, (phase, lane))| *phase == Phase::Read && !lanes.contains(lane))
                .map(|(id, _)| *id)
                .collect();
            for id in &lost {
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
        for id in ids {
            if let Some((now, _)) = self.rows.get_mut(id) {
                *now = phase;
            }
        }
        self.write(phase, ids.iter().copied())
    }

    /// One `write` for all of them: a kill leaves all or none.
    fn write(&mut self, phase: Phase, ids: impl Iterator<Item = u128>) -> io::Result<()> {
        let at = now();
        let mut records = Vec::new();
        for id in ids {
            Mark { phase, at, id }.encode(&mut records);
        }
        if records.is_empty() {
            return Ok(());
        }
        self.file.write_all(&records)
    }
}
