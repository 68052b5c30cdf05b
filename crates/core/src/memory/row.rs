//! A row as the memory store keeps it: encoded as in a database, decoded at each look.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::lane::Lane;
use crate::message::{Headers, Limits, Message, StoredMessage};
use crate::store::{Content, Place, QuarantineReason};
use crate::time::Timestamp;

/// The columns of a plain INSERT, as a program in any other language writes them.
///
/// The store holds the limits on names, as a database's constraints do; headers and topic may be
/// anything, and a row that does not decode is found as such by the look.
#[derive(Clone, Default)]
pub struct PlainRow {
    /// The id, unique together with the source.
    pub id: String,
    /// The source.
    pub source: String,
    /// The topic.
    pub topic: String,
    /// The key.
    pub key: Option<String>,
    /// The headers, as JSON text.
    pub headers: String,
    /// The body.
    pub body: Bytes,
    /// When it is due. Kept in whole microseconds.
    pub due_at: Option<Timestamp>,
}

impl std::fmt::Debug for PlainRow {
    /// Names only: a body or a header's value does not belong in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainRow")
            .field("source", &self.source)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl PlainRow {
    pub(super) fn of(message: &Message) -> Self {
        Self {
            id: message.id().to_owned(),
            source: message.source().to_owned(),
            topic: message.topic().to_owned(),
            key: message.key().map(str::to_owned),
            headers: message.headers().to_json(),
            body: message.body().clone(),
            due_at: message.due_at(),
        }
    }

    /// What the CHECK constraints of the databases say.
    pub(super) fn check(&self) -> Result<()> {
        let names = [("id", &self.id), ("source", &self.source), ("topic", &self.topic)];
        for (what, name) in names {
            if name.is_empty() || name.len() > Limits::NAME_BYTES_MAX {
                return Err(refused(format!("the {what} has {} bytes", name.len())));
            }
        }
        match &self.key {
            Some(key) if key.len() > Limits::KEY_BYTES_MAX => {
                Err(refused(format!("the key has {} bytes", key.len())))
            }
            _ => Ok(()),
        }
    }
}

fn refused(detail: String) -> Error {
    Error::new(ErrorKind::Invalid, "writing a message").detail(detail)
}

/// A row of the outbox.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) lane: Lane,
    pub(super) plain: PlainRow,
    pub(super) created_at: Timestamp,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) attempts: u32,
    pub(super) last_error: Option<String>,
    pub(super) held: bool,
    /// Where it has failed: whether later rows of its key wait for it.
    pub(super) holds: bool,
    /// The mark of what it is parked for. Its retry time is then the end of time.
    pub(super) parked: Option<Arc<str>>,
    pub(super) quarantine: Option<Quarantine>,
}

/// Since when and why a row is set aside.
#[derive(Clone, Copy)]
pub(super) struct Quarantine {
    pub(super) at: Timestamp,
    pub(super) reason: QuarantineReason,
}

/// Which list a row stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// To be read in seq order.
    Ready,
    /// To be read from a time on.
    Waiting(Timestamp),
    /// Not to be read before it is let go.
    Held,
    /// Not to be read before it is brought back.
    Parked,
    /// Not to be read before it is requeued.
    Quarantined,
}

impl Stored {
    pub(super) fn key(&self) -> Option<&str> {
        self.plain.key.as_deref()
    }

    pub(super) fn spot(&self) -> Spot {
        if self.quarantine.is_some() {
            return Spot::Quarantined;
        }
        if self.held {
            return Spot::Held;
        }
        if self.parked.is_some() {
            return Spot::Parked;
        }
        match self.retry_at.or(self.plain.due_at) {
            Some(at) => Spot::Waiting(at),
            None => Spot::Ready,
        }
    }

    /// Whether later rows of its key wait for this one.
    pub(super) fn blocks(&self) -> bool {
        self.holds && (self.retry_at.is_some() || self.quarantine.is_some())
    }

    pub(super) fn place(&self, now: Timestamp) -> Place {
        match self.spot() {
            Spot::Quarantined => Place::Quarantined,
            Spot::Held => Place::Held,
            Spot::Parked => Place::Postponed,
            Spot::Waiting(_) if self.retry_at.is_some() => Place::Retrying,
            Spot::Waiting(at) if at > now => Place::DueLater,
            Spot::Waiting(_) | Spot::Ready => Place::Ready,
        }
    }

    /// Since when it is due, or when it will be.
    pub(super) fn due_since(&self) -> Timestamp {
        self.plain.due_at.map_or(self.created_at, |due_at| due_at.max(self.created_at))
    }

    pub(super) fn due_for(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.due_since())).unwrap_or(Duration::ZERO)
    }

    /// What it weighs against the byte bound of a look.
    pub(super) fn size_bytes(&self) -> usize {
        self.plain.body.len() + self.plain.headers.len()
    }

    pub(super) fn decode(&self) -> Content {
        let read = || -> Result<Message> {
            let plain = &self.plain;
            let headers = Headers::from_json(plain.headers.as_bytes())?;
            Message::restore(StoredMessage {
                id: &plain.id,
                source: &plain.source,
                topic: &plain.topic,
                key: plain.key.as_deref(),
                headers,
                body: plain.body.clone(),
                due_at: plain.due_at,
            })
        };
        match read() {
            Ok(message) => Content::Message(Arc::new(message)),
            Err(error) => Content::Undecodable(error.to_string()),
        }
    }
}
