//! `sendoff config show`: every setting, its value and where it came from. Passwords are masked.

use serde::Serialize;
use serde_json::Value;

use crate::configuration::{Configuration, Kind, SETTINGS};
use crate::exit::{Ending, Exit};
use crate::output::{Form, shown, table};
use crate::secret::masked;

/// One setting, as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    key: &'static str,
    value: Option<String>,
    from: String,
    variable: &'static str,
}

/// Prints the configuration.
pub(crate) fn show(configuration: &Configuration, form: Form) -> Ending {
    // Values that do not go together are told here too, not only by the relay.
    configuration.relay()?;
    configuration.target()?;
    let settings: Vec<Shown> = SETTINGS
        .iter()
        .map(|setting| Shown {
            key: setting.key,
            value: configuration.text(setting.key).map(|text| match setting.kind {
                Kind::Secret(_) | Kind::WebhookSecrets => "***".to_owned(),
                _ => masked(text),
            }),
            from: configuration.origin(setting.key).to_string(),
            variable: setting.variable,
        })
        .collect();
    let rows: Vec<Vec<String>> = settings
        .iter()
        .map(|setting| {
            vec![
                setting.key.to_owned(),
                setting.value.as_deref().map_or("-".to_owned(), shown),
                setting.from.clone(),
                setting.variable.to_owned(),
            ]
        })
        .collect();
    let mut text = table(&["setting", "value", "from", "variable"], &rows);
    match configuration.file() {
        Some((path, _)) => text.push_str(&format!("\nfile: {}\n", path.display())),
        None => text.push_str("\nfile: none (no sendoff.toml in this folder, no --config)\n"),
    }
    for stray in &configuration.strays {
        text.push_str(&format!("ignored: {} is not a setting\n", shown(stray)));
    }
    let value = serde_json::json!({
        "settings": settings,
        "file": configuration.file().map_or(Value::Null, |(path, _)| path.display().to_string().into()),
        "ignored": configuration.strays,
    });
    form.answer(&value, &text)?;
    Ok(Exit::Done)
}
