//! Pauses: what an operator has stopped from leaving, and what a relay sets aside meanwhile.
//!
//! A row that may not leave now is **parked**: it stands neither among the ready rows nor among the
//! waiting ones, under a mark that says what for ([`ParkedFor`]). It is what its key's later rows wait
//! for. [`super::OutboxStore::tend`] brings it back.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::message::{Limits, TopicPattern};
use crate::store::RelayId;
use crate::time::Timestamp;

/// The longest reason of a pause, in characters. What is longer is cut.
pub const PAUSE_REASON_CHARS_MAX: usize = 500;

/// What is paused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PauseScope {
    /// Messages that a route gives to this target.
    Target(String),
    /// Messages whose topic is one of the pattern's.
    Topic(TopicPattern),
    /// Messages of this key, whatever their topic.
    Key(String),
}

impl PauseScope {
    /// A target, by its name in the routes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a name that is empty or longer than 255 bytes.
    pub fn target(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if name.is_empty() || name.len() > Limits::NAME_BYTES_MAX || name.contains('\0') {
            return Err(refused("a target's name has 1 to 255 bytes and no NUL"));
        }
        Ok(Self::Target(name))
    }

    /// A key. The empty key is a key.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a key that is longer than a key may be.
    pub fn key(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.len() > Limits::KEY_BYTES_MAX || key.contains('\0') {
            return Err(refused("a key has at most 1,024 bytes and no NUL"));
        }
        Ok(Self::Key(key))
    }

    /// The kind as stores keep it: `target`, `topic` or `key`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Target(_) => "target",
            Self::Topic(_) => "topic",
            Self::Key(_) => "key",
        }
    }

    /// What of that kind: the name, the pattern or the key.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Target(name) | Self::Key(name) => name,
            Self::Topic(pattern) => pattern.as_str(),
        }
    }

    /// Reads what a store kept; `None` where this program does not know it.
    #[must_use]
    pub fn parse(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "target" => Self::target(name).ok(),
            "topic" => name.parse().ok().map(Self::Topic),
            "key" => Self::key(name).ok(),
            _ => None,
        }
    }
}

fn refused(what: &str) -> Error {
    Error::invalid("reading what to pause", what)
}

impl fmt::Display for PauseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// What is paused.
    pub scope: PauseScope,
    /// Why, in the operator's words; empty where none were given.
    pub reason: String,
    /// Since when, by the database's clock.
    pub paused_at: Timestamp,
}

/// A pause, and what waits for its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PauseStanding {
    /// `target`, `topic` or `key`.
    pub kind: &'static str,
    /// What of that kind.
    pub name: String,
    /// Why; empty where no reason was given.
    pub reason: String,
    /// Since when, by the database's clock.
    pub paused_at: Timestamp,
    /// Messages that a relay has parked for it.
    pub parked: u64,
    /// Messages that are held behind these, since they have the same key.
    pub held: u64,
}

impl PauseStanding {
    /// A pause with its counts.
    #[must_use]
    pub fn new(pause: Pause, parked: u64, held: u64) -> Self {
        let Pause { scope, reason, paused_at } = pause;
        let (kind, name) = (scope.kind(), scope.name().to_owned());
        Self { kind, name, reason, paused_at, parked, held }
    }
}

/// The operator's side of pauses: what `sendoff pause`, `resume` and `pauses` do.
#[async_trait]
pub trait PauseDesk: fmt::Debug + Send + Sync + 'static {
    /// Pauses. Every relay of the store parks what has not left yet, from its next
    /// [`super::OutboxStore::tend`] on. Answers whether it was not paused before; then the reason is
    /// the new one and the time stays.
    ///
    /// # Errors
    /// Those of the database.
    async fn pause(&self, scope: &PauseScope, reason: &str) -> Result<bool>;

    /// Resumes one, or all. Relays bring the parked messages back, in order. Answers how many
    /// pauses ended.
    ///
    /// # Errors
    /// Those of the database.
    async fn resume(&self, scope: Option<&PauseScope>) -> Result<u64>;

    /// The pauses, oldest first, with what waits for each. Counts every row that is parked.
    ///
    /// # Errors
    /// Those of the database.
    async fn pauses(&self) -> Result<Vec<PauseStanding>>;
}

/// What a row is parked for, as a mark in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ParkedFor {
    /// The end of a pause.
    Pause(PauseScope),
    /// A target that takes nothing now, or takes it so slowly that its share of the window is full.
    Target(String),
}

impl ParkedFor {
    /// The mark as stores keep it: `pause:topic:orders.>`, `target:mail`.
    #[must_use]
    pub fn mark(&self) -> String {
        match self {
            Self::Pause(scope) => {
                format!("pause:{}:{}", scope.kind(), scope.name())
            }
            Self::Target(name) => format!("target:{name}"),
        }
    }
}

/// What a relay asks of [`super::OutboxStore::tend`].
#[derive(Debug, Clone)]
pub struct Tend {
    /// Who asks: only rows in lanes that it holds are brought back.
    pub relay: RelayId,
    /// Its targets.
    pub targets: Vec<TargetRoom>,
    /// How many rows of any other mark are brought back at most.
    pub rows_max: usize,
}

/// How many messages a target has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRoom {
    /// The mark of what is parked for the target.
    pub mark: String,
    /// How many of them are brought back at most; none where the target takes none.
    pub rows_max: usize,
}

/// What tending gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tended {
    /// Every pause of the store.
    pub pauses: Vec<Pause>,
    /// Rows that were brought back: they are tried at once, in seq order.
    pub recalled: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_was_kept() {
        for scope in [
            PauseScope::target("mail").unwrap(),
            PauseScope::Topic("orders.>".parse().unwrap()),
            PauseScope::key("").unwrap(),
            PauseScope::key("a:b").unwrap(),
        ] {
            assert_eq!(PauseScope::parse(scope.kind(), scope.name()), Some(scope));
        }
        assert_eq!(PauseScope::parse("tenant", "a"), None);
        assert!(PauseScope::target("").is_err());
        assert!(PauseScope::key("x".repeat(1025)).is_err());
    }

    #[test]
    fn marks_of_pauses_and_of_targets_are_never_the_same() {
        let pause = ParkedFor::Pause(PauseScope::target("mail").unwrap()).mark();
        let target = ParkedFor::Target("mail".to_owned()).mark();
        assert_eq!((pause.as_str(), target.as_str()), ("pause:target:mail", "target:mail"));
    }
}
