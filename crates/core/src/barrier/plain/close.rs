//! How a barrier ends: what it wants is there, or something ends it before.

use super::{Header, Members, Tallies};
use crate::barrier::errand::{Continuation, Errand, ErrandAct};
use crate::barrier::name::BarrierId;
use crate::barrier::policy::Tally;
use crate::barrier::status::{BarrierState, Reason};
use crate::error::Result;
use crate::time::Timestamp;

/// What made it worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A member failed just now.
    Failure,
    /// The list was sealed just now: a failure may have come before.
    Seal,
    /// Anything else.
    Other,
}

/// Completes the barrier if it has what it wants. Answers whether it ended.
pub(super) async fn evaluate<M: Members>(
    m: &mut M,
    header: &mut Header,
    tallies: &Tallies,
    trigger: Trigger,
    now: Timestamp,
) -> Result<bool, M::Error> {
    if header.state != BarrierState::Open || !header.sealed {
        return Ok(false);
    }
    if let Some(reason) = reason(header, tallies, trigger) {
        if reason == Reason::FirstFailure {
            m.give_up(header.no).await?;
        }
        end(m, header, reason, now).await?;
        return Ok(true);
    }
    Ok(false)
}

fn reason(header: &Header, tallies: &Tallies, trigger: Trigger) -> Option<Reason> {
    let met = header.policy.quotas().all(|(group, quota)| {
        quota.met(tallies.groups.get(group).copied().map_or_else(Tally::default, Tally::from))
    });
    let whole = tallies.whole();
    let failed = match trigger {
        Trigger::Failure => true,
        Trigger::Seal => whole.failed > 0,
        Trigger::Other => false,
    };
    match (whole.pending, met) {
        (0, true) => Some(Reason::All),
        (0, false) => Some(Reason::Unmet),
        (_, true) => Some(Reason::Policy),
        (_, false) if failed && header.policy.first_failure_ends() => Some(Reason::FirstFailure),
        (_, false) => None,
    }
}

/// Ends it: the state, the continuation and the errand to the parent, in this transaction.
pub(super) async fn end<M: Members>(
    m: &mut M,
    header: &mut Header,
    reason: Reason,
    now: Timestamp,
) -> Result<(), M::Error> {
    header.state = match reason {
        Reason::Deadline => BarrierState::Deadline,
        Reason::Cancelled => BarrierState::Cancelled,
        _ => BarrierState::Complete,
    };
    header.reason = Some(reason);
    header.completed_at = Some(now);
    if let Some(topic) = &header.continue_with
        && header.state.is_complete()
    {
        let continuation = Continuation {
            tenant: header.id.tenant().to_owned(),
            barrier: header.id.id().to_owned(),
            epoch: header.epoch,
            reason: Some(reason),
        };
        let message = continuation.message(&header.incarnation, topic).map_err(M::unexpected)?;
        m.send(&message).await?;
        header.continuation_id = Some(message.id().to_owned());
    }
    if header.parent.is_some() {
        send_errand(m, header, ErrandAct::Ascend, None).await?;
    }
    m.update(header).await
}

/// Sends an errand of this barrier's.
pub(super) async fn send_errand<M: Members>(
    m: &mut M,
    header: &Header,
    act: ErrandAct,
    due_at: Option<Timestamp>,
) -> Result<(), M::Error> {
    let errand = Errand {
        tenant: header.id.tenant().to_owned(),
        barrier: header.id.id().to_owned(),
        incarnation: header.incarnation.clone(),
        epoch: header.epoch,
        act,
    };
    let message = errand.message(due_at).map_err(M::unexpected)?;
    m.send(&message).await
}

/// Looks after an open and sealed barrier that has nothing pending, which cannot be: something
/// changed its rows from outside. It is completed, and an alarm is raised. Answers whether it was.
///
/// # Errors
/// The driver's own error.
pub async fn mend<M: Members>(m: &mut M, id: &BarrierId) -> Result<bool, M::Error> {
    let now = m.now().await?;
    let Some(mut header) = m.header(id).await? else { return Ok(false) };
    // Of one whose week is over the members may be swept already.
    if now >= header.expires_at
        || header.state != BarrierState::Open
        || !header.sealed
        || m.any_pending(header.no).await?
    {
        return Ok(false);
    }
    // Members that are gone are missing: the counts say so from here on.
    m.give_up(header.no).await?;
    let tallies = m.tallies(header.no).await?;
    tracing::error!(
        barrier = %header.id,
        "an open barrier had nothing pending; it is completed now. Its rows were changed by something \
         other than this program"
    );
    evaluate(m, &mut header, &tallies, Trigger::Other, now).await
}
