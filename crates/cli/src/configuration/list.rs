//! Lists of the configuration: tables that the file may have several of, and what they make.

use std::time::Duration;

use sendoff::Result;
use sendoff::relay::{Backoff, Override, RelaySettings};

use super::value::parse_duration;
use super::{Configuration, Origin, Value, wrong};

/// One table of a list in the file.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The list's key.
    pub(crate) list: &'static str,
    /// Where its table begins.
    pub(crate) origin: Origin,
    /// What it says, under whole keys.
    pub(crate) values: Vec<Value>,
}

impl Item {
    fn parsed<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> std::result::Result<T, String>,
    ) -> Result<Option<T>> {
        let value = self.values.iter().find(|value| value.key == key);
        value.map(|value| parse(&value.text).map_err(|why| wrong(value, &why))).transpose()
    }

    fn duration(&self, key: &'static str) -> Result<Option<Duration>> {
        self.parsed(key, parse_duration)
    }
}

impl Configuration {
    /// The tables of a list, in the file's order.
    pub(crate) fn items(&self, list: &str) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.list == list)
    }

    /// The relay's overrides, each checked beside its other settings.
    pub(super) fn overrides(&self, settings: &RelaySettings) -> Result<Vec<Override>> {
        let mut overrides = Vec::new();
        for item in self.items("relay.override") {
            let one = override_of(item, &settings.backoff)?;
            let alone = RelaySettings { overrides: vec![one.clone()], ..settings.clone() };
            alone.check().map_err(|error| error.advice(format!("it stands at {}", item.origin)))?;
            overrides.push(one);
        }
        Ok(overrides)
    }
}

fn override_of(item: &Item, backoff: &Backoff) -> Result<Override> {
    let text = |error: sendoff::Error| error.to_string();
    let topics = item.parsed("relay.override.topics", |topics| topics.parse().map_err(text))?;
    let Some(topics) = topics else {
        let nothing = Value {
            key: "relay.override.topics",
            text: String::new(),
            origin: item.origin.clone(),
        };
        return Err(wrong(&nothing, "it is missing; write a topic or a pattern of topics"));
    };
    let first = item.duration("relay.override.backoff_first")?;
    let max = item.duration("relay.override.backoff_max")?;
    let attempts = |text: &str| match text {
        "never" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("`{text}` is not a number in range")),
    };
    Ok(Override {
        hold: item.parsed("relay.override.hold", |hold| hold.parse().map_err(text))?,
        backoff: first.or(max).map(|_| Backoff {
            first: first.unwrap_or(backoff.first),
            max: max.unwrap_or(backoff.max),
        }),
        attempts_max: item.parsed("relay.override.attempts_max", attempts)?,
        publish_timeout: item.duration("relay.override.publish_timeout")?,
        ..Override::of(topics)
    })
}
