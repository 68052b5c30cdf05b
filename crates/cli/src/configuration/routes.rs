//! Targets and routes of the file: `[target.NAME]` and `[[route]]`.
//!
//! A target has its URL in `to` and may have settings of its own, which win over those that all targets
//! have. Routes are rules in the order of the file. What does not belong here: opening a target.

use std::path::Path;

use sendoff::message::TopicPattern;
use sendoff::{Error, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::line_of;
use super::table::{self, SETTINGS};
use super::{Origin, Value, value};

const DOING: &str = "reading the configuration";

/// The settings that one target may have for itself.
const OF_ONE_TARGET: &str = "webhook.";

/// A target of the file.
#[derive(Debug, Clone)]
pub(crate) struct TargetEntry {
    pub(crate) name: String,
    /// Its URL, under the key `to`, and its own settings.
    pub(crate) values: Vec<Value>,
    pub(crate) origin: Origin,
}

/// A rule of the file.
#[derive(Debug, Clone)]
pub(crate) struct RouteEntry {
    pub(crate) topics: TopicPattern,
    pub(crate) target: String,
    pub(crate) origin: Origin,
}

/// The file's targets and rules, in its order.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteTable {
    pub(crate) targets: Vec<TargetEntry>,
    pub(crate) routes: Vec<RouteEntry>,
}

/// A file that is read, to say where something stands.
pub(super) struct Reader<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Reader<'_> {
    fn origin(&self, at: usize) -> Origin {
        Origin::File(self.path.to_path_buf(), line_of(self.text, at))
    }

    fn refuse(&self, at: usize, detail: String, advice: impl Into<String>) -> Error {
        Error::invalid(DOING, detail).subject(self.origin(at).to_string()).advice(advice)
    }

    /// Reads the table `target`: a table for each target.
    pub(super) fn targets(&self, of: &Spanned<DeValue<'_>>) -> Result<Vec<TargetEntry>> {
        let example = "write [target.NAME] and to = \"nats://host:4222/STREAM\" below it";
        let DeValue::Table(tables) = of.get_ref() else {
            return Err(self.refuse(of.span().start, "`target` is no table".to_owned(), example));
        };
        let mut targets = Vec::new();
        for (name, table) in tables {
            let at = name.span().start;
            let name = name.get_ref().to_string();
            let DeValue::Table(table) = table.get_ref() else {
                return Err(self.refuse(at, format!("`target.{name}` is no table"), example));
            };
            let mut values = Vec::new();
            self.settings(&name, "", table, &mut values)?;
            if !values.iter().any(|value| value.key == "to") {
                return Err(self.refuse(at, format!("the target `{name}` has no `to`"), example));
            }
            targets.push(TargetEntry { name, values, origin: self.origin(at) });
        }
        // A table has no order of its own; that of the file is what people expect to see.
        targets.sort_by_key(|target| match &target.origin {
            Origin::File(_, line) => *line,
            _ => 0,
        });
        Ok(targets)
    }

    fn settings(
        &self,
        target: &str,
        prefix: &str,
        table: &DeTable<'_>,
        values: &mut Vec<Value>,
    ) -> Result<()> {
        for (name, value) in table {
            let at = name.span().start;
            let key = format!("{prefix}{}", name.get_ref());
            if let (DeValue::Table(inner), true) = (value.get_ref(), key == "webhook") {
                self.settings(target, OF_ONE_TARGET, inner, values)?;
                continue;
            }
            let own = |key: &str| key == "to" || key.starts_with(OF_ONE_TARGET);
            let Some(setting) = table::find(&key).filter(|setting| own(setting.key)) else {
                let known = SETTINGS.iter().map(|setting| setting.key).filter(|key| own(key));
                return Err(self.refuse(
                    at,
                    format!("`target.{target}.{key}` is not a setting of a target"),
                    format!("its settings are {}", known.collect::<Vec<_>>().join(", ")),
                ));
            };
            let text = self.text(&format!("target.{target}.{key}"), value)?;
            value::check(setting.kind, &text).map_err(|why| {
                self.refuse(at, format!("target.{target}.{key}: {why}"), "correct it")
            })?;
            values.push(Value { key: setting.key, text, origin: self.origin(at) });
        }
        Ok(())
    }

    pub(super) fn text(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => {
                Ok(number.as_str().replace('_', ""))
            }
            other => Err(self.refuse(
                value.span().start,
                format!("`{key}` is of type {}", other.type_str()),
                "write a text in quotes or a decimal number",
            )),
        }
    }

    /// Reads the array `route`: a table for each rule.
    pub(super) fn routes(&self, of: &Spanned<DeValue<'_>>) -> Result<Vec<RouteEntry>> {
        let example = "write [[route]], and topics = \"orders.>\" and target = \"NAME\" below it";
        let at = of.span().start;
        let DeValue::Array(rules) = of.get_ref() else {
            return Err(self.refuse(at, "`route` is no list of tables".to_owned(), example));
        };
        let mut routes = Vec::new();
        for rule in rules {
            let at = rule.span().start;
            let DeValue::Table(table) = rule.get_ref() else {
                return Err(self.refuse(at, "`route` is no list of tables".to_owned(), example));
            };
            let (mut topics, mut target) = (None, None);
            for (name, value) in table {
                let key = name.get_ref().as_ref();
                let place = match key {
                    "topics" => &mut topics,
                    "target" => &mut target,
                    _ => {
                        let detail = format!("`route.{key}` is not a setting of a route");
                        return Err(self.refuse(name.span().start, detail, example));
                    }
                };
                *place = Some((self.text(&format!("route.{key}"), value)?, name.span().start));
            }
            let (Some((topics, topics_at)), Some((target, _))) = (topics, target) else {
                let detail = "a route has to have `topics` and `target`".to_owned();
                return Err(self.refuse(at, detail, example));
            };
            let pattern = topics.parse().map_err(|error: Error| {
                error.subject(format!("{}, `{topics}`", self.origin(topics_at)))
            })?;
            routes.push(RouteEntry { topics: pattern, target, origin: self.origin(at) });
        }
        Ok(routes)
    }
}

impl RouteTable {
    /// What can be told without opening anything.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |origin: &Origin, detail: String, advice: String| {
            Err(Error::invalid(DOING, detail).subject(origin.to_string()).advice(advice))
        };
        for route in &self.routes {
            if !self.targets.iter().any(|target| target.name == route.target) {
                let known: Vec<&str> =
                    self.targets.iter().map(|target| target.name.as_str()).collect();
                let detail = format!(
                    "the route for `{}` names the target `{}`, which is not there",
                    route.topics, route.target
                );
                let advice = match known.as_slice() {
                    [] => format!("write [target.{}] with `to`", route.target),
                    known => format!("the targets are {}", known.join(", ")),
                };
                return refuse(&route.origin, detail, advice);
            }
        }
        match self.targets.first() {
            Some(target) if self.routes.is_empty() => refuse(
                &target.origin,
                format!("no route leads to the target `{}`", target.name),
                format!("write [[route]] with topics = \">\" and target = \"{}\"", target.name),
            ),
            _ => Ok(()),
        }
    }
}
