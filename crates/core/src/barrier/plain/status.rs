//! How a barrier stands.

use std::time::Duration;

use super::{Header, Members, is_over};
use crate::barrier::name::BarrierId;
use crate::barrier::status::{BarrierState, Evidence, Status, Why};
use crate::error::Result;
use crate::time::Timestamp;

/// How many pending members are named where it is asked what a barrier waits for.
const WAITING_SHOWN: u32 = 20;
/// Over which time before the last acknowledgement the rate is taken.
const RATE_OVER: Duration = Duration::from_secs(60);

/// [`super::super::BarrierTransaction::barrier_status`].
///
/// # Errors
/// The driver's own error.
pub async fn status<M: Members>(m: &mut M, id: &BarrierId) -> Result<Option<Status>, M::Error> {
    let Some(header) = m.header(id).await? else { return Ok(None) };
    let now = m.now().await?;
    of_header(m, header, now).await.map(Some)
}

/// The header of a barrier that can be read: its week is not over.
///
/// # Errors
/// The driver's own error.
pub async fn readable<M: Members>(m: &mut M, id: &BarrierId) -> Result<Option<Header>, M::Error> {
    let Some(header) = m.header(id).await? else { return Ok(None) };
    let now = m.now().await?;
    Ok((!is_over(m, &header, now).await?).then_some(header))
}

async fn of_header<M: Members>(
    m: &mut M,
    header: Header,
    now: Timestamp,
) -> Result<Status, M::Error> {
    let over = is_over(m, &header, now).await?;
    let state = if over { BarrierState::Expired } else { header.state };
    let tallies = m.tallies(header.no).await?;
    let whole = tallies.whole();
    let resolved = whole.ok + whole.failed;
    let dispatched = match &header.continuation_id {
        Some(id) => Some(!m.stands(crate::barrier::Continuation::SOURCE, id).await?),
        None => None,
    };
    let state_value = m.state_value(header.no).await?;
    let waits = matches!(state, BarrierState::Open | BarrierState::Closing);
    Ok(Status {
        id: header.id.id().to_owned(),
        total: resolved + whole.pending + whole.missing,
        resolved,
        pending: whole.pending,
        failed: whole.failed,
        missing: whole.missing,
        complete: state.is_complete(),
        overdue: waits && header.deadline_at.is_some_and(|deadline| deadline <= now),
        dispatched,
        state,
        reason: header.reason,
        epoch: header.epoch,
        sealed: header.sealed,
        created_at: header.created_at,
        deadline_at: header.deadline_at,
        on_deadline: header.on_deadline,
        completed_at: header.completed_at,
        last_ack_at: tallies.last_ack_at,
        expires_at: header.expires_at,
        continue_with: header.continue_with,
        state_value,
        parent: header.parent,
        incarnation: header.incarnation,
    })
}

/// [`super::super::BarrierDesk::barrier_why`], with the evidence that the store keeps.
///
/// # Errors
/// The driver's own error.
pub async fn why<M: Members>(
    m: &mut M,
    id: &BarrierId,
    evidence: Vec<Evidence>,
) -> Result<Option<Why>, M::Error> {
    let Some(header) = m.header(id).await? else { return Ok(None) };
    let (no, now) = (header.no, m.now().await?);
    let status = of_header(m, header, now).await?;
    let waiting_for = m.names(no, true, None, WAITING_SHOWN).await?;
    let mut acks_per_s = None;
    if let Some(last) = status.last_ack_at {
        let since = last.checked_sub(RATE_OVER).unwrap_or(Timestamp::MIN).max(status.created_at);
        let seconds = last.duration_since(since).as_secs_f64();
        // One microsecond before, so that those of the very first moment count too.
        let after = since.checked_sub(Duration::from_micros(1)).unwrap_or(since);
        let count = m.resolved_since(no, after).await?;
        acks_per_s = (seconds > 0.0 && count > 0).then(|| whole(count) / seconds);
    }
    let waits = matches!(status.state, BarrierState::Open | BarrierState::Closing);
    let left = acks_per_s.filter(|_| waits).map(|rate| whole(status.pending) / rate);
    let estimated_at = left
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .and_then(|left| now.checked_add(left).ok());
    Ok(Some(Why { status, waiting_for, acks_per_s, estimated_at, evidence }))
}

fn whole(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
