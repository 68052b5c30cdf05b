//! Alerts: when a backlog is told, and when it is told that it is over. Pure state.

use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::relay::report::Report;
use crate::store::Backlog;

/// The highest bound on a count: so far it is counted, however many there are.
pub const COUNT_BOUND_MAX: u32 = 1_000_000;

/// When the backlog is reported. Nothing is counted while no bound is set.
///
/// An alert is told once when its bound is reached, and once when no more than half of the bound is
/// left. Of the relays on one store the owner of the first lane counts; another one that takes that
/// lane over tells anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertSettings {
    /// Between two counts; longer where a count takes long. Default 10 s.
    pub every: Duration,
    /// The oldest due message is so old. Default: not told.
    pub age: Option<Duration>,
    /// So many messages are due, at most [`COUNT_BOUND_MAX`]. Default: not told.
    pub backlog: Option<u32>,
    /// So many messages are held, at most [`COUNT_BOUND_MAX`]. Default: not told.
    pub held: Option<u32>,
    /// So many messages are in quarantine, at most [`COUNT_BOUND_MAX`]. Default: not told.
    pub quarantined: Option<u32>,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(10),
            age: None,
            backlog: None,
            held: None,
            quarantined: None,
        }
    }
}

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Alert {
    /// The oldest due message is too old.
    Age,
    /// Too many messages are due.
    Backlog,
    /// Too many messages are held.
    Held,
    /// Too many messages are in quarantine.
    Quarantined,
}

impl Alert {
    /// The alert as a word: `age`, `backlog`, `held`, `quarantined`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Backlog => "backlog",
            Self::Held => "held",
            Self::Quarantined => "quarantined",
        }
    }
}

impl AlertSettings {
    /// Checks every bound.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::invalid("checking the relay's settings", what));
        if self.every < Duration::from_millis(100) || self.every > Duration::from_secs(86_400) {
            return refuse("the time between two counts for alerts has to be from 100 ms to a day");
        }
        if self.age.is_some_and(|age| age < Duration::from_millis(1)) {
            return refuse("the age that is alerted has to be at least 1 ms");
        }
        let counts = [self.backlog, self.held, self.quarantined];
        if counts.into_iter().flatten().any(|bound| bound == 0 || bound > COUNT_BOUND_MAX) {
            return refuse("a count that is alerted has to be from 1 to 1,000,000");
        }
        Ok(())
    }

    /// Whether any is set.
    pub(super) fn any(&self) -> bool {
        self.age.is_some() || self.count_max().is_some()
    }

    /// How far it has to be counted.
    pub(super) fn count_max(&self) -> Option<u32> {
        [self.backlog, self.held, self.quarantined].into_iter().flatten().max()
    }
}

/// Which alerts are raised.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    raised: Vec<Alert>,
}

impl Alerts {
    /// Whether one is raised, whose end is still to be told.
    pub(super) fn any(&self) -> bool {
        !self.raised.is_empty()
    }

    /// What a count has to tell.
    pub(super) fn check(&mut self, settings: &AlertSettings, backlog: &Backlog) -> Vec<Report> {
        let mut told = Vec::new();
        if let Some(bound) = settings.age {
            let oldest_due = backlog.oldest_due.unwrap_or_default();
            let report = Report::Lagging { oldest_due, bound };
            let (over, back) = (oldest_due >= bound, oldest_due <= bound / 2);
            told.extend(self.turn(Alert::Age, over, back, report));
        }
        let counts = [
            (Alert::Backlog, settings.backlog, backlog.due),
            (Alert::Held, settings.held, backlog.held),
            (Alert::Quarantined, settings.quarantined, backlog.quarantined),
        ];
        for (alert, bound, count) in counts {
            let Some(bound) = bound.map(u64::from) else { continue };
            let report = Report::Growing { alert, count, bound };
            told.extend(self.turn(alert, count >= bound, count <= bound / 2, report));
        }
        told
    }

    fn turn(&mut self, alert: Alert, over: bool, back: bool, raise: Report) -> Option<Report> {
        let raised = self.raised.contains(&alert);
        if over && !raised {
            self.raised.push(alert);
            return Some(raise);
        }
        if back && raised {
            self.raised.retain(|other| *other != alert);
            return Some(Report::Recovered { alert });
        }
        None
    }
}
