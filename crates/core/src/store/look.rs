//! Looks: what a relay reads.

use std::sync::Arc;
use std::time::Duration;

use crate::lane::Lane;
use crate::message::Message;

/// What to read. One look is one round trip.
///
/// [`Reading::Lanes`] is what follows; [`Reading::Line`] is said at its name.
///
/// Two kinds of rows are given. **Ready** rows have neither due time nor retry time, are not held
/// and not quarantined; they come per lane in seq order, above the lane's `after`. **Waiting** rows
/// have a due or retry time that has come; they are given whatever their seq, in the order of that
/// time, then seq. Rows whose seq is in `known` are left out of both.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// In which order.
    pub reading: Reading,
    /// Where to read.
    pub lanes: Vec<LaneLook>,
    /// Whether to read ready rows.
    pub ready: bool,
    /// Whether to read waiting rows whose time has come.
    pub waiting: bool,
    /// It may walk far and take long: the store runs it beside the others, so that none waits for
    /// it.
    pub background: bool,
    /// Seqs that the relay has already.
    pub known: Vec<i64>,
    /// At most this many rows of each kind.
    pub rows_max: usize,
    /// At most this many ready rows of one lane.
    pub lane_rows_max: usize,
    /// At most this many bytes of bodies and headers. Sizes are read before bodies. The first row
    /// is given whatever it weighs, so that no row is too big to leave.
    pub bytes_max: usize,
}

/// In which order a look reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// Lane by lane, ready rows and waiting ones apart.
    #[default]
    Lanes,
    /// One line of all rows, in the order of their seqs, for the owner of every lane: ready rows, and
    /// waiting ones whose time has come. Whatever the bounds, what is given is the beginning of the
    /// line, but for known rows, and a row that is blocked stands in it as such.
    ///
    /// Nothing behind a row that has failed and holds is given, nor that row before its retry time
    /// has come. While there is one, no horizon is given: the floors stay where they are.
    Line,
}

/// Where to read ready rows of one lane.
#[derive(Debug, Clone, Copy)]
pub struct LaneLook {
    /// The lane.
    pub lane: Lane,
    /// Rows with a seq above this one.
    pub after: i64,
}

/// What was there.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// The rows: ready ones first, then waiting ones.
    pub rows: Vec<Row>,
    /// Ready rows were left out by a bound: there is more to read now.
    pub truncated: bool,
    /// For moving floors, where ready rows were read.
    pub horizon: Option<Horizon>,
    /// When the next waiting row falls due, where waiting rows were read and one is there that was
    /// not given. Zero where a bound left out rows whose time has come.
    pub next_due_in: Option<Duration>,
}

/// What a look could and could not see of transactions that overlap it.
///
/// A seq at or below `seq` may still belong to a transaction that was running. Every such
/// transaction that had its xid is over once a later look's `oldest` has reached this one's `next`.
/// Stores with one writer give equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The last seq that had been given out before the look's snapshot was taken.
    pub seq: i64,
    /// The oldest transaction that was running at the snapshot.
    pub oldest: u64,
    /// The first transaction that had not begun at the snapshot.
    pub next: u64,
}

/// A row of the outbox.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its position, larger for later sends.
    pub seq: i64,
    /// Its lane.
    pub lane: Lane,
    /// Its key.
    pub key: Option<Arc<str>>,
    /// How often its own publish has failed.
    pub attempts: u32,
    /// It failed before and holds, so it is what its key's followers wait for.
    pub blocker: bool,
    /// It has a due or a retry time: it is found by that, wherever the floor is.
    pub waiting: bool,
    /// How old it was when it was read, by the database's clock.
    pub age: Age,
    /// What it says.
    pub content: Content,
}

/// How long a row had been due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// So long.
    pub so_far: Duration,
    /// Since when.
    pub from: AgeFrom,
}

/// Since when an age counts. Of a row with a due time it counts from that, where that is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeFrom {
    /// From the insert: what its transaction did after it counts too.
    Creation,
    /// From the commit of the transaction that wrote the row last, which is its sender's unless the
    /// row was held in between.
    Commit,
}

/// What a row says.
#[derive(Debug, Clone)]
pub enum Content {
    /// A message.
    Message(Arc<Message>),
    /// It does not decode, for this reason. The reason quotes no value.
    Undecodable(String),
    /// Not read: an earlier row of its key is retrying or in quarantine and holds, so it has to be
    /// held.
    ///
    /// A ready row is blocked by a blocker with a lower seq, a row that falls due by any blocker of
    /// its key, a retrying row by a blocker with a lower seq.
    Blocked,
}

impl Content {
    /// What the content weighs in memory, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.size_bytes(),
            Self::Undecodable(_) | Self::Blocked => 0,
        }
    }
}
