//! Marks: what a relay process was doing with each message, readable after it was killed.
//!
//! A relay under test appends a fixed-size record to a file in memory whenever a message enters a
//! phase. A record is one `write`, so that it is there after a SIGKILL; it is written *before* the
//! step that it announces, so that a message is never further than its marks say. [`Marks`] writes,
//! [`Log`] reads. What does not belong here: judging, which is [`crate::ledger`]'s.

mod read;
mod write;

pub use read::{Counts, Log, Span, history};
pub use write::Marks;

/// What a message went through in one relay process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Read from the store, not handed to the broker.
    Read = 1,
    /// Handed to the broker, not confirmed.
    Published = 2,
    /// Confirmed by the broker, not being settled.
    Confirmed = 3,
    /// Being settled as published.
    Settling = 4,
    /// The publish ended without an answer: timed out or connection lost.
    Unknown = 5,
    /// The broker (or the harness in its place) refused it; nothing is under way.
    Refused = 6,
    /// It is settled as published: nothing is under way in this process.
    Settled = 7,
    /// Read and given up again, since its lane went to another relay.
    Dropped = 8,
    /// A verdict on it came under an epoch that was over: its lane had another owner by then.
    Fenced = 9,
    /// The same, though the lease, counted from before it was asked for, was not over.
    FencedEarly = 10,
    /// It is settled as to be tried again.
    Retried = 11,
    /// It is settled as quarantined.
    Quarantined = 12,
    /// It is settled as held behind its key.
    Held = 13,
    /// It is about to be handed to the broker though its lane's lease is over.
    Late = 14,
    /// It failed and will fail again for a while; the verdict that says so is not in the store.
    Failing = 15,
}

impl Phase {
    /// The phases that kills are counted in, in order.
    pub const COUNTED: [Self; 4] = [Self::Read, Self::Published, Self::Confirmed, Self::Settling];

    /// The phase's name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Published => "published",
            Self::Confirmed => "confirmed",
            Self::Settling => "settling",
            Self::Unknown => "unknown",
            Self::Refused => "refused",
            Self::Settled => "settled",
            Self::Dropped => "dropped",
            Self::Fenced => "fenced",
            Self::FencedEarly => "fenced before its lease was over",
            Self::Retried => "to be tried again",
            Self::Quarantined => "quarantined",
            Self::Held => "held",
            Self::Late => "late",
            Self::Failing => "failing",
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Read,
            Self::Published,
            Self::Confirmed,
            Self::Settling,
            Self::Unknown,
            Self::Refused,
            Self::Settled,
            Self::Dropped,
            Self::Fenced,
            Self::FencedEarly,
            Self::Retried,
            Self::Quarantined,
            Self::Held,
            Self::Late,
            Self::Failing,
        ]
        .into_iter()
        .find(|phase| *phase as u8 == byte)
    }

    /// Whether this process is done with it, until it reads it again.
    fn is_over(self) -> bool {
        matches!(
            self,
            Self::Settled | Self::Dropped | Self::Retried | Self::Quarantined | Self::Held
        )
    }

    /// Whether a second delivery is possible when the process dies now.
    fn in_flight(self) -> bool {
        matches!(self, Self::Published | Self::Confirmed | Self::Settling | Self::Unknown)
    }
}

/// One record: what, when (nanoseconds since the machine started), which message in which row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The row.
    pub seq: i64,
    /// What it enters.
    pub phase: Phase,
    /// When, in nanoseconds since the machine started.
    pub at: u64,
    /// The message's id, a UUID.
    pub id: u128,
}

/// Bytes of a record: phase, 7 of padding, time, id, seq.
const RECORD_BYTES: usize = 40;

impl Mark {
    fn encode(self, to: &mut Vec<u8>) {
        to.extend([self.phase as u8, 0, 0, 0, 0, 0, 0, 0]);
        to.extend(self.at.to_le_bytes());
        to.extend(self.id.to_le_bytes());
        to.extend(self.seq.to_le_bytes());
    }

    fn decode(record: &[u8]) -> Option<Self> {
        Some(Self {
            phase: Phase::from_byte(*record.first()?)?,
            at: u64::from_le_bytes(record.get(8..16)?.try_into().ok()?),
            id: u128::from_le_bytes(record.get(16..32)?.try_into().ok()?),
            seq: i64::from_le_bytes(record.get(32..40)?.try_into().ok()?),
        })
    }
}

/// Nanoseconds since the machine started: the same clock in every process.
#[must_use]
pub fn now() -> u64 {
    let since_boot = sendoff::time::Clock::system().since_boot();
    u64::try_from(since_boot.as_nanos()).unwrap_or(u64::MAX)
}
