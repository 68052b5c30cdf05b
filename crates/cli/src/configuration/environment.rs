//! The environment's part of the configuration: `SENDOFF_*`.

use sendoff::{Error, Result};

use super::table::SETTINGS;
use super::{Origin, Value};

/// What the environment says.
#[derive(Debug)]
pub(super) struct Environment {
    /// Values of settings.
    pub(super) values: Vec<Value>,
    /// Variables that begin with `SENDOFF_` and are no settings: told, since one may be misspelt,
    /// and not refused, since orchestrators set such names for a service called sendoff.
    pub(super) strays: Vec<String>,
}

/// Variables that are ours without being settings.
const OTHERS: [&str; 1] = ["SENDOFF_CONFIG"];
/// The prefix of what the project's own tests use.
const TESTS: &str = "SENDOFF_TEST_";

/// Reads the environment. A variable that is set to nothing counts as not set.
///
/// # Errors
/// A setting whose value is not UTF-8.
pub(super) fn read() -> Result<Environment> {
    let mut environment = Environment { values: Vec::new(), strays: Vec::new() };
    for (name, text) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with("SENDOFF_")) else {
            continue;
        };
        let Some(setting) = SETTINGS.iter().find(|setting| setting.variable == name) else {
            if !OTHERS.contains(&name) && !name.starts_with(TESTS) {
                environment.strays.push(name.to_owned());
            }
            continue;
        };
        if text.is_empty() {
            continue;
        }
        let Ok(text) = text.into_string() else {
            return Err(Error::invalid(
                "reading the configuration",
                format!("{name} is not UTF-8"),
            ));
        };
        environment.values.push(Value {
            key: setting.key,
            text,
            origin: Origin::Environment(setting.variable),
        });
    }
    environment.strays.sort();
    Ok(environment)
}
