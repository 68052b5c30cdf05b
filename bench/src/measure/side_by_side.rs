//! Contenders side by side: interleaved repeats in one run, medians, and a check of every run.
//!
//! A machine's speed changes from minute to minute, so a ratio is only good between runs that
//! alternate. Each repeat runs every entry once, beginning with another one each time.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::contenders::Contender;
use crate::failure::{Doing, Failure, Result};
use crate::figures::{Run, Series, Summary, tenth};
use crate::ground::Ground;
use crate::measure::{Effort, tell};
use crate::table::{Table, thousands};
use crate::target::Target;
use crate::workload::{Keys, Workload};

/// One contender under one load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// Who.
    pub(crate) contender: Contender,
    /// How keys are spread.
    pub(crate) keys: Keys,
    /// How many messages a run has.
    pub(crate) messages: usize,
}

impl Entry {
    fn title(&self) -> String {
        let keys = match self.keys {
            Keys::None => "no keys".to_owned(),
            Keys::Uniform(count) => format!("{} keys", thousands(f64::from(count))),
            Keys::Zipf(count) => format!("{} keys, Zipf 1.0", thousands(f64::from(count))),
            Keys::One => "one key".to_owned(),
        };
        format!("{}, {keys}", self.contender.title())
    }
}

/// Where the messages of a match go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// To a JetStream stream, which is counted.
    Stream,
    /// Nowhere: the database alone.
    Nowhere,
}

/// What a match found.
#[derive(Debug)]
pub(crate) struct Outcome(Vec<(Entry, Summary)>);

impl Outcome {
    /// The median rate of an entry; 0 where it did not run.
    pub(crate) fn per_s(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(entry, _)| entry.name == name);
        found.map_or(0.0, |(_, summary)| summary.per_s)
    }

    /// `NAME_per_s` for each entry, and everything else under `runs`.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let mut answer = Map::new();
        let mut runs = Map::new();
        for (entry, summary) in &self.0 {
            answer.insert(format!("{}_per_s", entry.name), json!(summary.per_s));
            runs.insert(entry.name.to_owned(), json!(summary));
        }
        answer.insert("runs".to_owned(), Value::Object(runs));
        answer
    }

    /// The table.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(&[
            "design",
            "messages/s",
            "slowest - fastest",
            "CPU us each: client",
            "PostgreSQL",
            "NATS",
            "all",
            "WAL bytes",
            "messages",
            "runs",
        ]);
        for (entry, summary) in &self.0 {
            let cpu = summary.cpu_us;
            table.row(vec![
                entry.title(),
                thousands(summary.per_s),
                format!(
                    "{} - {}",
                    thousands(summary.slowest_per_s),
                    thousands(summary.fastest_per_s)
                ),
                tenth(cpu.client).to_string(),
                tenth(cpu.postgres).to_string(),
                tenth(cpu.nats).to_string(),
                tenth(cpu.total).to_string(),
                thousands(summary.wal_bytes),
                summary.count.to_string(),
                summary.runs.to_string(),
            ]);
        }
        table
    }
}

/// Runs the entries `repeats` times, fewer where time is up, and at least once.
///
/// # Errors
/// The first failure, or the first run in which a message is missing.
pub(crate) async fn side_by_side(
    ground: &Ground,
    entries: &[Entry],
    goal: Goal,
    effort: &Effort,
) -> Result<Outcome> {
    let repeats = 5;
    for entry in entries {
        entry.contender.create(ground).await?;
    }
    // A small run of each that does not count: the first use of everything is slower.
    for entry in entries {
        let warm = Entry { messages: entry.messages.min(2_000), ..*entry };
        run(ground, &warm, goal, 0, effort).await?;
    }
    let mut series = vec![Series::default(); entries.len()];
    for repeat in 0..repeats {
        let begun = Instant::now();
        ground.sample_disk()?;
        for place in 0..entries.len() {
            let index = (place + repeat) % entries.len();
            let entry = &entries[index];
            let run = run(ground, entry, goal, repeat, effort).await?;
            tell(&format!(
                "{} of {repeats}: {}: {}/s",
                repeat + 1,
                entry.title(),
                thousands(run.rate())
            ));
            series[index].push(run);
        }
        if !effort.has_time_for(begun.elapsed()) {
            break;
        }
    }
    let summaries = series.iter().map(Series::summary);
    Ok(Outcome(entries.iter().copied().zip(summaries).collect()))
}

async fn run(
    ground: &Ground,
    entry: &Entry,
    goal: Goal,
    repeat: usize,
    effort: &Effort,
) -> Result<Run> {
    let seed = u64::try_from(repeat).unwrap_or(0);
    let workload = Workload::new(entry.messages, entry.keys, seed);
    let messages = u64::try_from(workload.len()).doing("counting messages")?;
    entry.contender.fill(ground.admin(), &workload).await?;
    let target = match goal {
        Goal::Stream => Target::Stream(Box::new(ground.fresh_stream().await?)),
        Goal::Nowhere => Target::Nowhere,
    };
    let mark = ground.mark().await?;
    // A slow machine gives a figure too: what was done in the time.
    let until = mark.start + Duration::from_secs(effort.pick(3, 30));
    let drained = entry.contender.drain(ground, &target, messages, until).await?;
    let run = ground.since(&mark, drained.settled, drained.end).await?;
    check(ground, entry, goal, messages, drained.settled).await?;
    Ok(run)
}

/// Every message is settled and in the stream, once, or still in the table.
async fn check(
    ground: &Ground,
    entry: &Entry,
    goal: Goal,
    messages: u64,
    settled: u64,
) -> Result<()> {
    let left = entry.contender.left(ground.admin()).await?;
    let gone = messages.saturating_sub(left);
    let arrived = match goal {
        Goal::Stream => ground.stream_messages().await?,
        Goal::Nowhere => gone,
    };
    // What was in flight when the time was up is settled after the count was taken.
    if arrived == gone && settled <= gone && (settled == messages) == (left == 0) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: of {messages} messages {settled} were counted as settled, {left} are left in the \
         table and {arrived} are in the stream",
        entry.title()
    )))
}
