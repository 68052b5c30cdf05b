//! The measurements. Each answers with a table for people and one JSON object for programs.
//!
//! How contenders work is in `contenders`; which of them meet, under which load and how often, is
//! decided here.

pub(crate) mod barrier;
pub(crate) mod claim;
pub(crate) mod drain;
pub(crate) mod envelope;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod relay_nats;
pub(crate) mod send;
mod side_by_side;
pub(crate) mod soak;

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// What a measurement found.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For people: Markdown.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Map<String, Value>,
}

/// How long a measurement may take, how often it repeats and what is left out.
#[derive(Debug, Clone)]
pub(crate) struct Effort {
    /// Whether an answer within 50 seconds is wanted.
    pub(crate) quick: bool,
    /// No repeat begins that would likely end after this.
    deadline: Instant,
    /// The only entries to run, by their names in JSON; all of them where it is empty.
    only: Vec<String>,
}

impl Effort {
    /// `quick` bounds a measurement to 36 seconds after `begun`, and else to some minutes. The
    /// servers' start counts where it came after `begun`.
    pub(crate) fn new(begun: Instant, quick: bool, only: &[String]) -> Self {
        let time = Duration::from_secs(if quick { 36 } else { 300 });
        Self { quick, deadline: begun + time, only: only.to_vec() }
    }

    /// Whether an entry is to run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// `quick` or the other, whichever effort this is.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Whether another round fits that takes as long as the last one.
    pub(crate) fn has_time_for(&self, round: Duration) -> bool {
        Instant::now() + round < self.deadline
    }
}

/// Says on the stream that is not the answer how far the measurement is.
pub(crate) fn tell(what: &str) {
    use std::io::Write;
    // Nobody may be reading any more; the measurement goes on.
    let _ = writeln!(std::io::stderr(), "bench: {what}");
}
