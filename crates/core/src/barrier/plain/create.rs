//! Creation.

use super::close::{Trigger, evaluate, send_errand};
use super::{Header, Members, is_over, last_ack, taken};
use crate::barrier::answer::Created;
use crate::barrier::errand::ErrandAct;
use crate::barrier::name::BarrierId;
use crate::barrier::plan::{OnDeadline, Parent, Plan};
use crate::barrier::refusal::{Refusal, RefusalCode};
use crate::barrier::status::BarrierState;
use crate::barrier::{Answer, LIVES};
use crate::error::Result;
use crate::time::Timestamp;

/// [`super::super::BarrierTransaction::create_barrier`].
///
/// # Errors
/// The driver's own error; then the store undoes what the call wrote.
pub async fn create<M: Members>(m: &mut M, plan: &Plan) -> Result<Answer<Created>, M::Error> {
    let now = m.now().await?;
    let digest = plan.digest();
    if let Some(there) = m.header(plan.id()).await?
        && !is_over(m, &there, now).await?
    {
        return Ok(existing(plan, &there, &digest));
    }
    let mut expires_at = later(now, LIVES);
    if let Some(parent) = plan.parent() {
        match parents_end(m, plan.id(), parent, now).await? {
            Ok(end) => expires_at = expires_at.min(end),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    let mut header = Header {
        no: 0,
        id: plan.id().clone(),
        incarnation: uuid::Uuid::now_v7().to_string(),
        epoch: 1,
        state: BarrierState::Open,
        reason: None,
        sealed: plan.is_sealed(),
        digest,
        continue_with: plan.continue_with().map(str::to_owned),
        policy: plan.policy().clone(),
        deadline_at: plan.deadline().map(|deadline| later(now, deadline)),
        on_deadline: plan.on_deadline(),
        parent: plan.parent().cloned(),
        probe: plan.probe().cloned(),
        created_at: now,
        completed_at: None,
        expires_at,
        continuation_id: None,
    };
    if header.deadline_at.is_some_and(|deadline| deadline > last_ack(&header)) {
        return Ok(Err(Refusal::new(
            RefusalCode::Invalid,
            format!(
                "the deadline lies behind the last acknowledgement, at {}: a barrier goes no later \
                 than the one of which it is a member",
                last_ack(&header)
            ),
        )));
    }
    header.no = m.insert(&header, plan.state()).await?;
    m.add(header.no, plan.members()).await?;
    let tallies = m.tallies(header.no).await?;
    let complete = evaluate(m, &mut header, &tallies, Trigger::Other, now).await?;
    if !complete && header.on_deadline == OnDeadline::Continue {
        send_errand(m, &header, ErrandAct::Deadline, header.deadline_at).await?;
    }
    Ok(Ok(Created { id: plan.id().id().to_owned(), existing: false, differs: false, complete }))
}

fn existing(plan: &Plan, there: &Header, digest: &str) -> Answer<Created> {
    let differs = there.digest != digest;
    if differs && plan.is_strict() {
        return Err(Refusal::new(
            RefusalCode::Conflict,
            format!("the barrier {} is there already, with other members", plan.id()),
        ));
    }
    let complete = there.state.is_complete();
    Ok(Created { id: plan.id().id().to_owned(), existing: true, differs, complete })
}

/// When the parent goes, if it waits for this member.
async fn parents_end<M: Members>(
    m: &mut M,
    child: &BarrierId,
    parent: &Parent,
    now: Timestamp,
) -> Result<Answer<Timestamp>, M::Error> {
    let refused = |code, detail: String| Ok(Err(Refusal::new(code, detail)));
    let id = match BarrierId::of_tenant(child.tenant(), parent.id.as_str()) {
        Ok(id) => id,
        Err(error) => return refused(RefusalCode::Invalid, error.to_string()),
    };
    let header = match taken(m, &id, now).await? {
        Ok(header) => header,
        Err(refusal) => {
            return refused(refusal.code(), format!("the parent: {}", refusal.detail()));
        }
    };
    if header.state != BarrierState::Open {
        return refused(RefusalCode::Conflict, format!("the parent {id} is not open any more"));
    }
    let found = m.find(header.no, std::slice::from_ref(&parent.member)).await?;
    match found.into_iter().next().flatten() {
        None => refused(
            RefusalCode::UnknownMember,
            format!("the parent {id} has no member {:?}", parent.member),
        ),
        Some(found) if found.resolved.is_some() || found.missing => refused(
            RefusalCode::Conflict,
            format!("the member {:?} of the parent {id} is not pending", parent.member),
        ),
        Some(_) => Ok(Ok(header.expires_at)),
    }
}

pub(super) fn later(time: Timestamp, by: std::time::Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
