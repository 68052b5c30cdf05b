//! `send`: what a send costs the caller's transaction.
//!
//! Writers commit one business row for each transaction, alone and with a message, over 1, 8 and 32
//! connections; then with a wake-up after each commit, without the table that keeps source and id
//! unique, and many messages in one transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use tokio_postgres::Client;

use crate::contenders::Contender;
use crate::failure::{Doing, Failure, Result};
use crate::figures::{Run, Series, ratio, tenth};
use crate::ground::Ground;
use crate::measure::{Answer, Effort, tell};
use crate::table::{Table, thousands};
use crate::writers::{self, Wakes, Writers, Writing};

/// One way of writing by so many writers.
#[derive(Debug, Clone, Copy)]
struct Load {
    name: &'static str,
    title: &'static str,
    connections: usize,
    writing: Writing,
    /// Whether the pair of source and id is kept unique, as the migrations have it.
    keeps_pairs: bool,
}

const fn load(name: &'static str, title: &'static str, connections: usize) -> Load {
    Load { name, title, connections, writing: Writing::One(Wakes::No), keeps_pairs: true }
}

/// Runs it.
///
/// # Errors
/// The first failure, or a committed row that has no message.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    Contender::Lanes.create(ground).await?;
    writers::create_business(ground.admin()).await?;
    // Somebody listens, as a relay does, so that a notification has somebody to reach.
    let listener = ground.connect().await?;
    listener.batch_execute("LISTEN sendoff_outbox").await.doing("listening")?;
    let loads = loads(effort);
    let mut series = vec![Series::default(); loads.len()];
    let repeats = effort.pick(3, 5);
    for repeat in 0..repeats {
        let begun = Instant::now();
        ground.sample_disk()?;
        for place in 0..loads.len() {
            let index = (place + repeat) % loads.len();
            let load = &loads[index];
            let run = run(ground, load, effort).await?;
            tell(&format!(
                "{} of {repeats}: {}, {} connections: {}/s",
                repeat + 1,
                load.title,
                load.connections,
                thousands(run.rate())
            ));
            series[index].push(run);
        }
        if !effort.has_time_for(begun.elapsed()) {
            break;
        }
    }
    Ok(answer(&loads, &series))
}

fn loads(effort: &Effort) -> Vec<Load> {
    let bare = |name, connections| Load {
        writing: Writing::BusinessOnly,
        ..load(name, "business row alone", connections)
    };
    let wakes = |name, title, connections, wakes| Load {
        writing: Writing::One(wakes),
        ..load(name, title, connections)
    };
    const SEND: &str = "with a message";
    const WAKER: &str = "with a message, notification after the commit";
    const INSIDE: &str = "with a message, NOTIFY in the transaction";
    let mut loads = vec![
        bare("business_1", 1),
        load("send_1", SEND, 1),
        bare("business_8", 8),
        load("send_8", SEND, 8),
        bare("business_32", 32),
        load("send_32", SEND, 32),
        wakes("waker_32", WAKER, 32, Wakes::AfterCommit),
        wakes("notify_inside_32", INSIDE, 32, Wakes::InTransaction),
        Load {
            keeps_pairs: false,
            ..load("no_pairs_32", "with a message, pairs not kept unique", 32)
        },
        Load { writing: Writing::Many(100), ..load("send_100", "100 messages per transaction", 1) },
        Load {
            writing: Writing::Many(1_000),
            ..load("send_1000", "1,000 messages per transaction", 1)
        },
    ];
    if !effort.quick {
        loads.extend([
            wakes("waker_8", WAKER, 8, Wakes::AfterCommit),
            Load {
                keeps_pairs: false,
                ..load("no_pairs_1", "with a message, pairs not kept unique", 1)
            },
            Load {
                writing: Writing::Many(1_000),
                keeps_pairs: false,
                ..load("no_pairs_1000", "1,000 messages per transaction, pairs not kept unique", 1)
            },
        ]);
    }
    loads.retain(|load| effort.wants(load.name));
    loads
}

async fn run(ground: &Ground, load: &Load, effort: &Effort) -> Result<Run> {
    prepare(ground.admin(), load).await?;
    let writers = Writers::connect(ground, load.connections, load.writing).await?;
    let warmed_up = writers.committed();
    let mark = ground.mark().await?;
    let until = mark.start + Duration::from_millis(effort.pick(700, 3_000));
    let writers = Arc::new(writers);
    Writers::write_until(&writers, until).await?;
    let end = Instant::now();
    let transactions = writers.committed() - warmed_up;
    let each = load.writing.messages().max(1);
    let run = ground.since(&mark, transactions * each, end).await?;
    check(ground.admin(), load, writers.committed()).await?;
    Ok(run)
}

async fn prepare(client: &Client, load: &Load) -> Result<()> {
    let switch = if load.keeps_pairs { "ENABLE" } else { "DISABLE" };
    client
        .batch_execute(&format!(
            "TRUNCATE business, sendoff.outbox, sendoff.message_key; \
             ALTER TABLE sendoff.outbox {switch} TRIGGER USER; CHECKPOINT"
        ))
        .await
        .doing("emptying the tables")
}

/// What committed is there: a business row for each transaction, and its messages.
async fn check(client: &Client, load: &Load, transactions: u64) -> Result<()> {
    let sql = "SELECT (SELECT count(*) FROM business), (SELECT count(*) FROM sendoff.outbox), \
               (SELECT count(*) FROM sendoff.message_key)";
    let row = client.query_one(sql, &[]).await.doing("counting rows")?;
    let seen: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let messages = count(transactions * load.writing.messages());
    let pairs = if load.keeps_pairs { messages } else { 0 };
    if seen == [count(transactions), messages, pairs] {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: {transactions} transactions committed, but there are {} business rows, {} messages \
         and {} pairs of source and id",
        load.title, seen[0], seen[1], seen[2]
    )))
}

fn answer(loads: &[Load], series: &[Series]) -> Answer {
    let mut table = Table::new(&[
        "writing",
        "connections",
        "per second",
        "slowest - fastest",
        "CPU us each: client",
        "PostgreSQL",
        "WAL bytes",
        "runs",
    ]);
    let mut json = Map::new();
    let mut runs = Map::new();
    for (load, series) in loads.iter().zip(series) {
        let summary = series.summary();
        table.row(vec![
            load.title.to_owned(),
            load.connections.to_string(),
            thousands(summary.per_s),
            format!("{} - {}", thousands(summary.slowest_per_s), thousands(summary.fastest_per_s)),
            tenth(summary.cpu_us.client).to_string(),
            tenth(summary.cpu_us.postgres).to_string(),
            thousands(summary.wal_bytes),
            summary.runs.to_string(),
        ]);
        json.insert(format!("{}_per_s", load.name), json!(summary.per_s));
        runs.insert(load.name.to_owned(), json!(summary));
    }
    let rate = |name: &str| json.get(&format!("{name}_per_s")).and_then(serde_json::Value::as_f64);
    let between = |one, other| ratio(rate(one).unwrap_or(0.0), rate(other).unwrap_or(0.0));
    let ratios = [
        ("send_to_business_1", between("send_1", "business_1")),
        ("send_to_business_8", between("send_8", "business_8")),
        ("send_to_business_32", between("send_32", "business_32")),
        ("waker_to_send_32", between("waker_32", "send_32")),
        ("notify_inside_to_send_32", between("notify_inside_32", "send_32")),
        ("send_to_no_pairs_32", between("send_32", "no_pairs_32")),
    ];
    let text = format!(
        "Sending in the caller's transaction ({} bytes of body; a transaction has one business \
         row; the rate is of messages, or of transactions where there are none)\n\n{table}\n\
         With a message, 32 connections: {} times the business row alone. Notification after the \
         commit: {} times no wake-up; NOTIFY in the transaction: {} times.\n",
        crate::workload::BODY_BYTES,
        ratios[2].1,
        ratios[3].1,
        ratios[4].1,
    );
    json.extend(ratios.map(|(name, value)| (name.to_owned(), json!(value))));
    json.insert("runs".to_owned(), serde_json::Value::Object(runs));
    Answer { text, json }
}
