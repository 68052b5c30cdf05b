//! What a run has to say, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::ground::{StoreKind, TargetKind};
use crate::ledger::Findings;
use crate::marks::{Counts, Phase};
use crate::round::{Fault, Strike};

/// What a run has to say.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Run with `--seed` again.
    pub seed: u64,
    /// The database.
    pub store: StoreKind,
    /// The broker.
    pub target: TargetKind,
    /// Rounds that counted.
    pub rounds: u64,
    /// Strikes that landed in nothing, did not count and were done again.
    pub struck_nothing: u64,
    /// Where the strikes landed, by fault.
    pub landed: BTreeMap<Fault, Landed>,
    /// Transactions that were rolled back on purpose.
    pub rolled_back: u64,
    /// Transactions that a crash broke, at a point that nobody knows.
    pub broken: u64,
    /// Verdicts of relays that came too late and were fenced.
    pub fenced: u64,
    /// Of these, those that were fenced while their relay's lease lasted. Has to be 0.
    pub fenced_early: u64,
    /// Publishes that began after their lease was over, but for one for each time that a relay was
    /// stopped, which may have been just before the publish. Has to be 0.
    pub published_late: u64,
    /// Retries and quarantines that the database took from a relay which did not own the row's lane.
    /// Has to be 0.
    pub foreign_verdicts: u64,
    /// How often everything was drained and compared.
    pub comparisons: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The comparison.
    #[serde(flatten)]
    pub findings: Findings,
}

impl Outcome {
    /// Whether everything is as promised.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.findings.kept() && self.fenced_early + self.published_late + self.foreign_verdicts == 0
    }
}

/// Where the strikes of one fault landed.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Landed {
    /// How many rounds it had.
    pub rounds: u64,
    /// In how many of them a phase had something in it.
    pub rounds_in_phase: Counts,
    /// How many messages were in each phase, all rounds together.
    pub messages_in_phase: Counts,
}

impl Landed {
    /// Books a strike.
    pub fn book(&mut self, strike: &Strike) {
        self.rounds += 1;
        self.messages_in_phase += strike.counts;
        self.rounds_in_phase += Counts(strike.counts.0.map(|count| u64::from(count > 0)));
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:?} to {:?}, seed {}: {} rounds in {:.0} s ({} strikes landed in nothing and were done again)",
            self.store, self.target, self.seed, self.rounds, self.seconds, self.struck_nothing
        )?;
        writeln!(f, "\nrounds that landed in a phase (messages that were in it):")?;
        write!(f, "  {:<36}{:>7}", "", "rounds")?;
        for phase in Phase::COUNTED {
            write!(f, "{:>16}", phase.as_str())?;
        }
        writeln!(f)?;
        for (fault, landed) in &self.landed {
            write!(f, "  {:<36}{:>7}", fault.as_str(), landed.rounds)?;
            let phases = landed.rounds_in_phase.0.iter().zip(landed.messages_in_phase.0);
            for (rounds, messages) in phases {
                write!(f, "{:>16}", format!("{rounds} ({messages})"))?;
            }
            writeln!(f)?;
        }
        let found = &self.findings;
        writeln!(
            f,
            "\n{} orders committed, {} transactions rolled back, {} broken by a crash, compared {} times",
            found.committed, self.rolled_back, self.broken, self.comparisons
        )?;
        writeln!(
            f,
            "{} deliveries, {} explained duplicates ({} of them by a publish timeout and {} by a lapsed lease on a slow machine), {} verdicts fenced",
            found.arrived,
            found.duplicates_explained,
            found.duplicates_after_timeout,
            found.duplicates_after_lapse,
            self.fenced
        )?;
        for (what, count) in [
            ("lost", found.lost),
            ("arrived without a commit", found.never_committed),
            ("out of order within a key", found.out_of_order),
            ("duplicates that no fault explains", found.duplicates_unexplained),
            ("under a wrong id", found.wrong_id),
            ("altered", found.altered),
            ("fenced while their lease lasted", self.fenced_early),
            ("published after their lease", self.published_late),
            ("verdicts on what another owns", self.foreign_verdicts),
        ] {
            writeln!(f, "{count:>8} {what}")?;
        }
        for example in &found.examples {
            writeln!(f, "         {example}")?;
        }
        Ok(())
    }
}
