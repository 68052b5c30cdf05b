//! `sendoff config show`: every setting, its value and where it came from. Passwords are masked.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::configuration::{Configuration, Kind, LISTS, RouteTable, SETTINGS, TargetEntry};
use crate::exit::{Ending, Exit, Failure};
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
    let targets = targets(configuration)?;
    let settings: Vec<Shown> = SETTINGS
        .iter()
        .map(|setting| Shown {
            key: setting.key,
            value: configuration.text(setting.key).map(|text| value_shown(setting.kind, text)),
            from: configuration.origin(setting.key).to_string(),
            variable: setting.variable,
        })
        .collect();
    let mut rows: Vec<Vec<String>> = settings
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
    let (of_lists, lists) = lists(configuration);
    rows.extend(of_lists);
    let mut text = table(&["setting", "value", "from", "variable"], &rows);
    text.push_str(&targets_text(&targets, configuration.routes()));
    match configuration.file() {
        Some((path, _)) => text.push_str(&format!("\nfile: {}\n", path.display())),
        None => text.push_str("\nfile: none (no sendoff.toml in this folder, no --config)\n"),
    }
    for stray in &configuration.strays {
        text.push_str(&format!("ignored: {} is not a setting\n", shown(stray)));
    }
    let value = serde_json::json!({
        "settings": settings,
        "lists": lists,
        "targets": targets,
        "routes": configuration.routes().routes.iter().map(|route| serde_json::json!({
            "topics": route.topics.as_str(),
            "target": route.target,
            "from": route.origin.to_string(),
        })).collect::<Vec<_>>(),
        "file": configuration.file().map_or(Value::Null, |(path, _)| path.display().to_string().into()),
        "ignored": configuration.strays,
    });
    form.answer(&value, &text)?;
    Ok(Exit::Done)
}

/// The tables of lists, as rows `relay.override 1 topics` and as JSON.
fn lists(configuration: &Configuration) -> (Vec<Vec<String>>, Value) {
    let mut rows = Vec::new();
    let mut lists = serde_json::Map::new();
    for list in LISTS {
        let mut tables = Vec::new();
        for (number, item) in (1..).zip(configuration.items(list.key)) {
            let mut table = serde_json::Map::new();
            for value in &item.values {
                let name = list.name_of(value.key);
                let text = masked(&value.text);
                rows.push(vec![
                    format!("{} {number} {name}", list.key),
                    shown(&text),
                    value.origin.to_string(),
                    "-".to_owned(),
                ]);
                table.insert(name.to_owned(), text.into());
            }
            table.insert("from".to_owned(), item.origin.to_string().into());
            tables.push(Value::Object(table));
        }
        lists.insert(list.key.to_owned(), tables.into());
    }
    (rows, Value::Object(lists))
}

fn value_shown(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Secret(_) | Kind::WebhookSecrets => "***".to_owned(),
        _ => masked(text),
    }
}

/// One target of the file, as it is shown: its own settings.
#[derive(Debug, Serialize)]
struct TargetShown {
    name: String,
    from: String,
    settings: BTreeMap<&'static str, String>,
}

/// The file's targets. What does not go together for one of them is told here too.
fn targets(configuration: &Configuration) -> Result<Vec<TargetShown>, Failure> {
    let shown = |target: &TargetEntry| {
        let own = configuration.of_target(target);
        own.target()?;
        sendoff::Target::read(own.text("to").unwrap_or_default())
            .map_err(|error| error.subject(format!("{}, `{}`", target.origin, target.name)))?;
        let kind = |key: &str| {
            let setting = SETTINGS.iter().find(|setting| setting.key == key);
            setting.map_or(Kind::Text, |setting| setting.kind)
        };
        let settings = target.values.iter();
        Ok(TargetShown {
            name: target.name.clone(),
            from: target.origin.to_string(),
            settings: settings
                .map(|value| (value.key, value_shown(kind(value.key), &value.text)))
                .collect(),
        })
    };
    configuration.routes().targets.iter().map(shown).collect()
}

fn targets_text(targets: &[TargetShown], routes: &RouteTable) -> String {
    if targets.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = targets
        .iter()
        .flat_map(|target| {
            target.settings.iter().map(|(key, value)| {
                vec![shown(&target.name), (*key).to_owned(), shown(value), target.from.clone()]
            })
        })
        .collect();
    let rules: Vec<Vec<String>> = routes
        .routes
        .iter()
        .map(|route| {
            vec![shown(route.topics.as_str()), shown(&route.target), route.origin.to_string()]
        })
        .collect();
    format!(
        "\n{}\n{}",
        table(&["target", "setting", "value", "from"], &rows),
        table(&["topics", "target", "from"], &rules)
    )
}
