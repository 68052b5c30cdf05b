//! Changes to a barrier that is there.

use std::collections::BTreeSet;

use super::close::{Trigger, end, evaluate, send_errand};
use super::create::later;
use super::near::{Unknown, refusals};
use super::{Header, Members, Resolution, taken};
use crate::barrier::answer::{Change, Changed};
use crate::barrier::errand::ErrandAct;
use crate::barrier::name::{BarrierId, MemberName};
use crate::barrier::outcome::Outcome;
use crate::barrier::plan::{Member, OnDeadline};
use crate::barrier::refusal::{Refusal, RefusalCode};
use crate::barrier::status::{BarrierState, Reason};
use crate::barrier::{Answer, LIVES, MEMBERS_MAX};
use crate::error::Result;
use crate::time::Timestamp;

/// The error, and the channel, of a member that was excluded.
const EXCLUDED: &str = "excluded";

/// [`super::super::BarrierTransaction::change_barrier`].
///
/// # Errors
/// The driver's own error; then the store undoes what the call wrote.
pub async fn change<M: Members>(
    m: &mut M,
    id: &BarrierId,
    change: &Change,
) -> Result<Answer<Changed>, M::Error> {
    let now = m.now().await?;
    let mut header = match taken(m, id, now).await? {
        Ok(header) => header,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let done = match change {
        Change::Grow(members) => grow(m, &header, members).await?,
        Change::Seal => seal(m, &mut header, now).await?,
        Change::Cancel => cancel(m, &mut header, now).await?,
        Change::Reopen(names) => reopen(m, &mut header, names, now).await?,
        Change::Exclude(name) => exclude(m, &mut header, name, now).await?,
    };
    Ok(done.map(|members| Changed {
        id: id.id().to_owned(),
        members,
        complete: header.state.is_complete(),
        epoch: header.epoch,
    }))
}

fn conflict<T>(detail: impl Into<String>) -> Answer<T> {
    Err(Refusal::new(RefusalCode::Conflict, detail))
}

fn closed(header: &Header) -> String {
    format!("the barrier {} is {} and takes no change", header.id, header.state.as_str())
}

async fn grow<M: Members>(
    m: &mut M,
    header: &Header,
    members: &[Member],
) -> Result<Answer<u64>, M::Error> {
    if members.is_empty() {
        return Ok(Ok(0));
    }
    if header.state != BarrierState::Open {
        return Ok(conflict(closed(header)));
    }
    if header.sealed {
        return Ok(conflict(format!(
            "the barrier {} is sealed and cannot grow; create it unsealed",
            header.id
        )));
    }
    if let Some(other) = members.iter().find(|member| header.policy.quota(&member.group).is_none())
    {
        return Ok(Err(Refusal::new(
            RefusalCode::Invalid,
            format!(
                "members are in the group {:?}, for which the policy says nothing",
                other.group
            ),
        )));
    }
    let whole = m.tallies(header.no).await?.whole();
    let there = whole.pending + whole.ok + whole.failed + whole.missing;
    let most = u64::try_from(MEMBERS_MAX).unwrap_or(u64::MAX);
    let given = u64::try_from(members.len()).unwrap_or(u64::MAX);
    if there.saturating_add(given) > most {
        return Ok(Err(Refusal::new(
            RefusalCode::TooLarge,
            format!("{there} members and {given} more are over the limit of {most} a barrier"),
        )));
    }
    m.add(header.no, members).await.map(Ok)
}

async fn seal<M: Members>(
    m: &mut M,
    header: &mut Header,
    now: Timestamp,
) -> Result<Answer<u64>, M::Error> {
    if header.sealed {
        return Ok(Ok(0));
    }
    if header.state != BarrierState::Open {
        return Ok(conflict(closed(header)));
    }
    header.sealed = true;
    let tallies = m.tallies(header.no).await?;
    if !evaluate(m, header, &tallies, Trigger::Seal, now).await? {
        m.update(header).await?;
    }
    Ok(Ok(0))
}

async fn cancel<M: Members>(
    m: &mut M,
    header: &mut Header,
    now: Timestamp,
) -> Result<Answer<u64>, M::Error> {
    if header.state != BarrierState::Open {
        return Ok(conflict(closed(header)));
    }
    end(m, header, Reason::Cancelled, now).await?;
    Ok(Ok(0))
}

async fn reopen<M: Members>(
    m: &mut M,
    header: &mut Header,
    names: &[MemberName],
    now: Timestamp,
) -> Result<Answer<u64>, M::Error> {
    if !header.state.is_complete() {
        return Ok(conflict(format!(
            "the barrier {} is {}; only one that is complete can be reopened",
            header.id,
            header.state.as_str()
        )));
    }
    let names: Vec<MemberName> = BTreeSet::from_iter(names).into_iter().cloned().collect();
    if let Err(refusal) = reopenable(m, header, &names).await? {
        return Ok(Err(refusal));
    }
    let chosen = (!names.is_empty()).then_some(names.as_slice());
    let reopened = m.reopen(header.no, chosen).await?;
    if reopened == 0 {
        return Ok(conflict(
            "nothing failed and nothing is missing, so there is nothing to reopen",
        ));
    }
    header.epoch += 1;
    header.state = BarrierState::Open;
    (header.reason, header.completed_at, header.continuation_id) = (None, None, None);
    header.expires_at = later(now, LIVES);
    if let Some(parent) = &header.parent {
        let id = BarrierId::of_tenant(header.id.tenant(), parent.id.as_str());
        if let Some(parent) = m.header(&id.map_err(M::unexpected)?).await? {
            header.expires_at = header.expires_at.min(parent.expires_at);
        }
    }
    // A deadline that has passed ended the epoch before; this one has none unless it is still to come.
    header.deadline_at = header.deadline_at.filter(|deadline| *deadline > now);
    if header.on_deadline == OnDeadline::Continue && header.deadline_at.is_some() {
        send_errand(m, header, ErrandAct::Deadline, header.deadline_at).await?;
    }
    m.update(header).await?;
    Ok(Ok(reopened))
}

/// Whether each of these failed or is missing.
async fn reopenable<M: Members>(
    m: &mut M,
    header: &Header,
    names: &[MemberName],
) -> Result<Answer<()>, M::Error> {
    let found = m.find(header.no, names).await?;
    for (index, (name, found)) in names.iter().zip(found).enumerate() {
        let Some(found) = found else {
            let refusals = refusals(m, header, &[Unknown { index, name }]).await?;
            return Ok(refusals.into_iter().next().map_or(Ok(()), |(_, refusal)| Err(refusal)));
        };
        let failed = found.resolved.is_some_and(|(outcome, _, _)| !outcome.is_ok());
        if !failed && !found.missing {
            return Ok(conflict(format!(
                "the member {name:?} neither failed nor is missing, so it cannot be reopened"
            )));
        }
    }
    Ok(Ok(()))
}

async fn exclude<M: Members>(
    m: &mut M,
    header: &mut Header,
    name: &MemberName,
    now: Timestamp,
) -> Result<Answer<u64>, M::Error> {
    if header.state != BarrierState::Open {
        return Ok(conflict(closed(header)));
    }
    let encoded = match Outcome::failed().with_error(EXCLUDED).encode() {
        Ok(encoded) => encoded,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let resolution = Resolution { member: name, ok: false, encoded: &encoded };
    let resolved = m.resolve(header.no, &[resolution], now, EXCLUDED).await?;
    if resolved.first() == Some(&true) {
        let tallies = m.tallies(header.no).await?;
        evaluate(m, header, &tallies, Trigger::Other, now).await?;
        return Ok(Ok(1));
    }
    if m.find(header.no, std::slice::from_ref(name)).await?.into_iter().flatten().next().is_some() {
        return Ok(conflict(format!("the member {name:?} is not pending")));
    }
    let refusals = refusals(m, header, &[Unknown { index: 0, name }]).await?;
    Ok(refusals.into_iter().next().map_or(Ok(0), |(_, refusal)| Err(refusal)))
}
