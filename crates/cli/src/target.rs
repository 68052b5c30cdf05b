//! Targets from URLs: `nats://host:4222/STREAM`, `https://host/path`, `file:out.jsonl`, `stdout:`; one
//! that takes everything, or those of the file by its routes.
//!
//! What does not belong here: how a URL is read, which each broker's own module knows.

use std::sync::Arc;

use sendoff::publisher::Publisher;
use sendoff::relay::Routes;
use sendoff::{Error, Target};

use crate::configuration::{Configuration, FILE_DEFAULT, Origin};
use crate::exit::Failure;

const DOING: &str = "opening the target";
const EXAMPLES: &str = "write nats://host:4222/STREAM, https://host/path, file:out.jsonl, \
                        file:/data/out.jsonl or stdout:";

/// Where a relay publishes to.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) routes: Routes,
    /// The URLs, without passwords.
    pub(crate) shown: String,
    /// Whether messages go to this process's standard output.
    pub(crate) is_stdout: bool,
}

impl Targets {
    /// Opens the target that the configuration names, or all of its routes' targets. Brokers are
    /// connected to later, by the relay.
    ///
    /// # Errors
    /// No target is named, a URL is malformed, a setting of its kind is out of range, or its file
    /// is another process's.
    pub(crate) fn open(configuration: &Configuration) -> Result<Self, Failure> {
        let routes = configuration.routes();
        let Some(to) = configuration.set("to") else {
            if routes.targets.is_empty() {
                return Err(nowhere().into());
            }
            return Self::routed(configuration);
        };
        if !routes.targets.is_empty() {
            if let Origin::File(..) = to.origin {
                return Err(both(&to.origin).into());
            }
            tracing::warn!("{} is given, so the routes of the file are not used", to.origin);
        }
        let (publisher, shown) = open(configuration, &to.text)?;
        let is_stdout = is_stdout(&to.text);
        Ok(Self { routes: Routes::single(publisher), shown, is_stdout })
    }

    fn routed(configuration: &Configuration) -> Result<Self, Failure> {
        let table = configuration.routes();
        let mut routes = Routes::builder();
        let mut shown = Vec::new();
        let mut to_stdout = false;
        for target in &table.targets {
            let own = configuration.of_target(target);
            let url = own.text("to").unwrap_or_default();
            let (publisher, address) = open(&own, url).map_err(|error| {
                error.subject(format!("{}, target `{}`", target.origin, target.name))
            })?;
            to_stdout |= is_stdout(url);
            shown.push(format!("{} ({address})", target.name));
            routes = routes.target(&target.name, publisher);
        }
        for rule in &table.routes {
            routes = routes.rule(rule.topics.clone(), &rule.target);
        }
        Ok(Self { routes: routes.build()?, shown: shown.join(", "), is_stdout: to_stdout })
    }
}

fn open(configuration: &Configuration, url: &str) -> Result<(Arc<dyn Publisher>, String), Error> {
    let target = Target::read(url)?;
    Ok((target.open_with(&configuration.target()?)?, target.to_string()))
}

fn is_stdout(url: &str) -> bool {
    url.starts_with("stdout:")
}

fn nowhere() -> Error {
    Error::invalid(DOING, "no target is named").advice(format!(
        "give --to, set SENDOFF_TO, or set `to` or [target.NAME] and [[route]] in {FILE_DEFAULT}; \
         {EXAMPLES}"
    ))
}

fn both(origin: &Origin) -> Error {
    Error::invalid(DOING, "there are both `to` and routes, and only one can say where messages go")
        .subject(origin.to_string())
        .advice("delete `to`, or the [target.NAME] and [[route]] tables")
}
