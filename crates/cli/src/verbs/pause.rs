//! `sendoff pause`, `resume` and `pauses`: what relays leave in the outbox until they are told.

use sendoff::store::{PauseScope, PauseStanding};
use sendoff::{Error, ErrorKind};
use serde_json::json;

use crate::arguments::{PauseArguments, ResumeArguments};
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit};
use crate::output::{Form, counted, grouped, shown, table};
use crate::store::Store;

/// Pauses.
pub(crate) async fn pause(
    configuration: &Configuration,
    arguments: &PauseArguments,
    form: Form,
) -> Ending {
    let PauseArguments { topic, key, target, reason, .. } = arguments;
    let scope = scope(topic.as_deref(), key.as_deref(), target.as_deref())?;
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let begun = store.pauses.pause(&scope, reason).await.map_err(|error| store.explain(error))?;
    let words = if begun { "paused" } else { "paused before; the reason is the new one now:" };
    form.answer(
        &json!({ "done": "paused", "kind": scope.kind(), "name": scope.name(), "was_paused": !begun }),
        &format!("{words} {}", shown(&scope.to_string())),
    )?;
    Ok(Exit::Done)
}

/// Resumes.
pub(crate) async fn resume(
    configuration: &Configuration,
    arguments: &ResumeArguments,
    form: Form,
) -> Ending {
    let ResumeArguments { topic, key, target, all, .. } = arguments;
    let scope = match all {
        true => None,
        false => Some(scope(topic.as_deref(), key.as_deref(), target.as_deref())?),
    };
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let ended = store.pauses.resume(scope.as_ref()).await.map_err(|error| store.explain(error))?;
    if let (0, Some(scope)) = (ended, &scope) {
        return Err(Error::new(ErrorKind::NotFound, "resuming messages")
            .subject(&store.shown)
            .detail(format!("{} is not paused", shown(&scope.to_string())))
            .advice("`sendoff pauses` lists what is")
            .into());
    }
    form.answer(
        &json!({ "done": "resumed", "pauses": ended }),
        &format!("ended {}; a relay brings the messages back", counted(ended, "pause")),
    )?;
    Ok(Exit::Done)
}

/// Lists the pauses.
pub(crate) async fn list(configuration: &Configuration, form: Form) -> Ending {
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let pauses = store.pauses.pauses().await.map_err(|error| store.explain(error))?;
    form.answer(&json!({ "pauses": pauses }), &text(&pauses))?;
    Ok(Exit::Done)
}

fn text(pauses: &[PauseStanding]) -> String {
    if pauses.is_empty() {
        return "nothing is paused\n".to_owned();
    }
    let rows: Vec<Vec<String>> = pauses
        .iter()
        .map(|pause| {
            vec![
                pause.kind.to_owned(),
                shown(&pause.name),
                grouped(pause.parked),
                grouped(pause.held),
                pause.paused_at.to_string(),
                if pause.reason.is_empty() { "-".to_owned() } else { shown(&pause.reason) },
            ]
        })
        .collect();
    table(&["kind", "name", "parked", "held behind", "since", "reason"], &rows)
}

/// The command line's group sees to it that one is there.
fn scope(
    topic: Option<&str>,
    key: Option<&str>,
    target: Option<&str>,
) -> Result<PauseScope, Error> {
    match (topic, key, target) {
        (Some(topic), _, _) => topic.parse().map(PauseScope::Topic),
        (_, Some(key), _) => PauseScope::key(key),
        (_, _, target) => PauseScope::target(target.unwrap_or_default()),
    }
}
