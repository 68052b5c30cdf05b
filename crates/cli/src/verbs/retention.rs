//! `sendoff retention`: what becomes of messages once they are published.

use sendoff::Error;
use sendoff::store::{KeptLook, Retention};
use serde_json::json;

use crate::arguments::RetentionArguments;
use crate::configuration::{Configuration, duration_text, parse_duration};
use crate::exit::{Ending, Exit};
use crate::output::Form;
use crate::store::Store;

/// Sets the retention, where one is asked for, and says what it is.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &RetentionArguments,
    form: Form,
) -> Ending {
    let wanted = match &arguments.keep {
        Some(text) => {
            let refuse = |why| Error::invalid("reading --keep", why);
            Some(Retention::KeepFor(parse_duration(text).map_err(refuse)?))
        }
        None => arguments.delete_behind.then_some(Retention::DeleteBehind),
    };
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let explain = |error| store.explain(error);
    if let Some(retention) = wanted {
        store.kept.set_retention(retention).await.map_err(explain)?;
    }
    let retention = store.kept.retention().await.map_err(explain)?;
    let first = KeptLook { rows_max: 1, ..KeptLook::default() };
    let oldest = store.kept.kept(&first).await.map_err(explain)?;
    let oldest = oldest.first().map(|kept| kept.published_at);
    let (keep_for, mut text) = match retention {
        Retention::KeepFor(time) => {
            (Some(time), format!("published messages are kept for {}", duration_text(time)))
        }
        Retention::DeleteBehind => (None, "published messages are deleted".to_owned()),
    };
    if let Some(oldest) = oldest {
        text.push_str(&format!("; the oldest that is kept was published at {oldest}"));
    }
    form.answer(
        &json!({
            "store": store.shown,
            "keeps": retention.keeps(),
            "keep_for_ms": keep_for.map(|time| time.as_millis()),
            "oldest_kept_at": oldest,
        }),
        &text,
    )?;
    Ok(Exit::Done)
}
