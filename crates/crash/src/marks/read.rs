//! The harness's side of the marks: one log for each relay process.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::{Mark, Phase, RECORD_BYTES};

/// How many messages are in each of [`Phase::COUNTED`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts(pub [u64; 4]);

impl Counts {
    /// Whether there is something beyond the broker's door: published, confirmed or settling.
    #[must_use]
    pub fn any_sent(self) -> bool {
        self.0[1..].iter().any(|count| *count > 0)
    }

    /// Whether there is something in any phase.
    #[must_use]
    pub fn any(self) -> bool {
        self.0.iter().any(|count| *count > 0)
    }

    /// How many messages are in a phase.
    #[must_use]
    pub fn of(self, phase: Phase) -> u64 {
        Phase::COUNTED
            .iter()
            .zip(self.0)
            .find(|(counted, _)| **counted == phase)
            .map_or(0, |(_, count)| count)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (phase, count) in Phase::COUNTED.iter().zip(self.0) {
            write!(f, "{before}{} {count}", phase.as_str())?;
            before = ", ";
        }
        Ok(())
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }
}

/// The time in which one message was in flight in one process.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The message.
    pub id: u128,
    /// When it was handed to the broker.
    pub from: u64,
    /// When the process was done with it; never, where it was killed before.
    pub to: u64,
    /// Its publish ended without an answer.
    pub unknown: bool,
    /// Its verdict was fenced: the lease had lapsed while it was in flight.
    pub fenced: bool,
}

/// What one relay process did.
#[derive(Debug)]
pub struct Log {
    file: Option<File>,
    path: std::path::PathBuf,
    /// Read from the file, not applied.
    pending: VecDeque<Mark>,
    rest: Vec<u8>,
    now: HashMap<u128, (Phase, Option<Span>)>,
    done: Vec<Span>,
    fenced: u64,
    fenced_early: u64,
    late: u64,
}

impl Log {
    /// A log that the process at work may not have begun.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            file: None,
            path: path.to_owned(),
            pending: VecDeque::new(),
            rest: Vec::new(),
            now: HashMap::new(),
            done: Vec::new(),
            fenced: 0,
            fenced_early: 0,
            late: 0,
        }
    }

    /// Applies what was marked up to the time `until` and counts the messages in each phase.
    ///
    /// # Errors
    /// Those of the file.
    pub fn counts(&mut self, until: u64) -> io::Result<Counts> {
        self.fetch()?;
        while let Some(mark) = self.pending.front().copied().filter(|mark| mark.at <= until) {
            self.pending.pop_front();
            self.apply(mark);
        }
        let mut counts = Counts::default();
        for (phase, _) in self.now.values() {
            let at = match phase {
                Phase::Read => 0,
                Phase::Published | Phase::Unknown => 1,
                Phase::Confirmed => 2,
                Phase::Settling => 3,
                _ => continue,
            };
            counts.0[at] += 1;
        }
        Ok(counts)
    }

    /// How many messages are in [`Phase::Failing`], as far as [`Log::counts`] has read.
    #[must_use]
    pub fn failing(&self) -> usize {
        self.now.values().filter(|(phase, _)| *phase == Phase::Failing).count()
    }

    /// Every time in which a message was in flight so far; those that still are have no end.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let open = self.now.values().filter_map(|(_, span)| *span);
        self.done.iter().copied().chain(open)
    }

    /// How many verdicts were fenced.
    #[must_use]
    pub fn fenced(&self) -> u64 {
        self.fenced
    }

    /// How many of them were fenced before the lease was over.
    #[must_use]
    pub fn fenced_early(&self) -> u64 {
        self.fenced_early
    }

    /// How many publishes began after their lane's lease was over.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Forgets what is over, before the next stretch begins.
    pub fn forget(&mut self) {
        self.done.clear();
        self.fenced = 0;
        self.fenced_early = 0;
        self.late = 0;
    }

    fn fetch(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut self.rest)?;
        }
        let whole = self.rest.len() - self.rest.len() % RECORD_BYTES;
        let records = self.rest.drain(..whole).collect::<Vec<u8>>();
        self.pending.extend(records.chunks_exact(RECORD_BYTES).filter_map(Mark::decode));
        Ok(())
    }

    fn apply(&mut self, mark: Mark) {
        if mark.phase == Phase::Late {
            self.late += 1;
            return;
        }
        if matches!(mark.phase, Phase::Fenced | Phase::FencedEarly) {
            self.fenced += 1;
            self.fenced_early += u64::from(mark.phase == Phase::FencedEarly);
            if let Some((_, Some(span))) = self.now.get_mut(&mark.id) {
                span.fenced = true;
            }
            return;
        }
        let begun = self.now.remove(&mark.id).and_then(|(_, span)| span);
        let mut span = begun.unwrap_or(Span {
            id: mark.id,
            from: mark.at,
            to: u64::MAX,
            unknown: false,
            fenced: false,
        });
        span.unknown |= mark.phase == Phase::Unknown;
        let open = mark.phase.in_flight().then_some(span);
        if open.is_none() && begun.is_some() {
            self.done.push(Span { to: mark.at, ..span });
        }
        if !mark.phase.is_over() {
            self.now.insert(mark.id, (mark.phase, open));
        }
    }
}

/// Every mark of these messages in one file, in order.
///
/// # Errors
/// Those of the file.
pub fn history(path: &Path, of: impl Fn(u128) -> bool) -> io::Result<Vec<Mark>> {
    let records = std::fs::read(path)?;
    let marks = records.chunks_exact(RECORD_BYTES).filter_map(Mark::decode);
    Ok(marks.filter(|mark| of(mark.id)).collect())
}

#[cfg(test)]
mod tests {
    use super::{Counts, Log};
    use crate::marks::{Marks, Phase, now};
    use sendoff::lane::Lane;

    #[test]
    fn a_log_knows_what_was_in_flight_and_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        let marks = Marks::create(&path).unwrap();
        let mut log = Log::new(&path);
        let lane = Lane(1);
        marks.read(&[(1, 11, lane), (2, 12, lane), (3, 13, lane)]).unwrap();
        marks.enter(Phase::Published, 11).unwrap();
        marks.enter(Phase::Published, 12).unwrap();
        let before = now();
        marks.enter(Phase::Confirmed, 11).unwrap();
        marks.rows_enter(Phase::Settling, [1].into_iter()).unwrap();

        assert_eq!(log.counts(before).unwrap(), Counts([1, 2, 0, 0]));
        assert_eq!(log.counts(u64::MAX).unwrap(), Counts([1, 1, 0, 1]));

        marks.settled([(1, Phase::Settled)].into_iter()).unwrap();
        // An older look may still show what is settled.
        marks.read(&[(1, 11, lane), (2, 12, lane)]).unwrap();
        marks.hold(&[], u64::MAX).unwrap();
        assert_eq!(log.counts(u64::MAX).unwrap(), Counts([0, 1, 0, 0]));
        let mut spans: Vec<_> = log.spans().collect();
        spans.sort_by_key(|span| span.id);
        assert_eq!((spans[0].id, spans[1].id, spans.len()), (11, 12, 2));
        assert!(spans[0].from < before && spans[0].to > before && spans[0].to < u64::MAX);
        assert_eq!(spans[1].to, u64::MAX);
    }
}
