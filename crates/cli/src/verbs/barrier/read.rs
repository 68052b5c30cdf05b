//! `sendoff barrier status`, `why` and `list`.

use serde_json::json;

use super::{barrier, open, text, there};
use crate::arguments::ListBarriersArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit};
use crate::output::Form;
use crate::state::StatusWithState;

/// Answers with how a barrier stands.
pub(super) async fn status(configuration: &Configuration, id: &str, form: Form) -> Ending {
    let id = barrier(id)?;
    let store = open(configuration).await?;
    let found = store.barriers.barrier_status(&id).await;
    let status = there(&store, "reading the barrier's status", &id, found)?;
    let text = text::status(&status);
    form.answer(&StatusWithState::from(status), &text)?;
    Ok(Exit::Done)
}

/// Answers with what a barrier waits for.
pub(super) async fn why(configuration: &Configuration, id: &str, form: Form) -> Ending {
    let id = barrier(id)?;
    let store = open(configuration).await?;
    let found = store.barriers.barrier_why(&id).await;
    let why = there(&store, "looking at what the barrier waits for", &id, found)?;
    form.answer(&why, &text::why(&why))?;
    Ok(Exit::Done)
}

/// Answers with a page of barriers.
pub(super) async fn list(
    configuration: &Configuration,
    arguments: &ListBarriersArguments,
    form: Form,
) -> Ending {
    let store = open(configuration).await?;
    let barriers = store
        .barriers
        .barriers("", arguments.after.as_deref(), arguments.limit)
        .await
        .map_err(|error| store.explain(error))?;
    let full = barriers.len() >= usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let next_after = barriers.last().filter(|_| full).map(|last| last.id.clone());
    let text = text::list(&barriers, next_after.as_deref());
    form.answer(&json!({ "barriers": barriers, "next_after": next_after }), &text)?;
    Ok(Exit::Done)
}
