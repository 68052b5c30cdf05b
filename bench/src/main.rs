//! Measurements of Sendoff and of two other ways to drain an outbox, side by side in one run.
//!
//! Programs, not tests: nothing here turns red for being slow. It reads from the top down:
//!
//! - [`mod@measure`]: which measurements there are, and what they answer.
//! - [`contenders`]: the product's design and the two it is compared with; [`product`]: the product
//!   as a user runs it; [`target`]: where messages go; [`noting`]: when they were confirmed.
//! - [`writers`], [`schedule`], [`workload`]: who sends, when, and what.
//! - [`ground`]: the private servers; [`machine`]: the disk and the processor time.
//! - [`figures`], [`table`]: arithmetic and text; [`failure`]: why a measurement ended early.
//!
//! Start it with `bench/run NAME`. `docs/explanation/measurements.md` has the tables.

mod contenders;
mod failure;
mod figures;
mod ground;
mod machine;
mod measure;
mod noting;
mod product;
mod schedule;
mod table;
mod target;
mod workload;
mod writers;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use serde_json::{Map, Value, json};

use crate::failure::{Doing, Failure, Result};
use crate::figures::tenth;
use crate::ground::Ground;
use crate::measure::{Answer, Effort, tell};
use crate::table::thousands;

/// Measures Sendoff on private servers of its own. Everybody in a table ran in the same run.
#[derive(Debug, Parser)]
#[command(name = "bench/run")]
struct Arguments {
    /// What to measure.
    name: Name,
    /// Answer within 50 seconds, with fewer messages and repeats.
    #[arg(long)]
    quick: bool,
    /// Answer with one JSON object, on the last line; no table.
    #[arg(long)]
    json: bool,
    /// Run only these entries of a measurement, by their names in the JSON object: for profiling.
    #[arg(long, value_name = "ENTRY", value_delimiter = ',')]
    only: Vec<String>,
}

/// What there is to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// What a send costs the caller's transaction.
    Send,
    /// What the database alone allows: read and settled, published nowhere.
    Drain,
    /// From rows in PostgreSQL to JetStream acknowledgements.
    RelayNats,
    /// From the commit to the acknowledgement, by kind of wake-up.
    Latency,
    /// What acknowledgements of a barrier cost, one at a time and in batches.
    Barrier,
    /// What a claim takes with millions of rows beside it.
    Claim,
    /// The most memory that a relay has at once.
    Memory,
    /// What an envelope costs over bare JSON, decoded and encoded. Needs no server.
    Envelope,
    /// Half of full speed for half an hour (--quick: half a minute), with sizes before and after.
    Soak,
    /// All of them but the soak, one after the other.
    All,
}

impl Name {
    /// Those that a run has, with their names in JSON.
    fn parts(self) -> Vec<(Self, &'static str)> {
        let all = [
            (Self::Send, "send"),
            (Self::Drain, "drain"),
            (Self::RelayNats, "relay-nats"),
            (Self::Latency, "latency"),
            (Self::Barrier, "barrier"),
            (Self::Claim, "claim"),
            (Self::Memory, "memory"),
            (Self::Soak, "soak"),
            (Self::Envelope, "envelope"),
        ];
        let wanted = |name| if self == Self::All { name != Self::Soak } else { name == self };
        all.into_iter().filter(|(name, _)| wanted(*name)).collect()
    }
}

/// A relay allocates and frees several small things for each message, on one thread and the other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match answer(&arguments) {
        Ok(text) => {
            // A reader that has gone away is no failure of the measurement.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            tell(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}

fn answer(arguments: &Arguments) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .doing("starting the runtime")?;
    runtime.block_on(async {
        tokio::select! {
            answer = measure(arguments) => answer,
            // Returning drops the servers, which stops them and removes their data.
            _ = tokio::signal::ctrl_c() => Err(Failure::new("interrupted")),
        }
    })
}

async fn measure(arguments: &Arguments) -> Result<String> {
    let begun = Instant::now();
    if arguments.name == Name::Envelope {
        let answer = measure::envelope::measure(arguments.quick)?;
        let json = || Value::Object(answer.json.clone()).to_string();
        return Ok(if arguments.json { json() } else { answer.text });
    }
    let ground = Ground::prepare().await?;
    let mut answers = Vec::new();
    let mut part_begun = begun;
    for (name, json_name) in arguments.name.parts() {
        let effort = Effort::new(part_begun, arguments.quick, &arguments.only);
        answers.push((json_name, measure_one(&ground, name, &effort).await?));
        part_begun = Instant::now();
    }
    let disk = ground.disk_rate();
    if !arguments.json {
        let machine = format!(
            "{} processors; {} fdatasync/s ({} - {} over the run)",
            machine::cores(),
            thousands(disk.median),
            thousands(disk.slowest),
            thousands(disk.fastest),
        );
        let parts = answers.iter().map(|(_, answer)| answer.text.as_str());
        let texts: Vec<&str> = std::iter::once(machine.as_str()).chain(parts).collect();
        return Ok(texts.join("\n\n"));
    }
    let mut json = Map::from_iter([
        ("quick".to_owned(), json!(arguments.quick)),
        ("processors".to_owned(), json!(machine::cores())),
        ("fdatasync_per_s".to_owned(), json!(disk.median)),
        ("fdatasync_slowest_per_s".to_owned(), json!(disk.slowest)),
        ("fdatasync_fastest_per_s".to_owned(), json!(disk.fastest)),
        ("seconds".to_owned(), json!(tenth(begun.elapsed().as_secs_f64()))),
    ]);
    for (name, answer) in answers {
        if arguments.name == Name::All {
            json.insert(name.to_owned(), Value::Object(answer.json));
        } else {
            json.insert("bench".to_owned(), json!(name));
            json.extend(answer.json);
        }
    }
    Ok(Value::Object(json).to_string())
}

async fn measure_one(ground: &Ground, name: Name, effort: &Effort) -> Result<Answer> {
    match name {
        Name::Send => measure::send::measure(ground, effort).await,
        Name::Drain => measure::drain::measure(ground, effort).await,
        Name::RelayNats => measure::relay_nats::measure(ground, effort).await,
        Name::Latency => measure::latency::measure(ground, effort).await,
        Name::Barrier => measure::barrier::measure(ground, effort).await,
        Name::Claim => measure::claim::measure(ground, effort).await,
        Name::Memory => measure::memory::measure(ground, effort).await,
        Name::Soak => measure::soak::measure(ground, effort).await,
        Name::Envelope => measure::envelope::measure(effort.quick),
        Name::All => Err(Failure::new("all of them are not one measurement")),
    }
}
