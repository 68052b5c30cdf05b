//! The barrier: wait for a known set of acknowledgements, go on once.
//!
//! A barrier is a work list: a set of member names and one outcome for each. Whoever hears that a
//! member is done acknowledges it; the acknowledgement that resolves the last one sends the
//! continuation, an outbox message of the same transaction. Nothing waits and nothing polls.
//!
//! [`Barriers`] is the caller's side: create and acknowledge in the transaction that the caller
//! opened. [`BarrierDesk`] is the side of programs that have no transaction of their own: the
//! command line, HTTP, the relay's errands. What is here are the nouns, the rules that hold on every
//! store and the ports; the algorithms are the stores', since how two acknowledgements meet is a
//! matter of how a database locks.
//!
//! What does not belong here: SQL, a token, a route.

mod answer;
mod blocking;
mod errand;
mod facade;
mod json;
mod keys;
mod name;
mod near;
mod outcome;
pub mod plain;
mod plan;
mod policy;
mod port;
mod refusal;
mod result;
mod status;

pub use answer::{
    Ack, AckBatch, Acked, AckedBatch, Change, Changed, Created, Late, MemberAnswer, Winner,
};
pub use blocking::BlockingBarrierTransaction;
pub use errand::{Continuation, Errand, ErrandAct, continuation_id};
pub use facade::{Barriers, Failed};
pub use json::Json;
pub use keys::{KeyPages, KeyProbe, KeySource};
pub use name::{BarrierId, MemberName};
pub use near::near_forms;
pub use outcome::Outcome;
pub use plan::{Member, OnDeadline, Parent, Plan, PlanBuilder, Probe};
pub use policy::{Counting, Policy, Quota, Tally, Wanted};
pub use port::{BarrierDesk, BarrierTransaction, attend};
pub use refusal::{Refusal, RefusalCode};
pub use result::BarrierResult;
pub use status::{
    BarrierState, Evidence, EvidenceKind, MemberOutcome, Outcomes, Page, Reason, Status, Which, Why,
};

use std::time::Duration;

/// How long a barrier is kept from its creation on, complete or not.
pub const LIVES: Duration = Duration::from_secs(7 * 24 * 3600);
/// For how long before its end a barrier takes no acknowledgement, so that a row that is about to
/// go can never make a barrier look finished.
pub const LAST_ACK_BEFORE: Duration = Duration::from_secs(3600);
/// The most bytes of an outcome, as it is encoded.
pub const OUTCOME_BYTES_MAX: usize = 8_192;
/// The most bytes of the state that is handed to the continuation.
pub const STATE_BYTES_MAX: usize = 262_144;
/// The most members of one barrier.
pub const MEMBERS_MAX: usize = 1_000_000;
/// The most pieces of evidence that are kept of one barrier: near misses and late acknowledgements.
pub const EVIDENCE_MAX: usize = 100;

/// What an operation of a barrier answers: what it did, or why it was refused with nothing changed.
///
/// A refusal is not a database error: the caller's transaction stays as it was and can go on.
pub type Answer<T> = std::result::Result<T, Refusal>;
