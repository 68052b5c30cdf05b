//! Policies: what a relay does about a message that fails, for all topics or for some.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::message::{RESERVED_PREFIX, TopicPattern};
use crate::relay::backoff::Backoff;
use crate::relay::settings::RelaySettings;

const CHECKING: &str = "checking the relay's settings";

/// What a message that failed holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hold {
    /// Its own key's later messages, until it is published. In quarantine it holds them until
    /// somebody requeues or discards it. The order of first deliveries is kept within each key.
    #[default]
    Key,
    /// Every later message, until it is published. In quarantine it holds nothing: the next one
    /// goes. First deliveries are in the order of all sends, one at a time, from one relay: it owns
    /// every lane, and a second relay stands by and publishes nothing while it does.
    All,
    /// Nothing: the others go on, those of its key as well.
    None,
}

impl Hold {
    /// The word that settings and logs have for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::All => "all",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Hold {
    type Err = Error;

    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for anything but `key`, `all` and `none`.
    fn from_str(word: &str) -> Result<Self> {
        [Self::Key, Self::All, Self::None]
            .into_iter()
            .find(|hold| hold.as_str() == word)
            .ok_or_else(|| {
                Error::invalid("reading what a failed message holds", "write key, all or none")
            })
    }
}

/// What is done about a message that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What it holds back.
    pub hold: Hold,
    /// How long it waits before its next attempt.
    pub backoff: Backoff,
    /// Quarantine it after this many failed attempts of its own; `None` for never.
    pub attempts_max: Option<u32>,
    /// How long one publish of it may take. Below the lease.
    pub publish_timeout: Duration,
}

impl Policy {
    /// Checks every value, and the timeout against the relay's lease.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the first value that is out of range, and the range.
    pub fn check(&self, lease: Duration) -> Result<()> {
        let refuse = |what: &str| Err(Error::invalid(CHECKING, what));
        if self.publish_timeout < Duration::from_millis(1) {
            return refuse("the publish timeout has to be at least 1 ms");
        }
        if self.publish_timeout >= lease {
            // A publish that outlives the lease would run beside the next owner's.
            return refuse("the publish timeout has to be shorter than the lease");
        }
        if self.attempts_max == Some(0) {
            return refuse("the limit on attempts has to be at least 1");
        }
        self.backoff.check()
    }
}

/// What is different for some topics. What is `None` is as for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// For messages to these topics.
    pub topics: TopicPattern,
    /// What one that fails holds back: [`Hold::Key`] or [`Hold::None`].
    pub hold: Option<Hold>,
    /// How long a failed one waits.
    pub backoff: Option<Backoff>,
    /// How many attempts one has; `Some(None)` for any number of them.
    pub attempts_max: Option<Option<u32>>,
    /// How long one publish may take. Topics with a timeout of their own are published one by one,
    /// also where the target takes many messages at once.
    pub publish_timeout: Option<Duration>,
}

impl Override {
    /// An override for these topics that changes nothing yet.
    #[must_use]
    pub fn of(topics: TopicPattern) -> Self {
        Self { topics, hold: None, backoff: None, attempts_max: None, publish_timeout: None }
    }

    fn over(&self, base: &Policy) -> Policy {
        Policy {
            hold: self.hold.unwrap_or(base.hold),
            backoff: self.backoff.unwrap_or(base.backoff),
            attempts_max: self.attempts_max.unwrap_or(base.attempts_max),
            publish_timeout: self.publish_timeout.unwrap_or(base.publish_timeout),
        }
    }

    fn check(&self, base: &Policy, lease: Duration) -> Result<()> {
        let refuse = |what: &str| Err(Error::invalid(CHECKING, what));
        if self.hold == Some(Hold::All) {
            return refuse("`hold = all` is for the whole relay and cannot be an override");
        }
        if self.hold.is_some() && base.hold == Hold::All {
            return refuse("under `hold = all` every topic holds all: an override cannot set hold");
        }
        self.over(base).check(lease)
    }
}

/// The policy of each topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    base: Policy,
    overrides: Vec<(TopicPattern, Policy)>,
}

impl Policies {
    /// `base`, but for the topics of `overrides`, of which the first that matches decides.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] names the first value that is out of range, by itself, beside
    /// another or against the lease, and the topics that it is for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sendoff_core::relay::{Hold, Override, Policies, RelaySettings};
    ///
    /// let base = RelaySettings::default().policy();
    /// let metrics = Override { hold: Some(Hold::None), ..Override::of("metrics.>".parse()?) };
    /// let policies = Policies::new(base, &[metrics], Duration::from_secs(10))?;
    /// assert_eq!(policies.policy_of("metrics.cpu").hold, Hold::None);
    /// assert_eq!(policies.policy_of("orders.placed").hold, Hold::Key);
    /// # Ok::<(), sendoff_core::Error>(())
    /// ```
    pub fn new(base: Policy, overrides: &[Override], lease: Duration) -> Result<Self> {
        base.check(lease)?;
        for one in overrides {
            one.check(&base, lease)
                .map_err(|error| error.subject(format!("the override for {}", one.topics)))?;
        }
        let overrides = overrides.iter().map(|one| (one.topics.clone(), one.over(&base))).collect();
        Ok(Self { base, overrides })
    }

    /// One policy for every topic.
    pub(super) fn same(base: Policy) -> Self {
        Self { base, overrides: Vec::new() }
    }

    /// Those of a relay's settings.
    ///
    /// # Errors
    /// As for [`Policies::new`].
    pub fn of(settings: &RelaySettings) -> Result<Self> {
        Self::new(settings.policy(), &settings.overrides, settings.lease)
    }

    /// The policy of messages to a topic. The product's own topics have the relay's.
    #[must_use]
    pub fn policy_of(&self, topic: &str) -> &Policy {
        let matching = self.overrides.iter().find(|(topics, _)| topics.matches(topic));
        match matching {
            Some((_, policy)) if !topic.starts_with(RESERVED_PREFIX) => policy,
            _ => &self.base,
        }
    }

    /// The policy of topics without an override, and of rows whose topic is not known.
    #[must_use]
    pub fn base(&self) -> &Policy {
        &self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn of(topics: &str) -> Override {
        Override::of(topics.parse().unwrap())
    }

    #[test]
    fn the_first_override_that_matches_decides() {
        let base = RelaySettings::default().policy();
        let policies = Policies::new(
            base,
            &[
                Override { attempts_max: Some(Some(5)), ..of("orders.placed") },
                Override { hold: Some(Hold::None), ..of("orders.>") },
                Override { attempts_max: Some(Some(9)), ..of(">") },
            ],
            LEASE,
        )
        .unwrap();
        let placed = policies.policy_of("orders.placed");
        assert_eq!((placed.attempts_max, placed.hold), (Some(5), Hold::Key));
        let other = policies.policy_of("orders.paid");
        assert_eq!((other.attempts_max, other.hold), (None, Hold::None));
        assert_eq!(policies.policy_of("x").attempts_max, Some(9));
        assert_eq!(policies.policy_of("$sendoff.barrier"), &base, "an errand is the relay's own");
    }

    #[test]
    fn an_override_that_cannot_be_is_refused_with_its_topics() {
        let key = RelaySettings::default();
        let all = RelaySettings { hold: Hold::All, ..RelaySettings::default() };
        for (settings, bad, why) in [
            (&key, Override { hold: Some(Hold::All), ..of("a") }, "cannot be an override"),
            (&all, Override { hold: Some(Hold::None), ..of("a") }, "cannot set hold"),
            (&key, Override { publish_timeout: Some(LEASE), ..of("a") }, "shorter than the lease"),
            (&key, Override { attempts_max: Some(Some(0)), ..of("a") }, "at least 1"),
        ] {
            let settings = RelaySettings { overrides: vec![of("b"), bad], ..settings.clone() };
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("the override for a"), "{error}");
        }
    }

    #[test]
    fn the_words_of_hold_are_read_back() {
        for hold in [Hold::Key, Hold::All, Hold::None] {
            assert_eq!(hold.to_string().parse::<Hold>().unwrap(), hold);
        }
        assert!("lane".parse::<Hold>().is_err());
    }
}
