//! `claim`: what it takes to read the next thousand rows and to settle them, by what else is in the
//! table. It has to stay flat: whatever waits, is held or was published before.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sendoff_core::lane::{LANES_DEFAULT, Lane};
use sendoff_core::store::{
    Ask, LaneLease, LaneLook, LeaseRequest, Look, OutboxStore, Outcome, RelayId, Verdict,
};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};
use serde_json::{Map, json};
use tokio_postgres::Client;

use crate::contenders::Contender;
use crate::failure::{Doing, Failure, Result};
use crate::figures::{median, percentile, ratio, to_f64};
use crate::ground::Ground;
use crate::measure::{Answer, Effort, tell};
use crate::product;
use crate::table::{Table, thousands};

/// So many rows are claimed at a time: 16 of each of 64 lanes.
const ROWS: usize = 1_024;
const LANE_ROWS: usize = 16;
/// So many keys of each lane, so that a few rows are as even over the lanes as a backlog is.
const LANE_KEYS: usize = 157;

/// What stands in the table.
#[derive(Debug, Clone, Copy)]
struct Condition {
    name: &'static str,
    title: &'static str,
    backlog: u64,
    set_aside: u64,
}

/// Times of claims, in milliseconds.
#[derive(Debug, Default)]
struct Claims {
    look: Vec<f64>,
    settle: Vec<f64>,
}

/// Runs it.
///
/// # Errors
/// The first failure, or a look that gave fewer rows than there were.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    Contender::Lanes.create(ground).await?;
    let admin = ground.admin();
    admin
        .batch_execute("TRUNCATE sendoff.outbox, sendoff.message_key; CHECKPOINT")
        .await
        .doing("emptying the tables")?;
    make_keys(admin).await?;
    let (backlog, set_aside) = effort.pick((500_000, 100_000), (5_000_000, 1_000_000));
    let small = u64::try_from(ROWS).unwrap_or(u64::MAX);
    let condition = |name, title, backlog, set_aside| Condition { name, title, backlog, set_aside };
    let cycles = effort.pick(40, 100);
    let mut claimer = Claimer::start(ground).await?;
    let mut found = Vec::new();
    found.push((
        condition("small", "nothing else", small, 0),
        claimer.refilled(admin, cycles).await?,
    ));
    fill_aside(admin, set_aside).await?;
    found.push((
        condition("small_aside", "many held, many due later", small, set_aside),
        claimer.refilled(admin, cycles).await?,
    ));
    tell(&format!("filling {} rows", thousands(to_f64(backlog))));
    fill_ready(admin, backlog).await?;
    found.push((
        condition("large", "many held, many due later", backlog, set_aside),
        claimer.claim(cycles).await?,
    ));
    let old = ground.connect().await?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sendoff.lane")
        .await
        .doing("taking an old snapshot")?;
    // What was settled since stays in the table and in its indexes.
    claimer.claim(cycles).await?;
    found.push((
        condition("large_old_snapshot", "the same, and an old snapshot held", backlog, set_aside),
        claimer.claim(cycles).await?,
    ));
    old.batch_execute("ROLLBACK").await.doing("giving the old snapshot up")?;
    Ok(answer(&found))
}

/// A relay's side of the store, without a relay.
struct Claimer {
    store: PostgresStore,
    relay: RelayId,
    lanes: Vec<LaneLease>,
    /// What was claimed last of each lane.
    read: HashMap<Lane, i64>,
}

impl Claimer {
    async fn start(ground: &Ground) -> Result<Self> {
        let store = product::store(ground, PostgresOptions::default())?;
        let relay = RelayId::new();
        let request = LeaseRequest {
            relay: relay.clone(),
            ttl: Duration::from_secs(3_600),
            keep: Vec::new(),
            release: Vec::new(),
            ask: Ask::Share,
            target: None,
        };
        let lanes = store.lease(&request).await.doing("leasing the lanes")?.lanes;
        Ok(Self { store, relay, lanes, read: HashMap::new() })
    }

    /// Claims as often, each time all of the rows that were sent just before.
    async fn refilled(&mut self, admin: &Client, cycles: usize) -> Result<Claims> {
        let mut claims = Claims::default();
        for cycle in 0..=cycles {
            fill_ready(admin, u64::try_from(ROWS).unwrap_or(u64::MAX)).await?;
            let mut one = Claims::default();
            while one.settle.is_empty() || !self.is_empty(admin).await? {
                self.once(&mut one).await?;
            }
            // The first one finds cold caches.
            if cycle > 0 {
                claims.look.push(one.look.iter().sum());
                claims.settle.push(one.settle.iter().sum());
            }
        }
        Ok(claims)
    }

    async fn is_empty(&self, admin: &Client) -> Result<bool> {
        let sql = "SELECT NOT EXISTS (SELECT FROM sendoff.outbox WHERE due_at IS NULL \
                   AND retry_at IS NULL AND quarantined_at IS NULL AND NOT held)";
        Ok(admin.query_one(sql, &[]).await.doing("looking whether rows are left")?.get(0))
    }

    /// Claims as often from what is there.
    async fn claim(&mut self, cycles: usize) -> Result<Claims> {
        let mut claims = Claims::default();
        for _ in 0..cycles {
            let settled = self.once(&mut claims).await?;
            if settled < ROWS {
                return Err(Failure::new(format!("a look gave {settled} rows, not {ROWS}")));
            }
        }
        Ok(claims)
    }

    async fn once(&mut self, claims: &mut Claims) -> Result<usize> {
        let after = |lane: &Lane| self.read.get(lane).copied().unwrap_or(0);
        let look = Look {
            lanes: self
                .lanes
                .iter()
                .map(|lease| LaneLook { lane: lease.lane, after: after(&lease.lane) })
                .collect(),
            ready: true,
            // A look reads one row more of each lane, to say that there is more.
            rows_max: ROWS + usize::from(LANES_DEFAULT),
            lane_rows_max: LANE_ROWS,
            bytes_max: 64 << 20,
            ..Look::default()
        };
        let begun = Instant::now();
        let sight = self.store.look(&look).await.doing("looking")?;
        claims.look.push(begun.elapsed().as_secs_f64() * 1e3);
        let epochs: HashMap<Lane, i64> =
            self.lanes.iter().map(|lease| (lease.lane, lease.epoch)).collect();
        let verdicts: Vec<Verdict> = sight
            .rows
            .iter()
            .map(|row| Verdict {
                seq: row.seq,
                lane: row.lane,
                epoch: epochs.get(&row.lane).copied().unwrap_or(0),
                key: row.key.clone(),
                outcome: Outcome::Published { releases: false },
            })
            .collect();
        for row in &sight.rows {
            let read = self.read.entry(row.lane).or_insert(row.seq);
            *read = (*read).max(row.seq);
        }
        let begun = Instant::now();
        self.store.settle(&self.relay, &verdicts).await.doing("settling")?;
        claims.settle.push(begun.elapsed().as_secs_f64() * 1e3);
        Ok(verdicts.len())
    }
}

/// Makes the keys, each next one of another lane.
async fn make_keys(admin: &Client) -> Result<()> {
    let mut of_lane = vec![Vec::new(); usize::from(LANES_DEFAULT)];
    for number in 0.. {
        let key = format!("customer-{number}");
        let keys = &mut of_lane[usize::from(Lane::of(&key, LANES_DEFAULT).0)];
        if keys.len() < LANE_KEYS {
            keys.push(key);
        } else if of_lane.iter().all(|keys| keys.len() == LANE_KEYS) {
            break;
        }
    }
    let keys: Vec<&str> = (0..LANE_KEYS)
        .flat_map(|turn| of_lane.iter().map(move |keys| keys[turn].as_str()))
        .collect();
    admin
        .batch_execute("CREATE TEMP TABLE bench_key (n bigint PRIMARY KEY, key text NOT NULL)")
        .await
        .doing("making the keys")?;
    let sql = "INSERT INTO bench_key SELECT n - 1, key FROM unnest($1::text[]) WITH ORDINALITY AS u(key, n)";
    admin.execute(sql, &[&keys]).await.doing("making the keys")?;
    admin.batch_execute("ANALYZE bench_key").await.doing("making the keys")
}

/// Ready rows over 10,000 keys. A fill of millions is not what is measured, so the pairs of source and
/// id are not recorded: neither a look nor a settlement reads them.
async fn fill_ready(admin: &Client, rows: u64) -> Result<()> {
    fill(
        admin,
        &format!(
            "INSERT INTO sendoff.outbox (id, source, topic, key, body) \
             SELECT gen_random_uuid()::text, 'shop', 'orders.placed', k.key, \
                    repeat('x', 256)::bytea \
               FROM generate_series(1, {rows}) AS g(n) \
               JOIN bench_key AS k ON k.n = g.n % (SELECT count(*) FROM bench_key)"
        ),
    )
    .await
}

/// As many held behind quarantined ones, and as many due tomorrow.
async fn fill_aside(admin: &Client, rows: u64) -> Result<()> {
    let columns = "sendoff.outbox (id, source, topic, key, body, held, quarantined_at, \
                   quarantine_reason, due_at)";
    let row = |number: &str, key: &str, held: &str, quarantined: &str, due: &str| {
        format!(
            "INSERT INTO {columns} SELECT gen_random_uuid()::text, 'shop', 'orders.placed', \
                 '{key}-' || n % 1000, repeat('x', 256)::bytea, {held}, {quarantined}, {due} \
               FROM generate_series(1, {number}) AS n"
        )
    };
    let rows = rows.to_string();
    fill(admin, &row("1000", "held", "false", "now(), 'permanent'", "NULL")).await?;
    fill(admin, &row(&rows, "held", "true", "NULL, NULL", "NULL")).await?;
    fill(admin, &row(&rows, "later", "false", "NULL, NULL", "now() + interval '1 day'")).await
}

async fn fill(admin: &Client, sql: &str) -> Result<()> {
    let trigger =
        |word: &str| format!("ALTER TABLE sendoff.outbox {word} TRIGGER outbox_record_keys");
    let sql = format!("{}; {sql}; {}", trigger("DISABLE"), trigger("ENABLE"));
    admin.batch_execute(&sql).await.doing("filling the table")
}

fn answer(found: &[(Condition, Claims)]) -> Answer {
    let mut table = Table::new(&[
        "beside them",
        "ready rows",
        "held and due later, each",
        "look p50 ms",
        "p99",
        "settle p50 ms",
        "p99",
        "both to the first",
        "claims",
    ]);
    let mut json = Map::new();
    let both = |claims: &Claims| median(claims.look.clone()) + median(claims.settle.clone());
    let first = found.first().map_or(0.0, |(_, claims)| both(claims));
    for (condition, claims) in found {
        let flat = ratio(both(claims), first);
        let p99 = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            hundredth(percentile(&sorted, 99))
        };
        let (look, settle) =
            (hundredth(median(claims.look.clone())), hundredth(median(claims.settle.clone())));
        table.row(vec![
            condition.title.to_owned(),
            thousands(to_f64(condition.backlog)),
            thousands(to_f64(condition.set_aside)),
            look.to_string(),
            p99(&claims.look).to_string(),
            settle.to_string(),
            p99(&claims.settle).to_string(),
            flat.to_string(),
            claims.look.len().to_string(),
        ]);
        json.insert(
            condition.name.to_owned(),
            json!({
                "look_ms": look, "look_p99_ms": p99(&claims.look),
                "settle_ms": settle, "settle_p99_ms": p99(&claims.settle),
                "to_first": flat, "claims": claims.look.len(),
            }),
        );
    }
    let text = format!(
        "Claiming {ROWS} rows: one look over every lane, one settlement (medians)\n\n{table}"
    );
    Answer { text, json }
}

fn hundredth(value: f64) -> f64 {
    (value * 1e2).round() / 1e2
}
