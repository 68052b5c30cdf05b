//! Old and new programs on one schema: the statements of a relay of schema version 2, as they were, on a
//! schema of version 3, beside a current relay, and while it is migrated under them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendoff_core::memory::MemoryPublisher;
use sendoff_core::store::{OutboxDesk, SchemaState};
use tokio_postgres::Client;

use crate::running::relay_with;
use crate::stage::{PATIENCE, connect, database, eventually, message, migrated, open};

macro_rules! v2 {
    ($name:literal) => {
        include_str!(concat!("fixtures/v2/", $name, ".sql"))
    };
}

const MIGRATIONS_V2: [(i32, &str); 2] = [
    (1, include_str!("../../src/postgres/migrations/0001_outbox.sql")),
    (
        2,
        concat!(
            include_str!("../../src/postgres/migrations/0002_barrier.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_baton.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_ack.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_create.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_change.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_close.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_read.sql"),
            include_str!("../../src/postgres/migrations/0002_barrier_api.sql"),
        ),
    ),
];

/// A schema as a program of version 2 made it.
async fn schema_of_version_2() -> (String, Client) {
    let url = database().await;
    let client = connect(&url).await;
    for (version, text) in MIGRATIONS_V2 {
        client.batch_execute(text).await.unwrap();
        client
            .execute(
                "INSERT INTO sendoff.schema_version (version, checksum) VALUES ($1, md5($2))",
                &[&version, &text],
            )
            .await
            .unwrap();
    }
    (url, client)
}

/// How long the old relay's leases last, in microseconds.
const TTL_MICROS: i64 = 600_000_000;
/// The current relay asks for lanes every third of this.
const LEASE: Duration = Duration::from_secs(12);
/// All of its lanes.
const ALL: usize = 64;

/// Rows by their seqs and lanes.
type Rows<'a> = &'a [(i64, i16)];

/// A relay of schema version 2, with its statements prepared as it prepares them.
struct OldRelay {
    client: Client,
    id: String,
    lanes: BTreeMap<i16, i64>,
    published: Vec<String>,
}

impl OldRelay {
    async fn begin(url: &str, id: &str) -> Self {
        let client = connect(url).await;
        client
            .batch_execute(
                "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                 SET enable_bitmapscan = off; SET search_path = pg_catalog, pg_temp",
            )
            .await
            .unwrap();
        Self { client, id: id.to_owned(), lanes: BTreeMap::new(), published: Vec::new() }
    }

    /// Renews its lanes up to `keep` of them, gives the others back, and takes its share where it is asked
    /// to.
    async fn lease(&mut self, keep: usize, take: bool) {
        let (lanes, epochs): (Vec<i16>, Vec<i64>) = self.lanes.iter().unzip();
        let keep = keep.min(lanes.len());
        let (kept, back) = (lanes[..keep].to_vec(), lanes[keep..].to_vec());
        let (kept_epochs, back_epochs) = (epochs[..keep].to_vec(), epochs[keep..].to_vec());
        let (kept_floors, back_floors) = (vec![0_i64; kept.len()], vec![0_i64; back.len()]);
        self.client.batch_execute("BEGIN").await.unwrap();
        self.client.batch_execute(v2!("lease_lock")).await.unwrap();
        let rows = self
            .client
            .query(
                v2!("lease"),
                &[
                    &self.id,
                    &TTL_MICROS,
                    &kept,
                    &kept_epochs,
                    &kept_floors,
                    &back,
                    &back_epochs,
                    &back_floors,
                    &take,
                    &false,
                    &None::<String>,
                    &None::<String>,
                    &None::<i32>,
                ],
            )
            .await
            .unwrap();
        self.client.batch_execute("COMMIT").await.unwrap();
        self.lanes = rows
            .iter()
            .filter_map(|row| Some((row.get::<_, Option<i16>>(0)?, row.get(1))))
            .collect();
    }

    /// One look, one failure that is tried again, and everything else published and settled.
    async fn turn(&mut self, failing: Option<&str>) -> usize {
        let lanes: Vec<i16> = self.lanes.keys().copied().collect();
        let afters = vec![0_i64; lanes.len()];
        let (known, bytes): (Vec<i64>, i64) = (Vec::new(), 64 << 20);
        let ready = self
            .client
            .query(v2!("look_ready"), &[&lanes, &afters, &known, &1_001_i64, &1_001_i64, &bytes])
            .await
            .unwrap();
        let waiting = self
            .client
            .query(v2!("look_waiting"), &[&lanes, &known, &1_000_i64, &1_000_i64, &bytes])
            .await
            .unwrap();
        self.client.query(v2!("last_seq"), &[]).await.unwrap();
        let (mut gone, mut failed): (Vec<i64>, Vec<(i64, i16)>) = (Vec::new(), Vec::new());
        let mut freed: Vec<(i64, i16)> = Vec::new();
        let mut failed_keys: BTreeSet<Option<String>> = BTreeSet::new();
        for row in ready.iter().chain(&waiting) {
            // A key whose message has failed goes no further.
            if row.get::<_, i16>(0) != 0 || failed_keys.contains(&row.get(6)) {
                continue;
            }
            let (seq, lane, id): (i64, i16, String) = (row.get(1), row.get(3), row.get(7));
            if failing == Some(id.as_str()) {
                failed.push((seq, lane));
                failed_keys.insert(row.get(6));
            } else {
                self.published.push(id);
                gone.push(seq);
                if row.get::<_, Option<bool>>(5) == Some(true) {
                    freed.push((seq, lane));
                }
            }
        }
        let epochs: Vec<i64> = lanes.iter().map(|lane| self.lanes[lane]).collect();
        if failed.is_empty() && freed.is_empty() {
            let settle = v2!("settle_published");
            self.client.query(settle, &[&gone, &self.id, &lanes, &epochs]).await.unwrap();
        } else {
            self.settle(&gone, (&failed, &freed), (&lanes, &epochs)).await;
        }
        gone.len()
    }

    async fn settle(
        &self,
        gone: &[i64],
        (failed, freed): (Rows<'_>, Rows<'_>),
        (lanes, epochs): (&Vec<i16>, &Vec<i64>),
    ) {
        let (seqs, failed_lanes): (Vec<i64>, Vec<i16>) = failed.iter().copied().unzip();
        let failed_epochs: Vec<i64> = failed_lanes.iter().map(|lane| self.lanes[lane]).collect();
        let count = failed.len();
        self.client.batch_execute("BEGIN").await.unwrap();
        self.client
            .query(
                v2!("settle"),
                &[
                    &gone.to_vec(),
                    &self.id,
                    lanes,
                    epochs,
                    &seqs,
                    &failed_lanes,
                    &failed_epochs,
                    &vec![false; count],
                    &vec![0_i64; count],
                    &vec![true; count],
                    &vec!["no".to_owned(); count],
                    &vec![None::<String>; count],
                ],
            )
            .await
            .unwrap();
        let claim: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&self.id, &seqs, &failed_lanes, &failed_epochs];
        let mut search = claim.to_vec();
        search.push(&1_000_i64);
        self.client.query(v2!("hold_followers"), &search).await.unwrap();
        self.client.query(v2!("hold"), &claim).await.unwrap();
        let (seqs, freed_lanes): (Vec<i64>, Vec<i16>) = freed.iter().copied().unzip();
        let epochs: Vec<i64> = freed_lanes.iter().map(|lane| self.lanes[lane]).collect();
        let keys = vec![Some("k".to_owned()); freed.len()];
        self.client
            .query(v2!("release"), &[&self.id, &seqs, &freed_lanes, &epochs, &keys, &20_000_i64])
            .await
            .unwrap();
        self.client.query(v2!("promote"), &[&freed_lanes, &keys]).await.unwrap();
        self.client.batch_execute("COMMIT").await.unwrap();
    }

    async fn housekeeping(&self) {
        self.client.query(v2!("mend_keys"), &[&self.id, &-1_i16, &"", &2_000_i64]).await.unwrap();
        self.client.query(v2!("sweep_tally"), &[]).await.unwrap();
        self.client.query(v2!("sweep_keys"), &[&1_000_i64, &86_400_000_000_i64]).await.unwrap();
    }
}

/// Every id of these, each exactly so often as it says.
fn assert_each_one_time(mut arrived: Vec<String>, expected: usize) {
    arrived.sort_unstable();
    let distinct: BTreeSet<&String> = arrived.iter().collect();
    assert_eq!(distinct.len(), expected, "nothing is lost");
    assert_eq!(arrived.len(), expected, "nothing is repeated");
}

#[tokio::test]
async fn a_relay_of_version_2_works_on_a_schema_of_version_3() {
    let (store, url) = migrated().await;
    let mut old = OldRelay::begin(&url, "old").await;
    old.lease(ALL, true).await;
    assert_eq!(old.lanes.len(), 64);
    let sent: Vec<_> = (0..50).map(|n| message(&format!("{n:02}"), "k")).collect();
    store.send_all(&sent).await.unwrap();
    old.client
        .batch_execute(
            "INSERT INTO sendoff.outbox (id, source, topic) VALUES ('plain', 'old', 't')",
        )
        .await
        .unwrap();
    old.turn(Some("00")).await;
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.retrying, stats.held), (1, 49), "the failure held its key");
    let begun = std::time::Instant::now();
    while store.stats().await.unwrap().pending + store.stats().await.unwrap().held > 0 {
        old.turn(None).await;
        old.housekeeping().await;
        old.lease(ALL, true).await;
        assert!(begun.elapsed() < PATIENCE, "it does not end");
    }
    old.housekeeping().await;
    let of_key: Vec<&String> = old.published.iter().filter(|id| *id != "plain").collect();
    assert!(of_key.is_sorted(), "in order: {of_key:?}");
    assert_each_one_time(old.published.clone(), 51);
    old.client
        .batch_execute(
            "SELECT sendoff.barrier_create('b', ARRAY['x'], continue_with => 'done'); \
             SELECT sendoff.barrier_ack('b', 'x')",
        )
        .await
        .unwrap();
    assert_eq!(store.stats().await.unwrap().pending, 1, "the continuation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_of_both_versions_share_a_store() {
    let (store, url) = migrated().await;
    let mut old = OldRelay::begin(&url, "old").await;
    old.lease(ALL, true).await;
    old.lease(ALL / 2, false).await;
    assert_eq!(old.lanes.len(), ALL / 2);
    let target = MemoryPublisher::new();
    let new = relay_with(open(&url), &target, LEASE);
    eventually("the new relay is there", || async {
        store.stats().await.ok().filter(|stats| stats.relays == 2).map(drop)
    })
    .await;
    for part in 0..8 {
        let sent: Vec<_> =
            (0..50).map(|n| message(&format!("{part:02}-{n:02}"), &format!("k{n}"))).collect();
        store.send_all(&sent).await.unwrap();
        old.turn(None).await;
        old.lease(ALL, false).await;
    }
    let begun = std::time::Instant::now();
    while store.stats().await.unwrap().pending > 0 {
        old.turn(None).await;
        old.lease(ALL, false).await;
        assert!(begun.elapsed() < PATIENCE, "it does not end");
    }
    new.stop().await;
    let by_new = target.ids();
    assert!(!by_new.is_empty() && !old.published.is_empty(), "both had a part");
    let arrived = by_new.into_iter().chain(old.published).collect();
    assert_each_one_time(arrived, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_migrated_under_a_running_relay_loses_and_repeats_nothing() {
    let (url, sender) = schema_of_version_2().await;
    let store = open(&url);
    assert_eq!(store.schema().await.unwrap().state, SchemaState::Missing);
    let mut old = OldRelay::begin(&url, "old").await;
    old.lease(ALL, true).await;
    let (shares, stops) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (sharing, stopping) = (Arc::clone(&shares), Arc::clone(&stops));
    let running = tokio::spawn(async move {
        let mut idle = 0;
        while idle < 3 {
            let gone = old.turn(None).await;
            let shares = sharing.load(Ordering::SeqCst);
            old.lease(if shares { ALL / 2 } else { ALL }, !shares).await;
            idle = if gone == 0 && stopping.load(Ordering::SeqCst) { idle + 1 } else { 0 };
        }
        old
    });
    let senders = tokio::spawn(async move {
        for n in 0..300 {
            sender
                .execute(
                    "INSERT INTO sendoff.outbox (id, source, topic, key) VALUES ($1, 's', 't', $2)",
                    &[&format!("{n:03}"), &format!("k{}", n % 7)],
                )
                .await
                .unwrap();
        }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    let migrated = store.migrate().await.unwrap();
    assert_eq!(migrated.state, SchemaState::Current);
    senders.await.unwrap();
    // A current relay joins the old one.
    shares.store(true, Ordering::SeqCst);
    let target = MemoryPublisher::new();
    let new = relay_with(open(&url), &target, LEASE);
    let watcher = connect(&url).await;
    eventually("it takes lanes", || async {
        let owners = "SELECT count(DISTINCT owner) FROM sendoff.lane";
        let owners: i64 = watcher.query_one(owners, &[]).await.ok()?.get(0);
        (owners == 2).then_some(())
    })
    .await;
    for n in 300..400 {
        store.send_all(&[message(&format!("{n:03}"), &format!("k{}", n % 7))]).await.unwrap();
    }
    stops.store(true, Ordering::SeqCst);
    let mut old = running.await.unwrap();
    old.lease(0, false).await;
    crate::running::drained(&store).await;
    new.stop().await;
    let by_new = target.ids().into_iter();
    assert!(old.published.len() >= 100, "the old one was at work: {}", old.published.len());
    assert_each_one_time(by_new.chain(old.published).collect(), 400);
}
