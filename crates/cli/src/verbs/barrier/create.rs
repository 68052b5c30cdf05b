//! `sendoff barrier create`.

use sendoff::barrier::{Counting, Created, OnDeadline, Plan, PlanBuilder, Policy, Probe};
use sendoff::file::FolderKeys;
use sendoff::{Error, Result};

use super::{answered, barrier, duration, json, member, members, open};
use crate::arguments::CreateArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::members::misread;
use crate::output::{Form, grouped, shown};

const DOING: &str = "creating the barrier";

/// Creates a barrier, or finds that it is there.
pub(super) async fn run(
    configuration: &Configuration,
    arguments: &CreateArguments,
    form: Form,
) -> Ending {
    // What can never be created is refused before anything is opened or read.
    let plan = plan(arguments)?;
    let members = members(&arguments.members).await?;
    let plan = tokio::task::spawn_blocking(move || members.add_to(plan).build())
        .await
        .map_err(|error| Error::new(sendoff::ErrorKind::Unexpected, DOING).caused_by(error))?
        .map_err(|refusal| Failure::refused(DOING, refusal))?;
    let store = open(configuration).await?;
    let created = answered(&store, DOING, store.barriers.create_barrier(&plan).await)?;
    form.answer(&created, &text(&plan, &created))?;
    Ok(Exit::Done)
}

/// Everything of the plan but its members.
fn plan(arguments: &CreateArguments) -> Result<PlanBuilder, Failure> {
    let mut plan = Plan::builder(barrier(arguments.id.as_str())?).policy(policy(arguments)?);
    if let Some(topic) = &arguments.continue_with {
        plan = plan.continue_with(topic);
    }
    if let Some(text) = &arguments.deadline {
        plan = plan.deadline(duration("--deadline", text)?);
    }
    if arguments.on_deadline.as_deref() == Some("continue") {
        plan = plan.on_deadline(OnDeadline::Continue);
    }
    if let Some(state) = json("--state", arguments.state.as_deref())? {
        plan = plan.state(state);
    }
    if arguments.unsealed {
        plan = plan.unsealed();
    }
    if arguments.strict {
        plan = plan.strict();
    }
    if let (Some(parent), Some(name)) = (&arguments.parent, &arguments.parent_member) {
        plan = plan.member_of(parent, member(name)?);
    }
    if let Some(query) = &arguments.probe_sql {
        plan = plan.probe(Probe::Sql(query.clone()));
    }
    if let Some(prefix) = &arguments.probe_keys {
        FolderKeys::check(prefix)?;
        plan = plan.probe(Probe::Keys(prefix.clone()));
    }
    Ok(plan)
}

fn policy(arguments: &CreateArguments) -> Result<Policy> {
    let counting = match arguments.counting.as_deref() {
        Some("successful") => Counting::Successful,
        _ => Counting::Resolved,
    };
    let policy = match (&arguments.policy, arguments.at_least) {
        (Some(text), _) => serde_json::from_str(text).map_err(|error| {
            Error::invalid("reading --policy", misread(&error)).advice(
                r#"write {"groups":{"core":{"wanted":"all"},"rest":{"wanted":{"at_least":3},"counting":"successful"}}}"#,
            )
        })?,
        (None, Some(n)) => Policy::at_least(n, counting),
        (None, None) => Policy::all(),
    };
    Ok(if arguments.first_failure { policy.or_first_failure() } else { policy })
}

fn text(plan: &Plan, created: &Created) -> String {
    let id = shown(&created.id);
    if created.existing {
        let differs = if created.differs { ", with other members than these" } else { "" };
        return format!("barrier {id} is there already{differs}; nothing was changed");
    }
    let count = grouped(u64::try_from(plan.members().len()).unwrap_or(u64::MAX));
    let next = match (created.complete, plan.continue_with()) {
        (true, Some(topic)) => format!("complete, the continuation goes to {}", shown(topic)),
        (true, None) => "complete".to_owned(),
        (false, Some(topic)) => format!("then it continues with {}", shown(topic)),
        (false, None) => "without a continuation".to_owned(),
    };
    format!("created barrier {id} of {count} members; {next}")
}
