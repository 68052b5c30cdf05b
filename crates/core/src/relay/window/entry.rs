//! What the window knows of one row and of one key. The rules are the window's.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use crate::lane::Lane;
use crate::message::Message;
use crate::store::AgeFrom;

/// A row in memory.
#[derive(Debug)]
pub(in crate::relay) struct Entry {
    pub(in crate::relay) lane: Lane,
    pub(in crate::relay) epoch: i64,
    pub(in crate::relay) key: Option<Arc<str>>,
    /// Which of the relay's outlets it leaves through.
    pub(in crate::relay) outlet: usize,
    pub(in crate::relay) attempts: u32,
    pub(in crate::relay) blocker: bool,
    /// It came by its time, not by its seq: it stands in no floor's way.
    pub(in crate::relay) waiting: bool,
    /// Since when it is due, and how that is known.
    pub(in crate::relay) due: Option<(Instant, AgeFrom)>,
    pub(in crate::relay) message: Option<Arc<Message>>,
    pub(super) size: usize,
    pub(super) state: State,
    /// Which of the times that its seq was remembered this is: a queue may still name an earlier one.
    pub(super) turn: u64,
    /// Its verdict holds its key.
    pub(super) holds: bool,
    /// Publishes of it that ended with an unknown outcome.
    pub(in crate::relay) unknown: u32,
    /// Of these, connection losses at which it was alone in flight.
    pub(in crate::relay) alone_losses: u32,
}

impl Entry {
    /// Its verdict is on the way: the message is not needed any more. Answers what it weighed.
    pub(super) fn judge(&mut self) -> usize {
        self.state = State::Judged;
        self.message = None;
        self.unknown = 0;
        std::mem::take(&mut self.size)
    }
}

/// What the verdict on a confirmed message needs.
#[derive(Debug)]
pub(in crate::relay) struct Confirmed {
    pub(in crate::relay) lane: Lane,
    pub(in crate::relay) epoch: i64,
    pub(in crate::relay) key: Option<Arc<str>>,
    /// It was what its key's held rows wait for.
    pub(in crate::relay) releases: bool,
    /// The lanes of later rows that were forgotten.
    pub(in crate::relay) forgotten: Vec<Lane>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    InFlight,
    /// Its verdict is on the way to the store.
    Judged,
    /// Its verdict is in the store. Looks up to this number may still show the row as it was.
    Settled(u64),
}

/// A row to remember.
#[derive(Debug)]
pub(in crate::relay) struct Offer {
    /// The look that gave it, and how many had begun by now.
    pub(in crate::relay) look: u64,
    pub(in crate::relay) looks_begun: u64,
    pub(in crate::relay) seq: i64,
    pub(in crate::relay) lane: Lane,
    pub(in crate::relay) epoch: i64,
    pub(in crate::relay) key: Option<Arc<str>>,
    /// Which of the relay's outlets it leaves through.
    pub(in crate::relay) outlet: usize,
    pub(in crate::relay) attempts: u32,
    pub(in crate::relay) blocker: bool,
    pub(in crate::relay) waiting: bool,
    pub(in crate::relay) due: Option<(Instant, AgeFrom)>,
    /// `None` for a row that is judged at once (undecodable, blocked).
    pub(in crate::relay) message: Option<Arc<Message>>,
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Offered {
    /// Remembered.
    Taken,
    /// It was there already.
    Known,
    /// Its key has just failed: forgotten, to be read again once that is settled.
    Refused,
}

/// What is known of a key, or, where all rows stand in one line, of that line.
#[derive(Debug, Default)]
pub(super) struct Key {
    /// Which of its rows is in flight or first in line.
    pub(super) active: Option<i64>,
    /// The rows behind that one.
    pub(super) queue: VecDeque<i64>,
    /// Rows of it that hold the others and whose verdict is on the way.
    pub(super) holding: u32,
    /// Looks up to this number may show a later row as free and not an earlier one.
    pub(super) refuses_up_to: u64,
}

impl Key {
    /// Whether nothing of it has to be remembered.
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_none()
            && self.queue.is_empty()
            && self.holding == 0
            && self.refuses_up_to == 0
    }
}
