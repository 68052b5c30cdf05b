//! Errands: what the relay does instead of publishing.

use super::close::end;
use super::{Header, Members, ack, is_over};
use crate::barrier::answer::{Ack, AckBatch, MemberAnswer};
use crate::barrier::errand::{Errand, ErrandAct};
use crate::barrier::name::BarrierId;
use crate::barrier::plan::{OnDeadline, Probe};
use crate::barrier::refusal::RefusalCode;
use crate::barrier::status::{BarrierState, Reason};
use crate::error::Result;
use crate::time::Timestamp;

/// The channel of a barrier that acknowledges itself to the one of which it is a member.
const CHANNEL: &str = "barrier";

/// The probe to run before an errand's deadline closes its barrier, where there is one.
///
/// # Errors
/// The driver's own error.
pub async fn to_probe<M: Members>(
    m: &mut M,
    errand: &Errand,
) -> Result<Option<(BarrierId, Probe)>, M::Error> {
    if errand.act != ErrandAct::Deadline {
        return Ok(None);
    }
    let now = m.now().await?;
    let header = meant(m, errand, now).await?;
    let header = header.filter(|header| has_passed(header, now));
    Ok(header.and_then(|header| header.probe.map(|probe| (header.id, probe))))
}

/// [`super::super::BarrierDesk::run_errand`], all of it at once. Where the errand's acknowledgement was
/// refused it is given back, for the evidence.
///
/// # Errors
/// The driver's own error.
pub async fn run<M: Members>(
    m: &mut M,
    errand: &Errand,
) -> Result<Option<(AckBatch, Vec<MemberAnswer>)>, M::Error> {
    let now = m.now().await?;
    let Some(mut header) = meant(m, errand, now).await? else { return Ok(None) };
    match errand.act {
        ErrandAct::Deadline if has_passed(&header, now) => {
            m.give_up(header.no).await?;
            end(m, &mut header, Reason::Deadline, now).await?;
            Ok(None)
        }
        ErrandAct::Ascend => ascend(m, &header).await,
        // The failure itself closed the barrier.
        ErrandAct::FirstFailure | ErrandAct::Deadline => Ok(None),
    }
}

/// The barrier that an errand is about, if it is still the one and at that epoch.
async fn meant<M: Members>(
    m: &mut M,
    errand: &Errand,
    now: Timestamp,
) -> Result<Option<Header>, M::Error> {
    let id = errand.id().map_err(M::unexpected)?;
    let Some(header) = m.header(&id).await? else { return Ok(None) };
    let is_meant = header.incarnation == errand.incarnation && header.epoch == errand.epoch;
    Ok((is_meant && !is_over(m, &header, now).await?).then_some(header))
}

fn has_passed(header: &Header, now: Timestamp) -> bool {
    header.state == BarrierState::Open
        && header.on_deadline == OnDeadline::Continue
        && header.deadline_at.is_some_and(|deadline| deadline <= now)
}

async fn ascend<M: Members>(
    m: &mut M,
    header: &Header,
) -> Result<Option<(AckBatch, Vec<MemberAnswer>)>, M::Error> {
    let (Some(parent), Some(reason)) = (&header.parent, header.reason) else { return Ok(None) };
    let whole = m.tallies(header.no).await?.whole();
    let outcome = Errand::outcome(reason, whole.failed, whole.missing);
    let id = BarrierId::of_tenant(header.id.tenant(), parent.id.as_str());
    let batch = AckBatch::new(
        id.map_err(M::unexpected)?,
        vec![Ack { member: parent.member.clone(), outcome }],
    )
    .by(CHANNEL);
    match ack(m, &batch).await? {
        Ok(acked) => Ok(Some((batch, acked.answers))),
        Err(refusal) => {
            // Nobody waits for it any more.
            if refusal.code() != RefusalCode::NotFound {
                tracing::debug!(barrier = %header.id, parent = %batch.id, %refusal, "not taken");
            }
            Ok(None)
        }
    }
}
