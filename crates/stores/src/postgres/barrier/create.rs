//! Creations.

use sendoff_core::barrier::{Answer, Created, OnDeadline, Plan, Policy};
use sendoff_core::time::whole_micros;
use serde::{Deserialize, Serialize};

use super::{Asks, Call, Param, call, hex, refusal};
use crate::postgres::sql;

/// What is written beside the names.
#[derive(Serialize)]
struct Settings<'a> {
    continue_with: Option<&'a str>,
    policy: &'a Policy,
    plain: bool,
    first_failure: bool,
    sealed: bool,
    strict: bool,
    deadline_us: Option<u64>,
    on_deadline: OnDeadline,
    parent: Option<&'a str>,
    parent_member: Option<String>,
    /// JSON within JSON: kept as text.
    probe: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    refused: Option<String>,
    detail: Option<String>,
    existing: bool,
    differs: bool,
    complete: bool,
}

pub(super) async fn create<A: Asks>(
    asks: &mut A,
    plan: &Plan,
) -> Result<Answer<Created>, A::Error> {
    let said: Said = asks.ask(creation(plan)).await?;
    Ok(match refusal(said.refused, said.detail, plan.id()) {
        Some(refusal) => Err(refusal),
        None => Ok(Created {
            id: plan.id().id().to_owned(),
            existing: said.existing,
            differs: said.differs,
            complete: said.complete,
        }),
    })
}

fn creation(plan: &Plan) -> Call<'_> {
    let settings = Settings {
        continue_with: plan.continue_with(),
        policy: plan.policy(),
        plain: plan.policy().is_all(),
        first_failure: plan.policy().first_failure_ends(),
        sealed: plan.is_sealed(),
        strict: plan.is_strict(),
        deadline_us: plan.deadline().map(whole_micros),
        on_deadline: plan.on_deadline(),
        parent: plan.parent().map(|parent| parent.id.as_str()),
        parent_member: plan.parent().map(|parent| hex(parent.member.as_bytes())),
        probe: plan.probe().and_then(|probe| serde_json::to_string(probe).ok()),
    };
    // Names, words and numbers: it always encodes.
    let settings = serde_json::to_string(&settings).unwrap_or_default();
    let members = plan.members();
    let grouped = members.iter().any(|member| !member.group.is_empty());
    call(
        sql::BARRIER_INSERT,
        plan.id(),
        [
            Param::Names(members.iter().map(|member| member.name.as_bytes()).collect()),
            Param::Texts(
                grouped.then(|| members.iter().map(|member| member.group.as_str()).collect()),
            ),
            Param::Text(plan.state().map(sendoff_core::barrier::Json::as_str)),
            Param::Json(settings),
        ],
    )
}
