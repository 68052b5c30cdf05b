//! Findings: what an examination of a store or a target says.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::{Schema, SchemaState, Stats};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As it should be.
    Ok,
    /// It works, and something should be looked at.
    Warning,
    /// It does not work, or a promise does not hold.
    Failure,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check's name, which scripts may rely on.
    pub check: &'static str,
    /// How it ended.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What to do, where something is to be done.
    pub next: Option<String>,
}

impl Finding {
    /// As it should be.
    #[must_use]
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, grade: Grade::Ok, found: found.into(), next: None }
    }

    /// Something to look at, and what to do.
    #[must_use]
    pub fn warning(check: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, grade: Grade::Warning, found: found.into(), next: Some(next.into()) }
    }

    /// Something that does not work, and what to do.
    #[must_use]
    pub fn failure(check: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, grade: Grade::Failure, found: found.into(), next: Some(next.into()) }
    }
}

/// From where on a check is no more as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The age of a transaction that is still open. 10 minutes unless set otherwise.
    pub old_transaction: Duration,
    /// The age of the oldest due message. 1 minute unless set otherwise.
    pub oldest_due: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { old_transaction: Duration::from_secs(600), oldest_due: Duration::from_secs(60) }
    }
}

/// Examines itself. Reads only, and bounded: a doctor's visit changes nothing.
#[async_trait]
pub trait Doctor: fmt::Debug + Send + Sync + 'static {
    /// Every check that can be made, in the order in which a person would want to read it. What
    /// makes further checks impossible is the last finding.
    async fn examine(&self, limits: &Limits) -> Vec<Finding>;
}

/// What the schema's state means for whoever works with it.
#[must_use]
pub fn judge_schema(schema: &Schema) -> Finding {
    const CHECK: &str = "schema";
    let version = schema.version;
    match schema.state {
        SchemaState::Current => Finding::ok(CHECK, format!("version {version}, as needed")),
        SchemaState::Newer => Finding::ok(
            CHECK,
            format!("version {version} is newer than {} and may be used", schema.needed),
        ),
        SchemaState::Missing if version == 0 => {
            Finding::failure(CHECK, "it was never migrated", "run `sendoff migrate`")
        }
        SchemaState::Missing => Finding::failure(
            CHECK,
            format!(
                "version {version}, {} is needed; missing: {}",
                schema.needed,
                schema.missing.join(", ")
            ),
            "run `sendoff migrate`",
        ),
        SchemaState::TooNew => Finding::failure(
            CHECK,
            format!("version {version} is newer than this program may use"),
            "use the program that migrated it",
        ),
        SchemaState::Changed => Finding::failure(
            CHECK,
            schema.changed_words(),
            "use one release, as it was published, for everything",
        ),
    }
}

/// What every store's counts say: what waits, what is set aside, who works. `blocking` are ids that a
/// person should begin with.
#[must_use]
pub fn judge_stats(stats: &Stats, blocking: &[String], limits: &Limits) -> Vec<Finding> {
    let begin_with = match blocking {
        [] => String::new(),
        ids => format!("; begin with {}", ids.join(", ")),
    };
    let quarantined = match stats.quarantined {
        0 => Finding::ok("quarantined", "nothing is in quarantine"),
        count => Finding::warning(
            "quarantined",
            format!("{count} in quarantine{begin_with}"),
            "`sendoff quarantine list` says why; mend the cause, then `sendoff quarantine requeue`",
        ),
    };
    let held = match stats.held {
        0 => Finding::ok("held", "nothing is held"),
        count => Finding::warning(
            "held",
            format!("{count} held behind an earlier message of their key{begin_with}"),
            "`sendoff show ID` says what a message waits for",
        ),
    };
    vec![quarantined, held, judge_due(stats, limits), judge_lanes(stats)]
}

fn judge_due(stats: &Stats, limits: &Limits) -> Finding {
    let age = Duration::from_millis(stats.oldest_due_ms.unwrap_or(0));
    let found = match stats.oldest_due_ms {
        None => "nothing is due".to_owned(),
        Some(_) => format!("{} due, the oldest since {} s", stats.due, age.as_secs()),
    };
    if age < limits.oldest_due {
        return Finding::ok("oldest-due", found);
    }
    let next = "see whether a relay runs, and in its log whether its target is down";
    Finding::warning("oldest-due", found, next)
}

fn judge_lanes(stats: &Stats) -> Finding {
    let found = format!(
        "{} of {} lanes are leased by {} relays",
        stats.lanes_leased, stats.lanes, stats.relays
    );
    match (stats.lanes_leased < stats.lanes, stats.due) {
        (false, _) => Finding::ok("lanes", found),
        (true, 0) => Finding::warning("lanes", found, "start `sendoff relay`"),
        (true, due) => Finding::failure(
            "lanes",
            format!("{found}, and {due} messages are due"),
            "start `sendoff relay`; a relay that died has its lanes until its lease lapses",
        ),
    }
}

/// Whether the live relays are all of this program's version. `None` is one from before relays said so.
#[must_use]
pub fn judge_versions(versions: &[Option<String>], own: &str) -> Finding {
    let name = |version: &Option<String>| {
        version.clone().unwrap_or_else(|| "one that does not say its version".to_owned())
    };
    let others: Vec<String> =
        versions.iter().filter(|version| version.as_deref() != Some(own)).map(name).collect();
    if others.is_empty() {
        return Finding::ok("versions", format!("every live relay is of version {own}"));
    }
    Finding::warning(
        "versions",
        format!("beside version {own} there are relays of: {}", others.join(", ")),
        "fine while you exchange them; what an older one publishes is not kept by a retention that \
         it does not know",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_without_an_owner_are_a_failure_once_something_is_due() {
        let grade = |lanes_leased, due| {
            let stats = Stats { lanes: 64, lanes_leased, due, ..Stats::default() };
            judge_lanes(&stats).grade
        };
        assert_eq!(grade(64, 5), Grade::Ok);
        assert_eq!(grade(0, 0), Grade::Warning);
        assert_eq!(grade(63, 1), Grade::Failure);
    }

    #[test]
    fn a_relay_of_another_version_is_named() {
        let versions = [Some("1.0".to_owned()), None, Some("0.9".to_owned())];
        let found = judge_versions(&versions, "1.0");
        assert_eq!(found.grade, Grade::Warning);
        assert!(found.found.contains("0.9") && !found.found.contains("1.0,"), "{found:?}");
        assert_eq!(judge_versions(&versions[..1], "1.0").grade, Grade::Ok);
    }
}
