//! `soak`: half of full speed for half an hour, with the sizes of tables and indexes before and after.
//!
//! Full speed is measured first, with the same writers. What the target keeps is bounded, and so is
//! how long a pair of source and id stays unique, so that whatever grows in that time would grow for
//! ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::relay::RelaySettings;
use sendoff_stores::postgres::PostgresOptions;
use serde_json::{Map, Value, json};

use crate::contenders::Contender;
use crate::failure::{Doing, Failure, Result};
use crate::figures::{ratio, tenth, to_f64};
use crate::ground::Ground;
use crate::machine;
use crate::measure::{Answer, Effort, tell};
use crate::product::{self, RunningRelay, Setup};
use crate::table::{Table, thousands};
use crate::workload::{Keys, Workload};

/// Messages in one transaction.
const BATCH: usize = 200;
/// Pairs stay unique for so long, for the sweep to have work of the same size all the time.
const HORIZON: Duration = Duration::from_secs(60);
/// Writers stop while so many messages wait: full speed is what the relay keeps up with.
const BACKLOG_MAX: u64 = 20_000;

/// How things stood at one moment.
struct Standing {
    at: Duration,
    sent: u64,
    settled: u64,
    waiting: u64,
    resident_kib: u64,
    sizes: Vec<(String, i64)>,
}

/// Runs it.
///
/// # Errors
/// The first failure, or a message that is missing.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    Contender::Lanes.create(ground).await?;
    ground
        .admin()
        .batch_execute("TRUNCATE sendoff.outbox, sendoff.message_key; CHECKPOINT")
        .await
        .doing("emptying the tables")?;
    let stream = ground.bounded_stream(512 << 20).await?;
    let setup = Setup {
        settings: RelaySettings::default(),
        options: PostgresOptions { horizon: HORIZON, ..PostgresOptions::default() },
        ..Setup::default()
    };
    let publisher = Arc::new(product::publisher(&stream.address)?);
    let relay = RunningRelay::start(ground, publisher, setup)?;
    let mut writer = Writer::connect(ground).await?;
    let full = writer.full_speed(&relay, effort.pick(4, 30)).await?;
    tell(&format!("full speed is {} messages/s", thousands(full)));
    let (time, every) = effort.pick((24, 4), (1_800, 60));
    let standings = writer
        .keep_to(full / 2.0, Duration::from_secs(time), Duration::from_secs(every), &relay)
        .await?;
    writer.wait_for(&relay, 0).await?;
    let (sent, tally) = (writer.sent, relay.stop().await?);
    let left = Contender::Lanes.left(ground.admin()).await?;
    if tally.settled != sent || left != 0 {
        return Err(Failure::new(format!(
            "of {sent} messages {} were settled and {left} are left",
            tally.settled
        )));
    }
    Ok(answer(full, &standings))
}

/// One connection that sends batches.
struct Writer<'a> {
    ground: &'a Ground,
    client: tokio_postgres::Client,
    sent: u64,
}

impl<'a> Writer<'a> {
    async fn connect(ground: &'a Ground) -> Result<Self> {
        Ok(Self { ground, client: ground.connect().await?, sent: 0 })
    }

    async fn send(&mut self) -> Result<()> {
        let workload = Workload::new(BATCH, Keys::Uniform(10_000), self.sent);
        workload.insert_into(&self.client, "sendoff.outbox").await?;
        self.sent += u64::try_from(BATCH).unwrap_or(0);
        Ok(())
    }

    async fn wait_for(&self, relay: &RunningRelay, waiting: u64) -> Result<()> {
        let patience = Instant::now() + Duration::from_secs(60);
        while self.sent - relay.tally().settled.min(self.sent) > waiting {
            if Instant::now() > patience {
                return Err(Failure::new("the relay has settled nothing for a minute"));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// As fast as writer and relay go together.
    async fn full_speed(&mut self, relay: &RunningRelay, seconds: u64) -> Result<f64> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds) {
            self.send().await?;
            self.wait_for(relay, BACKLOG_MAX).await?;
        }
        self.wait_for(relay, 0).await?;
        Ok(to_f64(self.sent) / begun.elapsed().as_secs_f64())
    }

    /// Sends at a rate and looks around at an interval.
    async fn keep_to(
        &mut self,
        per_s: f64,
        time: Duration,
        every: Duration,
        relay: &RunningRelay,
    ) -> Result<Vec<Standing>> {
        let (begun, before) = (Instant::now(), self.sent);
        let mut standings = vec![self.standing(begun, relay).await?];
        let mut next = every;
        while begun.elapsed() < time {
            let due = to_f64(self.sent - before) / per_s;
            tokio::time::sleep_until((begun + Duration::from_secs_f64(due)).into()).await;
            self.send().await?;
            if begun.elapsed() >= next {
                next += every;
                let standing = self.standing(begun, relay).await?;
                tell(&format!(
                    "{} s: {} sent, {} waiting",
                    standing.at.as_secs(),
                    thousands(to_f64(standing.sent)),
                    standing.waiting
                ));
                standings.push(standing);
            }
        }
        Ok(standings)
    }

    async fn standing(&self, begun: Instant, relay: &RunningRelay) -> Result<Standing> {
        let settled = relay.tally().settled;
        let sql = "SELECT c.relname::text, pg_relation_size(c.oid) FROM pg_class c \
                   WHERE c.relnamespace = 'sendoff'::regnamespace AND c.relkind IN ('r', 'i') \
                     AND (c.relname LIKE 'outbox%' OR c.relname LIKE 'message_key%' \
                       OR c.relname IN ('lane', 'relay', 'tally', 'total')) ORDER BY 1";
        let rows = self.ground.admin().query(sql, &[]).await.doing("reading sizes")?;
        Ok(Standing {
            at: begun.elapsed(),
            sent: self.sent,
            settled,
            waiting: self.sent - settled.min(self.sent),
            resident_kib: machine::resident_kib(std::process::id()).unwrap_or(0),
            sizes: rows.iter().map(|row| (row.get(0), row.get(1))).collect(),
        })
    }
}

fn answer(full: f64, standings: &[Standing]) -> Answer {
    let (Some(first), Some(last)) = (standings.first(), standings.last()) else {
        return Answer { text: String::new(), json: Map::new() };
    };
    // The first minute fills what is kept for a minute; from then on nothing may grow.
    let settled_in = standings.iter().find(|standing| standing.at >= HORIZON * 2).unwrap_or(first);
    let kib = |bytes: i64| thousands(to_f64(u64::try_from(bytes / 1024).unwrap_or(0)));
    let mut table =
        Table::new(&["table or index", "KiB before", "after two minutes", "at the end"]);
    let mut sizes = Map::new();
    for ((name, before), ((_, filled), (_, after))) in
        first.sizes.iter().zip(settled_in.sizes.iter().zip(&last.sizes))
    {
        table.row(vec![name.clone(), kib(*before), kib(*filled), kib(*after)]);
        sizes.insert(name.clone(), json!([before, filled, after]));
    }
    let took = last.at.as_secs_f64();
    let rate = ratio(to_f64(last.sent - first.sent), took).round();
    let waiting = standings.iter().map(|standing| standing.waiting).max().unwrap_or(0);
    let mib = |standing: &Standing| tenth(to_f64(standing.resident_kib) / 1024.0);
    let json = Map::from_iter([
        ("full_per_s".to_owned(), json!(full.round())),
        ("per_s".to_owned(), json!(rate)),
        ("seconds_soaked".to_owned(), json!(took.round())),
        ("messages".to_owned(), json!(last.sent - first.sent)),
        ("settled".to_owned(), json!(last.settled - first.settled)),
        ("waiting_max".to_owned(), json!(waiting)),
        ("resident_mib".to_owned(), json!([mib(settled_in), mib(last)])),
        ("sizes_bytes".to_owned(), Value::Object(sizes)),
    ]);
    let text = format!(
        "Half of full speed ({} messages/s) for {} s: {} messages at {} a second, at most {} of them \
         waiting at a look; the whole program's memory {} MiB after two minutes, {} MiB at the end\n\n\
         {table}",
        thousands(full),
        took.round(),
        thousands(to_f64(last.sent - first.sent)),
        thousands(rate),
        thousands(to_f64(waiting)),
        mib(settled_in),
        mib(last),
    );
    Answer { text, json }
}
