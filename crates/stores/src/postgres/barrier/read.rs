//! How barriers stand.

use sendoff_core::barrier::{
    BarrierId, BarrierState, Evidence, EvidenceKind, Json, MemberName, MemberOutcome, OnDeadline,
    Outcome, Outcomes, Page, Parent, Reason, Status, Which, Why,
};
use serde::Deserialize;

use super::{Asks, Call, Param, call, time, unhex};
use crate::postgres::sql;

/// The most members of one page.
const PAGE_MAX: u32 = 1_000;

/// A barrier as the database tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Standing {
    id: String,
    total: u64,
    resolved: u64,
    pending: u64,
    failed: u64,
    missing: u64,
    state: BarrierState,
    overdue: Option<bool>,
    dispatched: Option<bool>,
    reason: Option<Reason>,
    epoch: u32,
    sealed: bool,
    created_at: i64,
    deadline_at: Option<i64>,
    on_deadline: OnDeadline,
    completed_at: Option<i64>,
    last_ack_at: Option<i64>,
    expires_at: i64,
    continue_with: Option<String>,
    handed: Option<String>,
    parent: Option<String>,
    parent_member: Option<String>,
    incarnation: String,
}

impl From<Standing> for Status {
    fn from(is: Standing) -> Self {
        let member = is.parent_member.and_then(|member| MemberName::new(unhex(&member)).ok());
        Self {
            id: is.id,
            total: is.total,
            resolved: is.resolved,
            pending: is.pending,
            failed: is.failed,
            missing: is.missing,
            complete: is.state.is_complete(),
            overdue: is.overdue.unwrap_or(false),
            dispatched: is.dispatched,
            state: is.state,
            reason: is.reason,
            epoch: is.epoch,
            sealed: is.sealed,
            created_at: time(is.created_at),
            deadline_at: is.deadline_at.map(time),
            on_deadline: is.on_deadline,
            completed_at: is.completed_at.map(time),
            last_ack_at: is.last_ack_at.map(time),
            expires_at: time(is.expires_at),
            continue_with: is.continue_with,
            state_value: is.handed.and_then(|text| Json::parse(text).ok()),
            parent: is.parent.zip(member).map(|(id, member)| Parent { id, member }),
            incarnation: is.incarnation,
        }
    }
}

pub(super) async fn status<A: Asks>(
    asks: &mut A,
    id: &BarrierId,
) -> Result<Option<Status>, A::Error> {
    let standing: Option<Standing> = asks.ask(call(sql::BARRIER_STATE, id, [])).await?;
    Ok(standing.map(Status::from))
}

pub(super) async fn list<A: Asks>(
    asks: &mut A,
    tenant: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Status>, A::Error> {
    let params = vec![Param::Text(Some(tenant)), Param::Text(after), rows(limit)];
    let list: Vec<Standing> = asks.ask(Call { text: sql::BARRIER_LIST, params }).await?;
    Ok(list.into_iter().map(Status::from).collect())
}

fn rows(limit: u32) -> Param<'static> {
    Param::Int(i32::try_from(limit.min(PAGE_MAX)).ok())
}

/// A member of a page: its name, when it was resolved, its outcome and the channel.
type Row = (String, Option<i64>, Option<String>, String);

pub(super) async fn outcomes<A: Asks>(
    asks: &mut A,
    page: &Page,
) -> Result<Option<Outcomes>, A::Error> {
    let (which, name) = match (&page.only, page.which) {
        (Some(name), _) => ("only", Some(name)),
        (None, Which::Resolved) => ("resolved", page.after.as_ref()),
        (None, Which::Failed) => ("failed", page.after.as_ref()),
        (None, Which::Missing) => ("missing", page.after.as_ref()),
        (None, Which::Pending) => ("pending", page.after.as_ref()),
    };
    let name = name.map_or(&b""[..], MemberName::as_bytes);
    let params = [Param::Text(Some(which)), Param::Bytes(name), rows(page.limit)];
    let found: Option<Vec<Row>> = asks.ask(call(sql::BARRIER_PAGE, &page.id, params)).await?;
    Ok(found.map(|found| {
        let full = page.only.is_none()
            && found.len() >= usize::try_from(page.limit.min(PAGE_MAX)).unwrap_or(0);
        let members: Vec<MemberOutcome> = found
            .into_iter()
            .filter_map(|(name, at, outcome, channel)| {
                Some(MemberOutcome {
                    member: MemberName::new(unhex(&name)).ok()?,
                    outcome: outcome.as_deref().map(Outcome::decode),
                    at: at.map(time),
                    channel,
                })
            })
            .collect();
        let next_after = members.last().filter(|_| full).map(|last| last.member.clone());
        Outcomes { members, next_after }
    }))
}

#[derive(Debug, Deserialize)]
struct Reasons {
    standing: Standing,
    now: i64,
    waiting_for: Vec<String>,
    recent: u64,
    evidence: Vec<(i64, EvidenceKind, String, Vec<String>, bool, String)>,
}

pub(super) async fn why<A: Asks>(asks: &mut A, id: &BarrierId) -> Result<Option<Why>, A::Error> {
    let found: Option<Reasons> = asks.ask(call(sql::BARRIER_REASONS, id, [])).await?;
    Ok(found.map(|found| {
        let names = |names: Vec<String>| -> Vec<MemberName> {
            names.iter().filter_map(|name| MemberName::new(unhex(name)).ok()).collect()
        };
        let status = Status::from(found.standing);
        let recent = u32::try_from(found.recent).unwrap_or(u32::MAX);
        let acks_per_s = status.last_ack_at.map(|_| f64::from(recent) / 60.0);
        let pending = u32::try_from(status.pending).unwrap_or(u32::MAX);
        let estimated_at = acks_per_s
            .filter(|rate| *rate > 0.0 && pending > 0)
            .and_then(|rate| std::time::Duration::try_from_secs_f64(f64::from(pending) / rate).ok())
            .and_then(|wait| time(found.now).checked_add(wait).ok());
        Why {
            status,
            waiting_for: names(found.waiting_for),
            acks_per_s,
            estimated_at,
            evidence: found
                .evidence
                .into_iter()
                .filter_map(|(at, kind, member, near, ok, channel)| {
                    let member = MemberName::new(unhex(&member)).ok()?;
                    Some(Evidence { at: time(at), kind, member, near: names(near), ok, channel })
                })
                .collect(),
        }
    }))
}
