//! `sendoff roles`: database roles with no more rights than they need.

use serde_json::json;

use crate::arguments::RolesArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit};
use crate::output::Form;
use crate::store;

/// Prints the statements, or runs them.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &RolesArguments,
    form: Form,
) -> Ending {
    let roles = arguments.roles()?;
    let statements = roles.grants(&configuration.postgres()?.schema);
    if arguments.print || !arguments.apply {
        form.answer(&json!({ "sql": statements }), statements.trim_end())?;
        return Ok(Exit::Done);
    }
    let store = store::postgres(configuration)?;
    store.grant(&roles).await?;
    let names: Vec<&str> = roles.names().collect();
    let text = format!("granted: {}", names.join(", "));
    form.answer(&json!({ "granted": names }), &text)?;
    Ok(Exit::Done)
}
