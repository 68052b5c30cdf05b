//! `latency`: from the commit's return to the broker's acknowledgement, by kind of wake-up.
//!
//! Messages are sent on a schedule that does not wait for anybody (open loop): a relay that falls
//! behind is charged for all that was due meanwhile. The clock starts when the commit has returned
//! to the writer and stops when the publisher has the acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sendoff_core::relay::RelaySettings;
use sendoff_core::{Message, Wake};
use serde_json::{Map, json};

use crate::contenders::Contender;
use crate::failure::{Doing, Failure, Result};
use crate::figures::{median, percentile, ratio, to_f64};
use crate::ground::Ground;
use crate::measure::{Answer, Effort, tell};
use crate::noting::Noting;
use crate::product::{self, RunningRelay, Setup};
use crate::schedule::{self, Committed, Schedule};
use crate::table::{Table, thousands};
use crate::writers::{self, Woken};

/// How many connections write.
const WRITERS: usize = 16;
/// What is sent in this time at the start does not count.
const WARM_UP: Duration = Duration::from_millis(500);

/// A kind of wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    /// In the same process, after the commit.
    InProcess,
    /// PostgreSQL's notification, after the commit, on the waker's own connection.
    Notification,
    /// None: the relay looks at this interval.
    Poll(Duration),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: &'static str,
    title: &'static str,
    hint: Hint,
    per_s: u32,
}

/// What one run gave, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Latencies {
    p50: f64,
    p99: f64,
    max: f64,
    /// The rate that the writers kept.
    per_s: f64,
    /// The share of messages that the writers began over 5 ms late.
    late: f64,
}

/// Runs it.
///
/// # Errors
/// The first failure, or a message that did not arrive.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    Contender::Lanes.create(ground).await?;
    writers::create_business(ground.admin()).await?;
    let entries = entries(effort);
    let mut found: Vec<Vec<Latencies>> = vec![Vec::new(); entries.len()];
    let repeats = 3;
    for repeat in 0..repeats {
        let begun = Instant::now();
        ground.sample_disk()?;
        for place in 0..entries.len() {
            let index = (place + repeat) % entries.len();
            let entry = &entries[index];
            let one = run(ground, entry, effort).await?;
            tell(&format!(
                "{} of {repeats}: {}, {}/s: p50 {} ms, p99 {} ms",
                repeat + 1,
                entry.title,
                entry.per_s,
                one.p50,
                one.p99
            ));
            found[index].push(one);
        }
        if !effort.has_time_for(begun.elapsed()) {
            break;
        }
    }
    Ok(answer(&entries, &found))
}

fn entries(effort: &Effort) -> Vec<Entry> {
    const SHORT: Hint = Hint::Poll(Duration::from_millis(5));
    const USUAL: Hint = Hint::Poll(Duration::from_millis(200));
    let entry = |name, title, hint, per_s| Entry { name, title, hint, per_s };
    const PROCESS: &str = "in-process wake-up";
    const NOTIFIED: &str = "notification after the commit";
    const POLL_5: &str = "poll every 5 ms";
    const POLL_200: &str = "poll every 200 ms (default)";
    let mut entries = vec![
        entry("wake_1000", PROCESS, Hint::InProcess, 1_000),
        entry("notification_1000", NOTIFIED, Hint::Notification, 1_000),
        entry("poll_5ms_1000", POLL_5, SHORT, 1_000),
        entry("poll_200ms_1000", POLL_200, USUAL, 1_000),
    ];
    if !effort.quick {
        entries.extend([
            entry("wake_100", PROCESS, Hint::InProcess, 100),
            entry("notification_100", NOTIFIED, Hint::Notification, 100),
            entry("poll_5ms_100", POLL_5, SHORT, 100),
            entry("poll_200ms_100", POLL_200, USUAL, 100),
        ]);
    }
    entries.retain(|entry| effort.wants(entry.name));
    entries
}

async fn run(ground: &Ground, entry: &Entry, effort: &Effort) -> Result<Latencies> {
    ground
        .admin()
        .batch_execute("TRUNCATE business, sendoff.outbox, sendoff.message_key; CHECKPOINT")
        .await
        .doing("emptying the tables")?;
    let stream = ground.fresh_stream().await?;
    let time = WARM_UP + Duration::from_millis(effort.pick(1_800, 8_000));
    let schedule = Schedule::new(entry.per_s, time);
    let stamps = Arc::new(Stamps::new(schedule.messages()));
    let stamping = Arc::clone(&stamps);
    let publisher =
        Noting::new(product::publisher(&stream.address)?, move |message| stamping.stamp(message));
    let wake = Wake::new();
    let mut setup = Setup::default();
    let woken = match entry.hint {
        Hint::InProcess => {
            setup.wake = wake.clone();
            Woken::InProcess(wake)
        }
        Hint::Notification => Woken::ByNotification(writers::waker(ground)?),
        Hint::Poll(poll) => {
            setup.options.listen = false;
            setup.settings = RelaySettings { poll, ..RelaySettings::default() };
            Woken::No
        }
    };
    let relay = RunningRelay::start(ground, Arc::new(publisher), setup)?;
    let committed = schedule::keep_to(ground, &schedule, WRITERS, woken).await?;
    let messages = to_u64(schedule.messages());
    settle_all(&relay, messages).await?;
    relay.stop().await?;
    let arrived = ground.stream_messages().await?;
    let left = Contender::Lanes.left(ground.admin()).await?;
    if arrived != messages || left != 0 {
        return Err(Failure::new(format!(
            "{}: of {messages} messages {arrived} are in the stream and {left} in the table",
            entry.title
        )));
    }
    stamps.latencies(&schedule, &committed)
}

/// Waits until all messages are settled, with patience.
async fn settle_all(relay: &RunningRelay, messages: u64) -> Result<()> {
    let patience = Instant::now() + Duration::from_secs(10);
    while relay.tally().settled < messages {
        if Instant::now() > patience {
            return Err(Failure::new(format!(
                "ten seconds after the last commit {} of {messages} messages were settled",
                relay.tally().settled
            )));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// When each message was acknowledged, in nanoseconds after `base`; 0 where it was not yet.
#[derive(Debug)]
struct Stamps {
    base: Instant,
    acked: Vec<AtomicU64>,
}

impl Stamps {
    fn new(messages: usize) -> Self {
        Self { base: Instant::now(), acked: (0..messages).map(|_| AtomicU64::new(0)).collect() }
    }

    fn stamp(&self, message: &Message) {
        let after = u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Ids are the messages' numbers. Of a repetition the first arrival counts.
        let number: Option<usize> = message.id().parse().ok();
        if let Some(stamp) = number.and_then(|number| self.acked.get(number)) {
            let _ = stamp.compare_exchange(0, after, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn latencies(&self, schedule: &Schedule, committed: &[Committed]) -> Result<Latencies> {
        let mut waits = Vec::with_capacity(committed.len());
        let mut late = 0_u64;
        for commit in committed {
            if schedule.offset(commit.number) < WARM_UP {
                continue;
            }
            let stamp = self.acked.get(commit.number).map(|s| s.load(Ordering::Relaxed));
            let Some(after) = stamp.filter(|after| *after > 0) else {
                return Err(Failure::new("a settled message has no acknowledgement"));
            };
            let acked = self.base + Duration::from_nanos(after);
            // The relay may be faster than the commit's way back to the writer.
            let wait = acked.saturating_duration_since(commit.at);
            waits.push(wait.as_secs_f64() * 1e3);
            late += u64::from(commit.late_by > Duration::from_millis(5));
        }
        waits.sort_by(f64::total_cmp);
        let last = committed.iter().map(|commit| commit.at).max();
        let first = committed.iter().map(|commit| commit.at).min();
        let took = last.zip(first).map_or(0.0, |(last, first)| (last - first).as_secs_f64());
        Ok(Latencies {
            p50: thousandth(percentile(&waits, 50)),
            p99: thousandth(percentile(&waits, 99)),
            max: thousandth(waits.last().copied().unwrap_or(0.0)),
            per_s: ratio(to_f64(to_u64(committed.len())), took).round(),
            late: ratio(to_f64(late), to_f64(to_u64(waits.len()))),
        })
    }
}

fn answer(entries: &[Entry], found: &[Vec<Latencies>]) -> Answer {
    let mut table = Table::new(&[
        "wake-up",
        "messages/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "rate kept",
        "writers late",
        "runs",
    ]);
    let mut json = Map::new();
    for (entry, runs) in entries.iter().zip(found) {
        let of = |f: fn(&Latencies) -> f64| thousandth(median(runs.iter().map(f).collect()));
        let (p50, p99) = (of(|one| one.p50), of(|one| one.p99));
        let (max, per_s, late) = (of(|one| one.max), of(|one| one.per_s), of(|one| one.late));
        table.row(vec![
            entry.title.to_owned(),
            thousands(f64::from(entry.per_s)),
            p50.to_string(),
            p99.to_string(),
            max.to_string(),
            thousands(per_s),
            format!("{:.0} %", late * 100.0),
            runs.len().to_string(),
        ]);
        json.insert(
            entry.name.to_owned(),
            json!({
                "p50_ms": p50, "p99_ms": p99, "max_ms": max,
                "per_s": per_s, "writers_late_share": late, "runs": runs.len(),
            }),
        );
    }
    let text = format!(
        "From the commit to the acknowledgement ({WRITERS} connections, open loop; medians of the \
         runs' percentiles)\n\n{table}"
    );
    Answer { text, json }
}

fn thousandth(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
