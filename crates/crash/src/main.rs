//! `sendoff-crash`: kills relays, databases and brokers, and compares what committed with what
//! arrived.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sendoff_crash::relay::{self, RelayArguments};
use sendoff_crash::run::{Settings, run};

/// Kills relays, databases and brokers at random points while orders are placed, and compares what
/// committed with what arrived.
///
/// Starts a PostgreSQL and a NATS server of its own. Ends with 0 when the promise was kept, with 1
/// when it was not, and with 2 when the run could not go on.
#[derive(Debug, Parser)]
#[command(name = "sendoff-crash", args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(flatten)]
    settings: Settings,
    /// One JSON object on standard output, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// A relay process, as the harness starts it.
    #[command(hide = true)]
    Relay(RelayArguments),
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let ended = match line.role {
        Some(Role::Relay(arguments)) => run_relay(arguments),
        None => run_harness(&line.settings, line.json),
    };
    ended.unwrap_or_else(|error| {
        drop(writeln!(io::stderr(), "sendoff-crash: {error}"));
        ExitCode::from(2)
    })
}

fn run_relay(arguments: RelayArguments) -> io::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let tally = runtime.block_on(relay::run(arguments))?;
    drop(writeln!(io::stderr(), "stopped: {tally:?}"));
    Ok(ExitCode::SUCCESS)
}

fn run_harness(settings: &Settings, json: bool) -> io::Result<ExitCode> {
    let program = std::env::current_exe()?;
    let outcome = run(settings, &program, |progress| {
        drop(writeln!(io::stderr(), "{progress}"));
    })?;
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &outcome)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{outcome}")?;
    }
    Ok(if outcome.kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
