//! `sendoff barrier cancel`, `grow`, `seal`, `reopen`, `exclude` and `reconcile`.

use sendoff::barrier::{BarrierId, Change, Changed};
use serde_json::json;

use super::{answered, barrier, member, members, open};
use crate::arguments::{GrowArguments, MemberArguments, ReopenArguments};
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, grouped, shown};

/// Ends a barrier.
pub(super) async fn cancel(configuration: &Configuration, id: &str, form: Form) -> Ending {
    let id = barrier(id)?;
    let doing = "cancelling the barrier";
    let changed = change(configuration, &id, doing, &Change::Cancel).await?;
    form.answer(&changed, &format!("cancelled barrier {}", shown(&changed.id)))?;
    Ok(Exit::Done)
}

/// Says that the list is complete.
pub(super) async fn seal(configuration: &Configuration, id: &str, form: Form) -> Ending {
    let id = barrier(id)?;
    let changed = change(configuration, &id, "sealing the barrier", &Change::Seal).await?;
    tell(form, &changed, format!("sealed barrier {}", shown(&changed.id)))
}

/// Adds members.
pub(super) async fn grow(
    configuration: &Configuration,
    arguments: &GrowArguments,
    form: Form,
) -> Ending {
    const DOING: &str = "growing the barrier";
    let id = barrier(arguments.id.as_str())?;
    let growth = members(&arguments.members)
        .await?
        .growth()
        .map_err(|refusal| Failure::refused(DOING, refusal))?;
    let changed = change(configuration, &id, DOING, &growth).await?;
    let text =
        format!("barrier {} has {} more members", shown(&changed.id), grouped(changed.members));
    tell(form, &changed, text)
}

/// Makes failed and missing members pending again.
pub(super) async fn reopen(
    configuration: &Configuration,
    arguments: &ReopenArguments,
    form: Form,
) -> Ending {
    let id = barrier(arguments.id.as_str())?;
    let names = arguments.members.iter().map(|name| member(name)).collect::<Result<_, _>>()?;
    let reopening = Change::Reopen(names);
    let changed = change(configuration, &id, "reopening the barrier", &reopening).await?;
    let text = format!(
        "reopened {} members of barrier {}; it is at epoch {}",
        grouped(changed.members),
        shown(&changed.id),
        changed.epoch
    );
    tell(form, &changed, text)
}

/// Gives up a pending member.
pub(super) async fn exclude(
    configuration: &Configuration,
    arguments: &MemberArguments,
    form: Form,
) -> Ending {
    let id = barrier(arguments.id.as_str())?;
    let name = member(&arguments.member)?;
    let text = format!("excluded {name} from barrier {}", shown(id.id()));
    let changed = change(configuration, &id, "excluding a member", &Change::Exclude(name)).await?;
    tell(form, &changed, text)
}

/// Runs the barrier's probe.
pub(super) async fn reconcile(configuration: &Configuration, id: &str, form: Form) -> Ending {
    const DOING: &str = "reconciling the barrier";
    let id = barrier(id)?;
    let store = open(configuration).await?;
    let found = answered(&store, DOING, store.barriers.reconcile_barrier(&id).await)?;
    form.answer(
        &json!({
            "id": id.id(),
            "resolved": found.resolved(),
            "duplicate": found.duplicates(),
            "refused": found.refused(),
            "complete": found.complete,
            "remaining": found.remaining,
        }),
        &format!(
            "the probe found {} lost acknowledgements of barrier {}{}",
            grouped(found.resolved()),
            shown(id.id()),
            if found.complete { "; it is complete" } else { "" }
        ),
    )?;
    Ok(Exit::Done)
}

async fn change(
    configuration: &Configuration,
    id: &BarrierId,
    doing: &'static str,
    change: &Change,
) -> Result<Changed, Failure> {
    let store = open(configuration).await?;
    answered(&store, doing, store.barriers.change_barrier(id, change).await)
}

fn tell(form: Form, changed: &Changed, mut text: String) -> Ending {
    if changed.complete {
        text.push_str("; it is complete");
    }
    form.answer(changed, &text)?;
    Ok(Exit::Done)
}
