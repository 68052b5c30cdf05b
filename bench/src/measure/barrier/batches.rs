//! Many acknowledgements for each commit into one barrier, and the creation of one.

use std::sync::Arc;
use std::time::Instant;

use sendoff_core::barrier::{Ack, AckBatch, Barriers, Outcome};
use serde_json::{Map, json};
use tokio::task::JoinSet;

use super::members::{self, Members};
use crate::failure::{Doing, Failure, Result};
use crate::figures::{Run, Series, ratio};
use crate::ground::Ground;
use crate::measure::{Answer, Effort, tell};
use crate::table::{Table, thousands};

const MEMBERS: usize = 100_000;
const CLIENTS: usize = 2;

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: &'static str,
    title: &'static str,
    batch: usize,
    /// Each tenth one comes twice, and each twentieth failed.
    mixed: bool,
}

const ENTRIES: [Entry; 3] = [
    Entry { name: "batch_500", title: "500 acks", batch: 500, mixed: false },
    Entry { name: "batch_1000", title: "1,000 acks", batch: 1_000, mixed: false },
    Entry {
        name: "batch_1000_mixed",
        title: "1,000 acks, each tenth twice, each twentieth failed",
        batch: 1_000,
        mixed: true,
    },
];

pub(super) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    let entries: Vec<Entry> =
        ENTRIES.into_iter().filter(|entry| effort.wants(entry.name)).collect();
    let mut series = vec![Series::default(); entries.len()];
    let mut creations = Series::default();
    let repeats = effort.pick(3, 5);
    for repeat in 0..repeats {
        for (entry, series) in entries.iter().zip(&mut series) {
            let (creation, run) = run(ground, entry, repeat).await?;
            tell(&format!(
                "{} of {repeats}: {} for each commit: {}/s",
                repeat + 1,
                entry.title,
                thousands(run.rate())
            ));
            creations.push(creation);
            series.push(run);
        }
    }
    Ok(answer(&entries, &series, &creations))
}

async fn run(ground: &Ground, entry: &Entry, repeat: usize) -> Result<(Run, Run)> {
    let mut client = ground.connect().await?;
    client.batch_execute("CHECKPOINT").await.doing("a checkpoint")?;
    let id = format!("{}-{repeat}-{}", entry.name, fastrand::u32(..));
    let plan = members::plan(&id, MEMBERS)?;
    let mark = ground.mark().await?;
    members::create(&mut client, &plan).await?;
    let creation = ground.since(&mark, MEMBERS as u64, Instant::now()).await?;
    let members = Arc::new(Members::new(MEMBERS));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(ground.connect().await?);
    }
    let mark = ground.mark().await?;
    let mut running = JoinSet::new();
    for mut client in clients {
        let (members, id, entry) = (Arc::clone(&members), id.clone(), *entry);
        running.spawn(async move {
            const DOING: &str = "acknowledging in batches";
            loop {
                let numbers = members.take(entry.batch);
                if numbers.is_empty() {
                    return Ok(());
                }
                let batch = batch(&id, numbers, entry.mixed)?;
                let mut transaction = client.transaction().await.doing(DOING)?;
                let acked = Barriers::new().ack_all(&mut transaction, &batch).await.doing(DOING)?;
                transaction.commit().await.doing(DOING)?;
                if acked.resolved() != numbers.len() as u64 {
                    return Err(Failure::new("a batch did not resolve all of its members"));
                }
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.doing("acknowledging in batches")??;
    }
    let run = ground.since(&mark, MEMBERS as u64, Instant::now()).await?;
    let standing = members::standing(&mut client, &id).await?;
    if standing != (true, 1) {
        return Err(Failure::new(format!("{id} is not complete with one continuation")));
    }
    Ok((creation, run))
}

fn batch(id: &str, numbers: &[usize], mixed: bool) -> Result<AckBatch> {
    let mut acks = Vec::with_capacity(numbers.len() * 11 / 10);
    for number in numbers {
        let outcome = if mixed && number.is_multiple_of(20) {
            Outcome::failed().with_error("refused")
        } else {
            Outcome::ok()
        };
        let ack = Ack { member: members::member(*number)?, outcome };
        if mixed && number.is_multiple_of(10) {
            acks.push(ack.clone());
        }
        acks.push(ack);
    }
    let id = Barriers::new().id(id).doing("naming a barrier")?;
    Ok(AckBatch::new(id, acks))
}

fn answer(entries: &[Entry], series: &[Series], creations: &Series) -> Answer {
    let mut table = Table::new(&[
        "for each commit, 100,000 members, 2 clients",
        "members/s",
        "slowest - fastest",
        "CPU us each: client",
        "PostgreSQL",
        "WAL bytes",
        "runs",
    ]);
    let mut json = Map::new();
    let titles = entries.iter().map(|entry| (entry.name, entry.title)).zip(series);
    for ((name, title), series) in titles.chain([(("create_100000", "create"), creations)]) {
        let summary = series.summary();
        table.row(vec![
            title.to_owned(),
            thousands(summary.per_s),
            format!("{} - {}", thousands(summary.slowest_per_s), thousands(summary.fastest_per_s)),
            summary.cpu_us.client.to_string(),
            summary.cpu_us.postgres.to_string(),
            summary.wal_bytes.to_string(),
            summary.runs.to_string(),
        ]);
        json.insert(name.to_owned(), json!(summary));
    }
    let seconds = ratio(100_000.0, creations.summary().per_s);
    json.insert("create_100000_s".to_owned(), json!(seconds));
    let text = format!("{table}\nA barrier of 100,000 members is created in {seconds} s.");
    Answer { text, json }
}
