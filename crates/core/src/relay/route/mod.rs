//! Routes: which target a message goes to, by its topic.
//!
//! Named targets, and rules in order: the first whose pattern matches the topic decides. A message
//! that no rule takes goes to quarantine with the reason `no_route`; it is never dropped.
//!
//! What does not belong here: what becomes of a target that is down. See `engine/outlet.rs`.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message::{Limits, TopicPattern};
use crate::publisher::Publisher;
use crate::store::ParkedFor;
use crate::store::clean_error;

/// What the one target of a relay without routes is called, for pauses.
pub const TARGET_DEFAULT: &str = "default";

/// The most targets of one relay: each has a share of its memory.
pub const TARGETS_MAX: usize = 64;

/// Where messages go: named targets, and the rules that pick one of them.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::memory::{MemoryPublisher, MemoryStore};
/// use sendoff_core::relay::{Relay, Routes};
///
/// let routes = Routes::builder()
///     .target("mail", Arc::new(MemoryPublisher::new()))
///     .target("events", Arc::new(MemoryPublisher::new()))
///     .rule("mail.>".parse()?, "mail")
///     .rule("orders.>".parse()?, "events")
///     .build()?;
/// let relay = Relay::routed(Arc::new(MemoryStore::new()), routes).build()?;
/// # drop(relay);
/// # Ok::<(), sendoff_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Routes {
    targets: Vec<Target>,
    rules: Vec<(TopicPattern, usize)>,
    /// The first rule takes every topic: no topic has to be compared.
    takes_all: Option<usize>,
}

/// A target of the routes. What is set for one target only belongs here.
#[derive(Clone)]
pub(crate) struct Target {
    name: Box<str>,
    pub(crate) publisher: Arc<dyn Publisher>,
    /// The mark of what is parked for it.
    pub(crate) mark: Arc<str>,
}

impl Target {
    fn new(name: &str, publisher: Arc<dyn Publisher>) -> Self {
        let mark = ParkedFor::Target(name.to_owned()).mark().into();
        Self { name: name.into(), publisher, mark }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Routes {
    /// Begins routes.
    #[must_use = "routes are built by `build`"]
    pub fn builder() -> RoutesBuilder {
        RoutesBuilder { targets: Vec::new(), rules: Vec::new() }
    }

    /// One target for every topic. Its name is [`TARGET_DEFAULT`].
    #[must_use]
    pub fn single(publisher: Arc<dyn Publisher>) -> Self {
        Self {
            targets: vec![Target::new(TARGET_DEFAULT, publisher)],
            rules: vec![(TopicPattern::any(), 0)],
            takes_all: Some(0),
        }
    }

    /// The name of the target that takes the topic; `None` where no rule does.
    #[must_use]
    pub fn target_of(&self, topic: &str) -> Option<&str> {
        self.place_of(topic).map(|place| self.targets[place].name())
    }

    /// The target, where there is one and it takes every topic.
    #[must_use]
    pub fn sole(&self) -> Option<Arc<dyn Publisher>> {
        match self.targets.as_slice() {
            [target] if self.rules.iter().any(|(topics, _)| *topics == TopicPattern::any()) => {
                Some(Arc::clone(&target.publisher))
            }
            _ => None,
        }
    }

    /// The names of the targets with their addresses, for people.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.targets.iter().map(|target| (target.name(), target.publisher.address()))
    }

    pub(crate) fn list(&self) -> &[Target] {
        &self.targets
    }

    pub(crate) fn place_of(&self, topic: &str) -> Option<usize> {
        if self.takes_all.is_some() {
            return self.takes_all;
        }
        let rule = self.rules.iter().find(|(pattern, _)| pattern.matches(topic));
        rule.map(|(_, place)| *place)
    }

    /// All targets as a store keeps them beside the relay.
    pub(crate) fn shown_all(&self) -> String {
        let all: Vec<String> = (0..self.targets.len()).map(|place| self.shown(place)).collect();
        clean_error(&all.join(", "))
    }

    /// The target for people: its address, and its name where there are several.
    pub(crate) fn shown(&self, place: usize) -> String {
        let Some(target) = self.targets.get(place) else {
            return String::new();
        };
        match self.targets.len() {
            1 => target.publisher.address().to_owned(),
            _ => format!("{} ({})", target.name, target.publisher.address()),
        }
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(|(pattern, place)| (pattern, &self.targets[*place].name));
        f.debug_struct("Routes")
            .field("targets", &self.targets().collect::<Vec<_>>())
            .field("rules", &rules.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Builds [`Routes`].
#[derive(Debug)]
#[must_use = "routes are built by `build`"]
pub struct RoutesBuilder {
    targets: Vec<(String, Arc<dyn Publisher>)>,
    rules: Vec<(TopicPattern, String)>,
}

impl RoutesBuilder {
    /// Adds a target under a name.
    pub fn target(mut self, name: impl Into<String>, publisher: Arc<dyn Publisher>) -> Self {
        self.targets.push((name.into(), publisher));
        self
    }

    /// Adds a rule behind those that are there: topics of the pattern go to the target of that name.
    pub fn rule(mut self, topics: TopicPattern, target: impl Into<String>) -> Self {
        self.rules.push((topics, target.into()));
        self
    }

    /// Checks the routes and gives them.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where there is no target or no rule, where two targets have one
    /// name or there are more than [`TARGETS_MAX`], for a name that is empty, longer than 255 bytes or
    /// has characters other than letters, digits, `-`, `_` and `.`, and where a rule names a target
    /// that is not there. It says which.
    pub fn build(self) -> Result<Routes> {
        let Self { targets, rules } = self;
        if targets.is_empty() {
            return Err(refused("there is no target"));
        }
        if targets.len() > TARGETS_MAX {
            let count = targets.len();
            return Err(refused(format!(
                "there are {count} targets, at most {TARGETS_MAX} may be"
            )));
        }
        for (place, (name, _)) in targets.iter().enumerate() {
            check_name(name)?;
            if targets[..place].iter().any(|(earlier, _)| earlier == name) {
                return Err(refused(format!("two targets are called `{name}`")));
            }
        }
        if rules.is_empty() {
            return Err(refused("there is no rule, so no message would leave"));
        }
        let rules = rules
            .into_iter()
            .map(|(topics, target)| {
                let place = targets.iter().position(|(name, _)| *name == target);
                let place = place.ok_or_else(|| unknown(&topics, &target, &targets))?;
                Ok((topics, place))
            })
            .collect::<Result<Vec<_>>>()?;
        let takes_all = rules.first().filter(|(topics, _)| *topics == TopicPattern::any());
        Ok(Routes {
            takes_all: takes_all.map(|(_, place)| *place),
            targets: targets.into_iter().map(|(name, to)| Target::new(&name, to)).collect(),
            rules,
        })
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > Limits::NAME_BYTES_MAX || !name.chars().all(plain) {
        return Err(refused(format!(
            "the target's name `{name}` has to be 1 to 255 letters, digits, `-`, `_` and `.`"
        )));
    }
    Ok(())
}

fn unknown(topics: &TopicPattern, target: &str, targets: &[(String, Arc<dyn Publisher>)]) -> Error {
    let known: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
    refused(format!("the rule for `{topics}` names the target `{target}`, which is not there"))
        .advice(format!("the targets are {}", known.join(", ")))
}

fn refused(what: impl Into<String>) -> Error {
    Error::invalid("building the routes", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPublisher;

    fn two() -> RoutesBuilder {
        Routes::builder()
            .target("mail", Arc::new(MemoryPublisher::new()))
            .target("events", Arc::new(MemoryPublisher::new()))
    }

    fn topics(text: &str) -> TopicPattern {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let routes = two()
            .rule(topics("mail.bulk.>"), "events")
            .rule(topics("mail.>"), "mail")
            .rule(topics("*.placed"), "events")
            .build()
            .unwrap();
        for (topic, target) in [
            ("mail.bulk.news", Some("events")),
            ("mail.welcome", Some("mail")),
            ("orders.placed", Some("events")),
            ("orders.eu.placed", None),
            ("mail", None),
        ] {
            assert_eq!(routes.target_of(topic), target, "{topic}");
        }
    }

    #[test]
    fn a_rule_for_everything_takes_everything_only_where_it_is_reached() {
        let first = two().rule(topics(">"), "mail").rule(topics("a"), "events").build().unwrap();
        assert_eq!(first.target_of("a"), Some("mail"));
        let last = two().rule(topics("a"), "events").rule(topics(">"), "mail").build().unwrap();
        assert_eq!((last.target_of("a"), last.target_of("b")), (Some("events"), Some("mail")));
        let single = Routes::single(Arc::new(MemoryPublisher::new()));
        assert_eq!(single.target_of("whatever"), Some(TARGET_DEFAULT));
    }

    #[test]
    fn what_cannot_work_is_refused_and_says_which() {
        let publisher = || Arc::new(MemoryPublisher::new());
        for (builder, words) in [
            (Routes::builder().rule(topics(">"), "mail"), "no target"),
            (two(), "no rule"),
            (
                two().target("mail", publisher()).rule(topics(">"), "mail"),
                "two targets are called `mail`",
            ),
            (two().rule(topics("a.>"), "post"), "the rule for `a.>` names the target `post`"),
            (two().target("a b", publisher()).rule(topics(">"), "mail"), "the target's name `a b`"),
            (two().target("", publisher()).rule(topics(">"), "mail"), "the target's name ``"),
        ] {
            let error = builder.build().unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        let many = (0..=TARGETS_MAX)
            .fold(Routes::builder(), |routes, n| routes.target(format!("t{n}"), publisher()));
        let error = many.rule(topics(">"), "t0").build().unwrap_err().to_string();
        assert!(error.contains("65 targets"), "{error}");
    }
}
