//! One acknowledgement for each commit, from 16 clients into one barrier.
//!
//! The last 6,000 members of each barrier are measured, whatever its size (all of them without
//! `--quick`): the members before them are acknowledged in batches, so that what they leave behind
//! is there. A bare update is one of the same rows of the same table, by name, sent in the same way
//! (without a prepared statement); the counter is a row of a table of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sendoff_core::barrier::{Ack, AckBatch, Barriers, Outcome};
use serde_json::{Map, json};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::members::{self, Members};
use crate::failure::{Doing, Failure, Result};
use crate::figures::{Run, Series, ratio};
use crate::ground::Ground;
use crate::measure::{Answer, Effort, tell};
use crate::table::{Table, thousands};

const CLIENTS: usize = 16;
const MEASURED: usize = 6_000;

/// How a member is marked as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The product's acknowledgement.
    Ack,
    /// An update of the member's row, and nothing that would notice the last one.
    Bare,
    /// The same, and one of a counter in the header's row.
    Counter,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    way: Way,
    members: usize,
    /// An idle transaction with an old snapshot is open meanwhile.
    old_snapshot: bool,
}

impl Entry {
    fn name(&self) -> String {
        let way = match self.way {
            Way::Ack => "ack",
            Way::Bare => "bare",
            Way::Counter => "counter",
        };
        let snapshot = if self.old_snapshot { "_old_snapshot" } else { "" };
        format!("{way}_{}{snapshot}", self.members)
    }

    fn title(&self) -> &'static str {
        match self.way {
            Way::Ack => "ack (Sendoff)",
            Way::Bare => "bare update of the member",
            Way::Counter => "the same and a counter in the header",
        }
    }
}

fn entries(effort: &Effort) -> Vec<Entry> {
    let mut entries = Vec::new();
    for old_snapshot in [false, true] {
        for members in [6_000, 20_000, 100_000] {
            for way in [Way::Ack, Way::Bare, Way::Counter] {
                // The counter shows what it shows with one size.
                if way != Way::Counter || (members == 6_000 && !old_snapshot) {
                    entries.push(Entry { way, members, old_snapshot });
                }
            }
        }
    }
    entries.retain(|entry| effort.wants(&entry.name()));
    entries
}

pub(super) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    ground
        .admin()
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS bare_header (barrier bigint PRIMARY KEY, resolved bigint) \
             WITH (fillfactor = 25)",
        )
        .await
        .doing("creating the counter's table")?;
    let entries = entries(effort);
    let mut series = vec![Series::default(); entries.len()];
    let repeats = effort.pick(3, 5);
    for repeat in 0..repeats {
        let begun = Instant::now();
        ground.sample_disk()?;
        for place in 0..entries.len() {
            let index = (place + repeat) % entries.len();
            let entry = &entries[index];
            let run = run(ground, entry, repeat, effort).await?;
            tell(&format!(
                "{} of {repeats}: {}: {}/s",
                repeat + 1,
                entry.name(),
                thousands(run.rate())
            ));
            series[index].push(run);
        }
        if !effort.has_time_for(begun.elapsed()) {
            break;
        }
    }
    Ok(answer(&entries, &series))
}

async fn run(ground: &Ground, entry: &Entry, repeat: usize, effort: &Effort) -> Result<Run> {
    let mut client = ground.connect().await?;
    client.batch_execute("CHECKPOINT").await.doing("a checkpoint")?;
    let stand = Arc::new(Stand::prepare(&mut client, entry, repeat).await?);
    let measured = if effort.quick { MEASURED } else { entry.members };
    let mut clerks = Vec::new();
    for _ in 0..CLIENTS {
        clerks.push(Clerk::connect(ground, Arc::clone(&stand)).await?);
    }
    let mut holder = ground.connect().await?;
    let snapshot = if entry.old_snapshot { Some(hold_snapshot(&mut holder).await?) } else { None };
    stand.resolve_in_batches(&mut client, entry.members.saturating_sub(measured)).await?;
    let until = Instant::now() + Duration::from_secs(effort.pick(8, 60));
    let mark = ground.mark().await?;
    let done = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for mut clerk in clerks {
        let done = Arc::clone(&done);
        running.spawn(async move {
            while let Some(number) = clerk.stand.members.next() {
                clerk.resolve(number).await?;
                done.fetch_add(1, Ordering::Relaxed);
                if Instant::now() > until {
                    break;
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.doing("acknowledging")??;
    }
    let end = Instant::now();
    let count = done.load(Ordering::Relaxed);
    let run = ground.since(&mark, count, end).await?;
    drop(snapshot);
    drop(holder);
    stand.check(&mut client, usize::try_from(count).unwrap_or(0) >= measured).await?;
    Ok(run)
}

/// A transaction that has read something and stays open.
async fn hold_snapshot(client: &mut Client) -> Result<tokio_postgres::Transaction<'_>> {
    const DOING: &str = "holding an old snapshot";
    let transaction = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await
        .doing(DOING)?;
    transaction.query_one("SELECT count(*) FROM bare_header", &[]).await.doing(DOING)?;
    Ok(transaction)
}

/// What is acknowledged in a run.
#[derive(Debug)]
struct Stand {
    way: Way,
    id: String,
    barrier: i64,
    members: Members,
}

impl Stand {
    async fn prepare(client: &mut Client, entry: &Entry, repeat: usize) -> Result<Self> {
        let id = format!("{}-{repeat}-{}", entry.name(), fastrand::u32(..));
        let members = Members::new(entry.members);
        members::create(client, &members::plan(&id, entry.members)?).await?;
        const DOING: &str = "finding the barrier's number";
        let sql = "SELECT no FROM sendoff.barrier WHERE id = $1 AND NOT gone";
        let barrier: i64 = client.query_one(sql, &[&id]).await.doing(DOING)?.get(0);
        let sql = "INSERT INTO bare_header VALUES ($1, 0)";
        client.execute(sql, &[&barrier]).await.doing(DOING)?;
        client.batch_execute("ANALYZE").await.doing("analysing")?;
        Ok(Self { way: entry.way, id, barrier, members })
    }

    async fn resolve_in_batches(&self, client: &mut Client, count: usize) -> Result<()> {
        const DOING: &str = "acknowledging in batches";
        const BATCH: usize = 1_000;
        let mut left = count;
        while left > 0 {
            let numbers = self.members.take(left.min(BATCH));
            left -= numbers.len();
            let mut transaction = client.transaction().await.doing(DOING)?;
            if self.way == Way::Ack {
                let batch = batch(&self.id, numbers)?;
                Barriers::new().ack_all(&mut transaction, &batch).await.doing(DOING)?;
            } else {
                let names: Vec<Vec<u8>> =
                    numbers.iter().map(|number| members::name(*number).into_bytes()).collect();
                let sql = "UPDATE sendoff.barrier_member SET resolved_at = now(), ok = true, \
                           outcome = '{\"ok\":true}', channel = '' \
                           WHERE barrier = $1 AND name = ANY($2)";
                transaction.execute(sql, &[&self.barrier, &names]).await.doing(DOING)?;
            }
            transaction.commit().await.doing(DOING)?;
        }
        Ok(())
    }

    async fn check(&self, client: &mut Client, all: bool) -> Result<()> {
        if self.way != Way::Ack {
            // A relay's sweep would find that nothing is pending of it, and complete it.
            const DOING: &str = "taking away what was updated barely";
            for sql in [
                "DELETE FROM sendoff.barrier_member WHERE barrier = $1",
                "DELETE FROM sendoff.barrier WHERE no = $1",
            ] {
                client.execute(sql, &[&self.barrier]).await.doing(DOING)?;
            }
            return Ok(());
        }
        let (complete, continuations) = members::standing(client, &self.id).await?;
        if complete != all || continuations != i64::from(all) {
            return Err(Failure::new(format!(
                "{}: complete: {complete}, continuations: {continuations}, all acknowledged: {all}",
                self.id
            )));
        }
        Ok(())
    }
}

fn batch(id: &str, numbers: &[usize]) -> Result<AckBatch> {
    let acks: Result<Vec<Ack>> = numbers
        .iter()
        .map(|number| Ok(Ack { member: members::member(*number)?, outcome: Outcome::ok() }))
        .collect();
    let id = Barriers::new().id(id).doing("naming a barrier")?;
    Ok(AckBatch::new(id, acks?))
}

/// A connection that resolves one member for each commit.
#[derive(Debug)]
struct Clerk {
    stand: Arc<Stand>,
    client: Client,
}

impl Clerk {
    async fn connect(ground: &Ground, stand: Arc<Stand>) -> Result<Self> {
        Ok(Self { stand, client: ground.connect().await? })
    }

    async fn resolve(&mut self, number: usize) -> Result<()> {
        const DOING: &str = "acknowledging";
        const UPDATE: &str = "UPDATE sendoff.barrier_member SET resolved_at = clock_timestamp(), \
             ok = true, outcome = '{\"ok\":true}', channel = '' \
             WHERE barrier = $1 AND name = $2 AND resolved_at IS NULL";
        const COUNT: &str = "UPDATE bare_header SET resolved = resolved + 1 WHERE barrier = $1";
        let name = members::name(number);
        let mut transaction = self.client.transaction().await.doing(DOING)?;
        let barrier = &self.stand.barrier;
        if self.stand.way == Way::Ack {
            let id = self.stand.id.as_str();
            Barriers::new().ack(&mut transaction, id, &name, Outcome::ok()).await.doing(DOING)?;
            return transaction.commit().await.doing(DOING);
        }
        let params = [
            (barrier as &(dyn ToSql + Sync), Type::INT8),
            (&name.as_bytes() as &(dyn ToSql + Sync), Type::BYTEA),
        ];
        transaction.execute_typed(UPDATE, &params).await.doing(DOING)?;
        if self.stand.way == Way::Counter {
            transaction.execute_typed(COUNT, &params[..1]).await.doing(DOING)?;
        }
        transaction.commit().await.doing(DOING)
    }
}

fn answer(entries: &[Entry], series: &[Series]) -> Answer {
    let mut table = Table::new(&[
        "one commit for each",
        "members",
        "old snapshot held",
        "per second",
        "slowest - fastest",
        "CPU us each: client",
        "PostgreSQL",
        "WAL bytes",
        "runs",
    ]);
    let mut json = Map::new();
    let rate = |way: Way, members: usize, old_snapshot: bool| {
        let found = entries.iter().position(|entry| {
            entry.way == way && entry.members == members && entry.old_snapshot == old_snapshot
        });
        found.map_or(0.0, |index| series[index].summary().per_s)
    };
    for (entry, series) in entries.iter().zip(series) {
        let summary = series.summary();
        table.row(vec![
            entry.title().to_owned(),
            thousands(crate::figures::to_f64(entry.members as u64)),
            if entry.old_snapshot { "yes" } else { "no" }.to_owned(),
            thousands(summary.per_s),
            format!("{} - {}", thousands(summary.slowest_per_s), thousands(summary.fastest_per_s)),
            summary.cpu_us.client.to_string(),
            summary.cpu_us.postgres.to_string(),
            summary.wal_bytes.to_string(),
            summary.runs.to_string(),
        ]);
        json.insert(entry.name(), json!(summary));
    }
    let large = 100_000;
    let same_size = ratio(rate(Way::Ack, large, false), rate(Way::Ack, 6_000, false));
    let bare = ratio(rate(Way::Ack, large, false), rate(Way::Bare, large, false));
    let old = ratio(rate(Way::Ack, large, true), rate(Way::Ack, 6_000, true));
    let bare_old = ratio(rate(Way::Ack, large, true), rate(Way::Bare, large, true));
    let counter = ratio(rate(Way::Ack, 6_000, false), rate(Way::Counter, 6_000, false));
    json.insert("ack_100000_by_ack_6000".to_owned(), json!(same_size));
    json.insert("ack_100000_by_bare".to_owned(), json!(bare));
    json.insert("ack_100000_by_ack_6000_old_snapshot".to_owned(), json!(old));
    json.insert("ack_100000_by_bare_old_snapshot".to_owned(), json!(bare_old));
    json.insert("ack_by_counter".to_owned(), json!(counter));
    let text = format!(
        "{table}\nAt 100,000 members an ack runs at {same_size} times the rate at 6,000 and {bare} \
         times the bare update's; with an old snapshot held, {old} and {bare_old} times. The counter: \
         an ack is {counter} times as fast."
    );
    Answer { text, json }
}
