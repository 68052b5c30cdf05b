//! Verdicts: what a relay writes.

use std::sync::Arc;
use std::time::Duration;

use crate::lane::Lane;

/// What became of one row.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The row.
    pub seq: i64,
    /// Its lane.
    pub lane: Lane,
    /// The epoch under which the relay holds the lane.
    pub epoch: i64,
    /// The row's key.
    pub key: Option<Arc<str>>,
    /// The verdict itself.
    pub outcome: Outcome,
}

/// The verdict itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The broker confirmed it: the row is deleted and counted. With `releases`, its key's held
    /// rows are let go, since it was what they waited for.
    Published {
        /// The row was a blocker.
        releases: bool,
    },
    /// Try again `after` this long, by the database's clock. With `holds`, which is kept with the row,
    /// the key's later rows are held until it is published. Without, the row holds nobody, also
    /// where it did before.
    Retry {
        /// How long to wait.
        after: Duration,
        /// What went wrong, as [`clean_error`] gives it.
        error: String,
        /// Whether this counts as an attempt of the message's own.
        counts: bool,
        /// Whether later rows are held.
        holds: bool,
    },
    /// Set aside, with the reason. With `holds`, which is kept with the row, the key's later rows are
    /// held until it is requeued and published, or discarded. Without, the row holds nobody, also
    /// where it did before.
    Quarantined {
        /// Why.
        reason: QuarantineReason,
        /// What went wrong, as [`clean_error`] gives it.
        error: String,
        /// Whether the key's later rows are held.
        holds: bool,
    },
    /// Parked: it may not leave now, and uses up nobody's attempts. It leaves the ready and the
    /// waiting rows until [`super::OutboxStore::tend`] brings it back, and is what its key's later
    /// rows wait for meanwhile; looks find those blocked.
    Parked {
        /// What for: the mark of a [`super::ParkedFor`].
        mark: Arc<str>,
    },
    /// Held behind an earlier row of its key, where that one is still a blocker when this is
    /// written; otherwise nothing changes and the row is found again.
    Held,
}

/// Why a message stands in quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineReason {
    /// The row does not decode.
    Undecodable,
    /// The publisher says that it can never take it.
    Permanent,
    /// It is larger than the publisher takes.
    TooLarge,
    /// Its attempts are used up, where a limit was asked for.
    Attempts,
    /// No route takes its topic.
    NoRoute,
}

impl QuarantineReason {
    /// The reason as stores keep it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Permanent => "permanent",
            Self::TooLarge => "too_large",
            Self::Attempts => "attempts",
            Self::NoRoute => "no_route",
        }
    }

    /// Reads the reason that a store kept; `None` where it is not one of ours.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Undecodable, Self::Permanent, Self::TooLarge, Self::Attempts, Self::NoRoute]
            .into_iter()
            .find(|reason| reason.as_str() == word)
    }
}

/// What a settlement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Rows that were deleted as published.
    pub published: u64,
    /// Seqs of verdicts that came under an epoch that is over. What was published of them is
    /// recorded all the same; the rest changed nothing.
    pub fenced: Vec<i64>,
    /// Held rows that were let go.
    pub released: u64,
}

/// The longest error text that is kept with a row, in characters.
pub const ERROR_CHARS_MAX: usize = 500;

/// An error's text as it may be stored and shown: one line, no NUL or other control character, no
/// credentials in addresses, at most [`ERROR_CHARS_MAX`] characters.
///
/// ```
/// use sendoff_core::store::clean_error;
/// assert_eq!(clean_error("no\0 route to nats://me:secret@host"), "no route to nats://***@host");
/// ```
#[must_use]
pub fn clean_error(text: &str) -> String {
    let spaced: String = text
        .chars()
        .filter_map(|c| match c {
            '\n' | '\r' | '\t' => Some(' '),
            c if c.is_control() => None,
            c => Some(c),
        })
        .collect();
    let mut clean = String::with_capacity(spaced.len());
    let mut rest = spaced.as_str();
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let authority_len =
            after.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(after.len());
        rest = after;
        if let Some(end) = after[..authority_len].rfind('@') {
            clean.push_str("***");
            rest = &after[end..];
        }
    }
    clean.push_str(rest);
    clean.chars().take(ERROR_CHARS_MAX).collect()
}
