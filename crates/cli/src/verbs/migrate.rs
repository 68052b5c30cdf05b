//! `sendoff migrate`: brings a store's schema up to this program's version.

use serde_json::json;

use crate::configuration::Configuration;
use crate::exit::{Ending, Exit};
use crate::output::Form;
use crate::store::Store;

/// Migrates the store. Safe twice and from several processes at once.
pub(crate) async fn run(configuration: &Configuration, form: Form) -> Ending {
    let store = Store::open(configuration, true)?;
    let before = store.desk.schema().await?;
    let after = store.desk.migrate().await?;
    let text = if before.version == after.version && before.missing.is_empty() {
        format!("{}: the schema is at version {} already", store.shown, after.version)
    } else {
        format!("{}: migrated from version {} to {}", store.shown, before.version, after.version)
    };
    form.answer(
        &json!({
            "store": store.shown,
            "from": before.version,
            "version": after.version,
            "needed": after.needed,
            "state": after.state,
        }),
        &text,
    )?;
    Ok(Exit::Done)
}
