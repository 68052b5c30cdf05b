//! How fast the SQLite store is on this machine.
//!
//! ```text
//! cargo run --release -p sendoff-stores --features sqlite --example sqlite_rates
//! ```
//!
//! Bodies have 256 bytes, keys are 10,000. The folder is the system's temporary one (`TMPDIR`), and
//! how many syncs a second its disk makes is printed first, since single sends cannot be faster.
//! The second number is the processor's time for each (all threads), which other programs disturb
//! least.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sendoff_core::barrier::{
    Ack, AckBatch, BarrierDesk, BarrierId, Barriers, MemberName, Outcome as Said,
};
use sendoff_core::lane::Lane;
use sendoff_core::store::{
    Ask, LaneLook, LeaseRequest, Look, OutboxDesk, OutboxStore, Outcome, RelayId, Row, Verdict,
};
use sendoff_core::{Message, Outbox};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore, Synchronous};

type Outcomes<T> = Result<T, Box<dyn std::error::Error>>;

const BACKLOG: u32 = 200_000;
const BATCH: usize = 1_000;

#[tokio::main]
async fn main() -> Outcomes<()> {
    let folder = tempfile::tempdir()?;
    syncs(folder.path())?;
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        println!("\nsynchronous = {synchronous:?}");
        let path = folder.path().join(format!("{synchronous:?}.db"));
        let options = SqliteOptions { create: true, synchronous, ..SqliteOptions::default() };
        let store = SqliteStore::open(&path, options)?;
        store.migrate().await?;
        single_sends(&path, synchronous)?;
        backlog(&store).await?;
        drain(&store).await?;
        failures(&store).await?;
        barriers(&store, &path, synchronous).await?;
    }
    Ok(())
}

/// Wall time and processor time since it was made.
struct Watch(Instant, Duration);

fn processor() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

impl Watch {
    fn start() -> Self {
        Self(Instant::now(), processor())
    }

    fn rate(&self, what: &str, count: u32) {
        let (wall, busy) = (self.0.elapsed().as_secs_f64(), processor() - self.1);
        let (rate, each) = (f64::from(count) / wall, busy.as_secs_f64() * 1e6 / f64::from(count));
        println!("{what:<48} {rate:>10.0}/s {each:>8.1} us");
    }

    fn once(&self, what: &str) {
        println!("{what:<48} {:>12.1?} {:>11.1?}", self.0.elapsed(), processor() - self.1);
    }
}

fn message(outbox: &Outbox, n: u32) -> sendoff_core::Result<Message> {
    outbox.message("orders.placed").key(format!("key-{}", n % 10_000)).body(vec![7; 256]).build()
}

fn syncs(folder: &Path) -> Outcomes<()> {
    let mut file = std::fs::File::create(folder.join("syncs"))?;
    let watch = Watch::start();
    let mut count = 0;
    while watch.0.elapsed() < Duration::from_secs(1) {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    watch.rate("4 KiB write and fdatasync", count);
    Ok(())
}

/// One message in each transaction, as a service sends.
fn single_sends(path: &Path, synchronous: Synchronous) -> Outcomes<()> {
    let mut connection = Connection::open(path)?;
    let word = if synchronous == Synchronous::Full { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", word)?;
    let outbox = Outbox::new("rates");
    let watch = Watch::start();
    let mut count = 0;
    while watch.0.elapsed() < Duration::from_secs(3) {
        let transaction = connection.transaction()?;
        outbox.send_blocking(&transaction, &message(&outbox, count)?)?;
        transaction.commit()?;
        count += 1;
    }
    watch.rate("single sends", count);
    Ok(())
}

async fn backlog(store: &SqliteStore) -> Outcomes<()> {
    let outbox = Outbox::new("rates");
    let messages = (0..BACKLOG).map(|n| message(&outbox, n)).collect::<Result<Vec<_>, _>>()?;
    let watch = Watch::start();
    for batch in messages.chunks(BATCH) {
        store.send_all(batch).await?;
    }
    watch.rate("sends, 1,000 in each transaction", BACKLOG);
    Ok(())
}

async fn take(store: &SqliteStore, relay: &RelayId) -> Outcomes<i64> {
    let request = LeaseRequest {
        relay: relay.clone(),
        target: None,
        ttl: Duration::from_secs(600),
        keep: Vec::new(),
        release: Vec::new(),
        ask: Ask::Share,
    };
    Ok(store.lease(&request).await?.lanes.first().ok_or("no lane")?.epoch)
}

fn look(after: i64) -> Look {
    Look {
        reading: sendoff_core::store::Reading::Lanes,
        lanes: vec![LaneLook { lane: Lane(0), after }],
        ready: true,
        rows_max: BATCH,
        lane_rows_max: BATCH,
        bytes_max: 64 << 20,
        ..Look::default()
    }
}

fn verdicts(epoch: i64, rows: &[Row], outcome: &Outcome) -> Vec<Verdict> {
    rows.iter()
        .map(|row| Verdict {
            seq: row.seq,
            lane: row.lane,
            epoch,
            key: row.key.clone(),
            outcome: outcome.clone(),
        })
        .collect()
}

/// Looks and settlements only, one batch read ahead, as a relay with an instant publisher.
async fn drain(store: &SqliteStore) -> Outcomes<()> {
    let relay = RelayId::new();
    let epoch = take(store, &relay).await?;
    let watch = Watch::start();
    let mut count = 0;
    let mut rows = store.look(&look(0)).await?.rows;
    while let Some(last) = rows.last() {
        let next = look(last.seq);
        let verdicts = verdicts(epoch, &rows, &Outcome::Published { releases: false });
        let (settled, sight) = tokio::join!(store.settle(&relay, &verdicts), store.look(&next));
        count += u32::try_from(settled?.published)?;
        rows = sight?.rows;
    }
    watch.rate("drained: read, deleted and counted", count);
    leave(store, relay).await
}

async fn leave(store: &SqliteStore, relay: RelayId) -> Outcomes<()> {
    let mut request = LeaseRequest {
        relay,
        target: None,
        ttl: Duration::from_secs(600),
        keep: Vec::new(),
        release: Vec::new(),
        ask: Ask::Share,
    };
    request.release = store.lease(&request).await?.lanes;
    request.ask = Ask::Leave;
    store.lease(&request).await?;
    Ok(())
}

/// What the rare paths cost, since each holds the write lock: a failure in front of a backlog, and
/// holding and releasing what stands behind one message.
async fn failures(store: &SqliteStore) -> Outcomes<()> {
    let outbox = Outbox::new("failures");
    let send = async |key: &str| {
        let messages = (0..50_000)
            .map(|_| outbox.message("orders.placed").key(key).body(vec![7; 256]).build())
            .collect::<Result<Vec<_>, _>>()?;
        Outcomes::Ok(store.send_all(&messages).await?)
    };
    let retry =
        Outcome::Retry { after: Duration::ZERO, error: "no".to_owned(), counts: true, holds: true };
    let relay = RelayId::new();
    let epoch = take(store, &relay).await?;
    store.send_all(&[message(&outbox, 0)?]).await?;
    send("many").await?;
    let rows = store.look(&Look { rows_max: 1, ..look(0) }).await?.rows;

    let watch = Watch::start();
    store.settle(&relay, &verdicts(epoch, &rows, &retry)).await?;
    watch.once("a failure in front of 50,000 of another key");
    let watch = Watch::start();
    store.look(&look(0)).await?;
    watch.once("a look at 1,000 rows while there is a blocker");
    let known = Look { rows_max: 9_000, lane_rows_max: 8_000, ..look(0) };
    let known = store.look(&known).await?.rows.iter().map(|row| row.seq).collect();
    let watch = Watch::start();
    store.look(&Look { known, ..look(0) }).await?;
    watch.once("a look at 1,000 rows behind 8,000 known ones");
    store.settle(&relay, &verdicts(epoch, &rows, &Outcome::Published { releases: true })).await?;

    let rows = store.look(&Look { rows_max: 1, ..look(0) }).await?.rows;
    let watch = Watch::start();
    store.settle(&relay, &verdicts(epoch, &rows, &retry)).await?;
    watch.once("a failure that holds 32,768 followers");
    store.settle(&relay, &verdicts(epoch, &rows, &retry)).await?;
    let watch = Watch::start();
    let published = Outcome::Published { releases: true };
    let settled = store.settle(&relay, &verdicts(epoch, &rows, &published)).await?;
    watch.once(&format!("a publish that releases {}", settled.released));
    let watch = Watch::start();
    store.stats().await?;
    watch.once("counts of 50,000 rows");
    leave(store, relay).await
}

/// A barrier of 100,000 members, acknowledged in batches and, beside one of 100, one by one.
async fn barriers(store: &SqliteStore, path: &Path, synchronous: Synchronous) -> Outcomes<()> {
    const MEMBERS: u32 = 100_000;
    let names: Vec<String> = (0..MEMBERS).map(|n| format!("documents/{n}.xml")).collect();
    let barriers = Barriers::new();
    for (of, count) in [("small", 100), ("batches", names.len()), ("single", names.len())] {
        let plan = barriers.plan(of)?.members(&names[..count]).continue_with("done").build()?;
        let watch = Watch::start();
        store.create_barrier(&plan).await??;
        watch.once(&format!("create a barrier of {count} members"));
    }
    let watch = Watch::start();
    for names in names.chunks(BATCH) {
        let acks = names
            .iter()
            .map(|name| Ok(Ack { member: MemberName::new(name)?, outcome: Said::ok() }));
        let acks = acks.collect::<sendoff_core::Result<Vec<_>>>()?;
        store.ack_members(&AckBatch::new(BarrierId::new("batches")?, acks)).await??;
    }
    watch.rate("acknowledgements, 1,000 each transaction", MEMBERS);
    let connection = Connection::open(path)?;
    connection.pragma_update(
        None,
        "synchronous",
        if synchronous == Synchronous::Full { "FULL" } else { "NORMAL" },
    )?;
    for of in ["small", "single"] {
        let watch = Watch::start();
        for name in &names[..99] {
            let transaction = connection.unchecked_transaction()?;
            barriers.ack_blocking(&transaction, of, name, Said::ok())?;
            transaction.commit()?;
        }
        watch.rate(&format!("acknowledgements one by one, {of}"), 99);
    }
    Ok(())
}
