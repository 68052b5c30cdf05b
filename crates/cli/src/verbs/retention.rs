//! `sendoff retention`: what becomes of messages once they are published.

use std::time::Duration;

use sendoff::Error;
use sendoff::store::{KeptLook, Retention};
use serde_json::json;

use crate::arguments::RetentionArguments;
use crate::configuration::{Configuration, parse_duration};
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
            (Some(time), format!("published messages are kept for {}", in_words(time)))
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

/// A time in its largest whole unit, as it may be given.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let unit = units.iter().find(|(length, _)| seconds.is_multiple_of(*length));
    unit.map_or(String::new(), |(length, name)| format!("{}{name}", seconds / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_whole_unit() {
        for (seconds, text) in [(604_800, "7d"), (7_200, "2h"), (90, "90s"), (5_400, "90m")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), text);
        }
    }
}
