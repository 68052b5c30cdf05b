//! How a barrier stands.

use serde::{Deserialize, Serialize};

use super::json::Json;
use super::name::{BarrierId, MemberName};
use super::outcome::Outcome;
use super::plan::{OnDeadline, Parent};
use crate::time::Timestamp;

/// What a barrier is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarrierState {
    /// It takes acknowledgements.
    Open,
    /// It takes none any more and waits for those that are on their way.
    Closing,
    /// Its policy is met, or its first failure ended it.
    Complete,
    /// Its deadline closed it.
    Deadline,
    /// It was cancelled.
    Cancelled,
    /// Its week is over.
    Expired,
}

impl BarrierState {
    /// The word that stores keep.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Complete => "complete",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The state for a stored word, where there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Open, Self::Closing, Self::Complete, Self::Deadline, Self::Cancelled, Self::Expired]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// Whether the continuation can read it.
    #[must_use]
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Complete | Self::Deadline)
    }
}

/// Why a barrier ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every member is resolved.
    All,
    /// Its policy is met, with members pending.
    Policy,
    /// Every member is resolved, and its policy is not met.
    Unmet,
    /// The first failed member ended it.
    FirstFailure,
    /// Its deadline.
    Deadline,
    /// It was cancelled.
    Cancelled,
}

impl Reason {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Policy => "policy",
            Self::Unmet => "unmet",
            Self::FirstFailure => "first_failure",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason for a stored word, where there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::All, Self::Policy, Self::Unmet, Self::FirstFailure, Self::Deadline, Self::Cancelled]
            .into_iter()
            .find(|reason| reason.as_str() == word)
    }
}

/// How a barrier stands. Times are the database's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The id.
    pub id: String,
    /// How many members it has.
    pub total: u64,
    /// How many are resolved, well or not.
    pub resolved: u64,
    /// How many are neither resolved nor given up.
    pub pending: u64,
    /// How many of the resolved failed.
    pub failed: u64,
    /// How many were given up when it was closed.
    pub missing: u64,
    /// The continuation may go on: it is complete, or its deadline closed it.
    pub complete: bool,
    /// It is not complete and its deadline has passed.
    pub overdue: bool,
    /// The continuation has left the outbox; `None` where there is none.
    pub dispatched: Option<bool>,
    /// What it is doing.
    pub state: BarrierState,
    /// Why it ended.
    pub reason: Option<Reason>,
    /// 1, and one more with each reopening.
    pub epoch: u32,
    /// The list is complete.
    pub sealed: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its deadline is.
    pub deadline_at: Option<Timestamp>,
    /// What happens then.
    pub on_deadline: OnDeadline,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// When the last acknowledgement came that counts.
    pub last_ack_at: Option<Timestamp>,
    /// When it goes.
    pub expires_at: Timestamp,
    /// The topic of its continuation.
    pub continue_with: Option<String>,
    /// What is handed to the continuation.
    #[serde(skip)]
    pub state_value: Option<Json>,
    /// The barrier of which it is a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Made at the creation, so that a later barrier of the same id is another one.
    #[serde(skip)]
    pub incarnation: String,
}

/// Which members' outcomes are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that are resolved.
    Resolved,
    /// Those that failed.
    Failed,
    /// Those that were given up when the barrier was closed.
    Missing,
    /// Those that are pending.
    Pending,
}

/// A page of outcomes, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Which barrier.
    pub id: BarrierId,
    /// Which members.
    pub which: Which,
    /// Those whose names come after this one; from the first on without it.
    pub after: Option<MemberName>,
    /// How many at most; stores give at most 1,000.
    pub limit: u32,
    /// Only this member, resolved or not: what the page says besides does not matter then.
    pub only: Option<MemberName>,
}

impl Page {
    /// The page that has one member, if the barrier has it.
    #[must_use]
    pub fn only(id: BarrierId, member: MemberName) -> Self {
        Self { id, which: Which::Resolved, after: None, limit: 1, only: Some(member) }
    }
}

/// A member with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberOutcome {
    /// The name.
    pub member: MemberName,
    /// Its outcome, where it has one.
    #[serde(flatten)]
    pub outcome: Option<Outcome>,
    /// When it was resolved.
    pub at: Option<Timestamp>,
    /// By which channel.
    pub channel: String,
}

/// A page's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// In the order of their names' bytes.
    pub members: Vec<MemberOutcome>,
    /// Where the next page begins, if there may be one.
    pub next_after: Option<MemberName>,
}

/// What a barrier waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// How it stands.
    #[serde(flatten)]
    pub status: Status,
    /// Pending members, the first ones.
    pub waiting_for: Vec<MemberName>,
    /// How many acknowledgements came in the last minute before the last one, for each second.
    pub acks_per_s: Option<f64>,
    /// When it would be done at that rate.
    pub estimated_at: Option<Timestamp>,
    /// Acknowledgements that were refused, the last ones.
    pub evidence: Vec<Evidence>,
}

/// An acknowledgement that was refused and may explain something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// When it came.
    pub at: Timestamp,
    /// Why it was refused.
    pub kind: EvidenceKind,
    /// The name that it named.
    pub member: MemberName,
    /// The members that it may have meant.
    pub near: Vec<MemberName>,
    /// Whether it said that it went well.
    pub ok: bool,
    /// By which channel.
    pub channel: String,
}

/// Why an acknowledgement is kept as evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// Its name is not on the list.
    Unknown,
    /// It came after the barrier was closed.
    Late,
}
