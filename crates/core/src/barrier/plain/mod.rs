//! The algorithm of a store with one writer at a time.
//!
//! Where acknowledgements of one barrier cannot overlap, "is anything pending?" asked in the
//! acknowledgement's own transaction is answered rightly, so the one that resolves the last member
//! knows it. Everything is one transaction: the outcome, the completion, the continuation, and also
//! what a deadline or a first failure closes. (Where two transactions can both be under way, each
//! sees the other's member pending and the question is answered wrongly; such a store needs another
//! algorithm.)
//!
//! It is written over what it asks of a store, [`Headers`] and [`Members`]: rows and facts, no
//! decision. The futures of a store that blocks are ready at once.
//!
//! What does not belong here: SQL, locks, how a transaction begins and ends. A store makes each of
//! these calls all or nothing.

mod ack;
mod change;
mod close;
mod create;
mod errand;
mod evidence;
mod near;
mod status;

use std::collections::BTreeMap;

pub use ack::{ack, ack_found};
pub use change::change;
pub use close::mend;
pub use create::create;
pub use errand::{run, to_probe};
pub use evidence::evidence;
pub use status::{readable, status, why};

use super::json::Json;
use super::name::{BarrierId, MemberName};
use super::outcome::Outcome;
use super::plan::{Member, OnDeadline, Parent, Probe};
use super::policy::{Policy, Tally};
use super::refusal::{Refusal, RefusalCode};
use super::status::{BarrierState, Reason};
use super::{Answer, LAST_ACK_BEFORE};
use crate::error::{Error, Result};
use crate::message::Message;
use crate::time::Timestamp;

/// A barrier's header, as a store keeps it. The state for the continuation stands beside it, since it
/// may be large and no acknowledgement reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The store's own short number of this incarnation; 0 before it is inserted.
    pub no: i64,
    /// Which barrier.
    pub id: BarrierId,
    /// Made at the creation.
    pub incarnation: String,
    /// 1, and one more with each reopening.
    pub epoch: u32,
    /// What it is doing; [`BarrierState::Expired`] is computed and never kept.
    pub state: BarrierState,
    /// Why it ended.
    pub reason: Option<Reason>,
    /// The list is complete.
    pub sealed: bool,
    /// [`super::Plan::digest`] of the members it was created with.
    pub digest: String,
    /// The topic of its continuation.
    pub continue_with: Option<String>,
    /// When it is complete.
    pub policy: Policy,
    /// When its deadline is.
    pub deadline_at: Option<Timestamp>,
    /// What happens then.
    pub on_deadline: OnDeadline,
    /// The barrier of which it is a member.
    pub parent: Option<Parent>,
    /// Where lost acknowledgements can be found.
    pub probe: Option<Probe>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// When it goes.
    pub expires_at: Timestamp,
    /// The id of its continuation, once that was sent.
    pub continuation_id: Option<String>,
}

/// How a barrier's groups stand. The store keeps these counts in the transaction that changes the
/// members; with one writer that costs one row and no waiting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tallies {
    /// By group; groups without a member may be left out.
    pub groups: BTreeMap<String, GroupTally>,
    /// When the last acknowledgement came that counts.
    pub last_ack_at: Option<Timestamp>,
}

/// How a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupTally {
    /// Neither resolved nor given up.
    pub pending: u64,
    /// Went well.
    pub ok: u64,
    /// Failed.
    pub failed: u64,
    /// Given up when the barrier was closed.
    pub missing: u64,
}

impl Tallies {
    /// All groups together.
    #[must_use]
    pub fn whole(&self) -> GroupTally {
        self.groups.values().fold(GroupTally::default(), |sum, group| GroupTally {
            pending: sum.pending + group.pending,
            ok: sum.ok + group.ok,
            failed: sum.failed + group.failed,
            missing: sum.missing + group.missing,
        })
    }
}

impl From<GroupTally> for Tally {
    fn from(group: GroupTally) -> Self {
        Self { pending: group.pending, ok: group.ok, failed: group.failed + group.missing }
    }
}

/// A member as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its outcome, when it came and by which channel; `None` while it has none.
    pub resolved: Option<(Outcome, Timestamp, String)>,
    /// It was given up when the barrier was closed.
    pub missing: bool,
}

/// An outcome for a member.
#[derive(Debug, Clone, Copy)]
pub struct Resolution<'a> {
    /// Whose.
    pub member: &'a MemberName,
    /// Whether it went well.
    pub ok: bool,
    /// The outcome as [`Outcome::encode`] gives it.
    pub encoded: &'a str,
}

/// What the algorithm asks of a store's transaction: the clock, headers, and the outbox.
#[expect(
    async_fn_in_trait,
    reason = "a store that blocks has futures that cannot be sent, and needs not"
)]
pub trait Headers {
    /// The driver's error.
    type Error;

    /// The database's time.
    async fn now(&mut self) -> Result<Timestamp, Self::Error>;

    /// The header of the barrier that has this id; of several incarnations the last one.
    async fn header(&mut self, id: &BarrierId) -> Result<Option<Header>, Self::Error>;

    /// Writes a new header and gives its number. The one that has the id, if any, has expired and
    /// gives it up.
    async fn insert(&mut self, header: &Header, state: Option<&Json>) -> Result<i64, Self::Error>;

    /// Writes what can change of a header: epoch, state, reason, sealed, deadline, completion, end and
    /// continuation.
    async fn update(&mut self, header: &Header) -> Result<(), Self::Error>;

    /// What is handed to the continuation.
    async fn state_value(&mut self, no: i64) -> Result<Option<Json>, Self::Error>;

    /// Writes a message into the outbox.
    async fn send(&mut self, message: &Message) -> Result<(), Self::Error>;

    /// Whether a message stands in the outbox: unpublished, held or in quarantine.
    async fn stands(&mut self, source: &str, id: &str) -> Result<bool, Self::Error>;

    /// The driver's error for one that is not the driver's.
    fn unexpected(error: Error) -> Self::Error;
}

/// What the algorithm asks of a store's transaction: members. Each call that changes some keeps the
/// [`Tallies`] right.
#[expect(async_fn_in_trait, reason = "as for the headers")]
pub trait Members: Headers {
    /// How the groups stand.
    async fn tallies(&mut self, no: i64) -> Result<Tallies, Self::Error>;

    /// Adds members that are not there yet; gives how many.
    async fn add(&mut self, no: i64, members: &[Member]) -> Result<u64, Self::Error>;

    /// Looks members up; the answers are in the order of the names.
    async fn find(
        &mut self,
        no: i64,
        names: &[MemberName],
    ) -> Result<Vec<Option<Found>>, Self::Error>;

    /// Resolves those that are pending; says for each whether it was. No name stands twice.
    async fn resolve(
        &mut self,
        no: i64,
        resolutions: &[Resolution<'_>],
        at: Timestamp,
        channel: &str,
    ) -> Result<Vec<bool>, Self::Error>;

    /// Gives up all that are pending; gives how many.
    async fn give_up(&mut self, no: i64) -> Result<u64, Self::Error>;

    /// Makes failed and missing members pending again, these or all; gives how many.
    async fn reopen(&mut self, no: i64, names: Option<&[MemberName]>) -> Result<u64, Self::Error>;

    /// Whether a member is pending, by a look at the members.
    async fn any_pending(&mut self, no: i64) -> Result<bool, Self::Error>;

    /// Names in order, after `after`, at most `limit`; of the pending ones only where that is asked.
    async fn names(
        &mut self,
        no: i64,
        pending: bool,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Vec<MemberName>, Self::Error>;

    /// How many members were resolved after `after`. May look at every member.
    async fn resolved_since(&mut self, no: i64, after: Timestamp) -> Result<u64, Self::Error>;
}

/// Whether its week is over. It is not while its continuation still stands in the outbox: what the
/// message is about must be there when it arrives.
async fn is_over<M: Headers>(m: &mut M, header: &Header, now: Timestamp) -> Result<bool, M::Error> {
    if now < header.expires_at {
        return Ok(false);
    }
    match &header.continuation_id {
        Some(id) => Ok(!m.stands(super::Continuation::SOURCE, id).await?),
        None => Ok(true),
    }
}

/// The last time at which acknowledgements are taken.
fn last_ack(header: &Header) -> Timestamp {
    header.expires_at.checked_sub(LAST_ACK_BEFORE).unwrap_or(Timestamp::MIN)
}

/// The header of a barrier that is neither unknown, nor within an hour of its end, nor cancelled.
async fn taken<M: Headers>(
    m: &mut M,
    id: &BarrierId,
    now: Timestamp,
) -> Result<Answer<Header>, M::Error> {
    let Some(header) = m.header(id).await? else {
        return Ok(Err(Refusal::not_found(id)));
    };
    Ok(if now >= last_ack(&header) {
        Err(Refusal::new(RefusalCode::Expired, "barrier expired"))
    } else if header.state == BarrierState::Cancelled {
        let at = header.completed_at.map_or_else(String::new, |at| format!(" at {at}"));
        Err(Refusal::new(RefusalCode::Cancelled, format!("the barrier {id} was cancelled{at}")))
    } else {
        Ok(header)
    })
}
