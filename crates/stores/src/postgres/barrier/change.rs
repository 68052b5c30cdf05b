//! Changes to a barrier that is there.

use sendoff_core::barrier::{
    Ack, AckBatch, Answer, BarrierId, Change, Changed, MemberAnswer, MemberName, Outcome, Refusal,
    RefusalCode,
};
use serde::Deserialize;

use super::{Asks, Param, ack, call, refusal};
use crate::postgres::sql;

/// The channel and the error of what is resolved without an acknowledgement.
const EXCLUDED: &str = "excluded";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    refused: Option<String>,
    detail: Option<String>,
    members: u64,
    complete: bool,
    epoch: u32,
}

pub(super) async fn change<A: Asks>(
    asks: &mut A,
    id: &BarrierId,
    change: &Change,
) -> Result<Answer<Changed>, A::Error> {
    let call = match change {
        Change::Grow(members) => {
            let names = members.iter().map(|member| member.name.as_bytes()).collect();
            let groups = members.iter().map(|member| member.group.as_str()).collect();
            call(sql::BARRIER_GROW, id, [Param::Names(names), Param::Texts(Some(groups))])
        }
        Change::Seal => call(sql::BARRIER_SEAL, id, []),
        Change::Cancel => call(sql::BARRIER_CANCEL, id, []),
        Change::Reopen(members) => {
            let names = members.iter().map(MemberName::as_bytes).collect();
            call(sql::BARRIER_REOPEN, id, [Param::Names(names)])
        }
        Change::Exclude(member) => return exclude(asks, id, member).await,
    };
    let said: Said = asks.ask(call).await?;
    Ok(match refusal(said.refused, said.detail, id) {
        Some(refusal) => Err(refusal),
        None => Ok(Changed {
            id: id.id().to_owned(),
            members: said.members,
            complete: said.complete,
            epoch: said.epoch,
        }),
    })
}

/// An acknowledgement that nobody sent.
async fn exclude<A: Asks>(
    asks: &mut A,
    id: &BarrierId,
    member: &MemberName,
) -> Result<Answer<Changed>, A::Error> {
    let outcome = Outcome::failed().with_error(EXCLUDED);
    let acks = vec![Ack { member: member.clone(), outcome }];
    let batch = AckBatch::new(id.clone(), acks).by(EXCLUDED);
    let acked = match ack::ack(asks, &batch).await? {
        Ok(acked) => acked,
        Err(refusal) => return Ok(Err(refusal)),
    };
    match acked.answers.first() {
        Some(MemberAnswer::Refused(refusal)) => return Ok(Err(refusal.clone())),
        Some(MemberAnswer::Duplicate { .. }) => {
            return Ok(Err(Refusal::new(
                RefusalCode::Conflict,
                format!("{member:?} is resolved already"),
            )));
        }
        Some(MemberAnswer::Resolved) | None => {}
    }
    let now: Option<Which> = asks.ask(call(sql::BARRIER_WHICH, id, [])).await?;
    Ok(Ok(Changed {
        id: id.id().to_owned(),
        members: acked.resolved(),
        complete: acked.complete,
        epoch: now.map_or(1, |which| which.epoch),
    }))
}

/// Which barrier an id means now.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    pub(super) incarnation: String,
    pub(super) epoch: u32,
    pub(super) probe: Option<String>,
}
