//! The promise, struck at: at least 150 rounds in all. `sendoff-crash --help` runs as many as asked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

use clap::Parser;
use sendoff_crash::marks::Phase;
use sendoff_crash::outcome::Outcome;
use sendoff_crash::run::{Settings, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sendoff-crash");

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn outcome_of(arguments: &str) -> Outcome {
    let line = Line::parse_from(std::iter::once("crash").chain(arguments.split_whitespace()));
    let outcome = run(&line.settings, Path::new(PROGRAM), |words| println!("{words}")).unwrap();
    println!("{outcome}");
    outcome
}

fn assert_kept(outcome: &Outcome, rounds: u64) {
    assert_eq!(outcome.rounds, rounds);
    assert!(outcome.findings.committed > rounds, "orders were placed all the time");
    assert!(outcome.rolled_back > 0, "some transactions rolled back");
    assert!(outcome.kept(), "{outcome}");
}

/// The rounds that had something in a phase when they struck, over all faults.
fn rounds_in(outcome: &Outcome, phase: Phase) -> u64 {
    outcome.landed.values().map(|landed| landed.rounds_in_phase.of(phase)).sum()
}

#[test]
fn nothing_is_lost_overtaken_or_made_up_between_postgres_and_jetstream() {
    let outcome = outcome_of("--rounds 150 --lease-ms 600 --relays 1,2,4");
    assert_kept(&outcome, 150);
    for phase in Phase::COUNTED {
        let rounds = rounds_in(&outcome, phase);
        assert!(rounds > 0, "no round struck while something was {}", phase.as_str());
    }
}

#[test]
fn nothing_is_lost_overtaken_or_made_up_between_sqlite_and_jetstream() {
    assert_kept(&outcome_of("--rounds 20 --store sqlite --lease-ms 600 --relays 1,2"), 20);
}

#[test]
fn nothing_is_lost_overtaken_or_made_up_between_sqlite_and_a_file() {
    let outcome = outcome_of("--rounds 20 --store sqlite --to file --lease-ms 600 --relays 1");
    assert_kept(&outcome, 20);
}

#[test]
fn under_all_one_relay_publishes_in_order_and_the_others_take_over() {
    let outcome = outcome_of("--rounds 12 --hold all --lease-ms 600 --relays 1,3 --rate 40");
    assert_kept(&outcome, 12);
}

#[test]
fn under_none_nothing_is_lost_or_made_up() {
    assert_kept(&outcome_of("--rounds 12 --hold none --lease-ms 600 --relays 1,2"), 12);
}

#[test]
fn nothing_is_lost_or_made_up_by_relays_with_row_locks() {
    let outcome = outcome_of("--rounds 12 --mode row-locks --lease-ms 2000 --relays 1,2");
    assert_kept(&outcome, 12);
    let outcome =
        outcome_of("--rounds 4 --mode row-locks --store sqlite --lease-ms 2000 --relays 1");
    assert_kept(&outcome, 4);
}

#[test]
fn a_stream_that_deduplicates_by_id_sees_each_message_once() {
    let outcome = outcome_of("--rounds 12 --lease-ms 600 --relays 2 --dedup-ms 120000");
    assert_kept(&outcome, 12);
    assert_eq!(outcome.findings.arrived, outcome.findings.committed);
}

#[test]
fn the_program_says_in_json_what_it_found() {
    let output = Command::new(PROGRAM)
        .args(["--rounds", "2", "--store", "sqlite", "--to", "file", "--relays", "1"])
        .args(["--seed", "5", "--json"])
        .output()
        .unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["rounds"], &said["seed"], &said["lost"]), (&2.into(), &5.into(), &0.into()));
    assert!(said["committed"].as_u64().unwrap() > 0);
    assert!(output.status.success());
}
