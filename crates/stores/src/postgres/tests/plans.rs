//! Plans: what a statement reads must not depend on statistics, on the backlog, on what was
//! published before, or on somebody's old snapshot. Counted in blocks and rows, not in time.

use std::time::Duration;

use sendoff_conformance::servers::fresh_database;
use sendoff_core::store::OutboxDesk;
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use crate::postgres::{PostgresOptions, PostgresStore, sql};

mod costs;

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A migrated database: a connection as the relay has it, with its statements prepared, and one as
/// anybody has it.
async fn relay() -> (Client, Client) {
    let url = tokio::task::spawn_blocking(fresh_database).await.unwrap().unwrap();
    PostgresStore::new(&url, PostgresOptions::default()).unwrap().migrate().await.unwrap();
    let (relay, client) = (connect(&url).await, connect(&url).await);
    relay.batch_execute(&sql::relay_session(Duration::from_secs(600))).await.unwrap();
    for (name, text) in [
        ("ready", sql::LOOK_READY),
        ("ready_small", sql::LOOK_READY_SMALL),
        ("waiting", sql::LOOK_WAITING),
        ("line", sql::LOOK_LINE),
        ("settle_published", sql::SETTLE_PUBLISHED),
        ("settle_published_keeping", sql::SETTLE_PUBLISHED_KEEPING),
        ("settle", sql::SETTLE),
        ("settle_keeping", sql::SETTLE_KEEPING),
        ("hold", sql::HOLD),
        ("hold_followers", sql::HOLD_FOLLOWERS),
        ("release", sql::RELEASE),
        ("promote", sql::PROMOTE),
        ("mend_keys", sql::MEND_KEYS),
        ("tend", sql::TEND),
        ("backlog", sql::BACKLOG),
        ("claim", sql::CLAIM),
        ("claim_mark", sql::CLAIM_MARK),
    ] {
        relay.batch_execute(&format!("PREPARE {name} AS {text}")).await.unwrap();
    }
    (relay, client)
}

/// Sends rows with these ids, over 10,000 keys.
async fn send(client: &Client, from: i64, to: i64) {
    client
        .batch_execute(&format!(
            "INSERT INTO sendoff.outbox (id, source, topic, key, body) \
             SELECT n::text, 'test', 't', 'k' || n % 10000, repeat('x', 100)::bytea \
               FROM generate_series({from}, {to}) AS n"
        ))
        .await
        .unwrap();
}

/// A look at every lane, from `after`.
fn ready(after: i64, known: &str) -> String {
    format!(
        "ready(ARRAY(SELECT n::smallint FROM generate_series(0, 63) n), \
               ARRAY(SELECT {after}::bigint FROM generate_series(0, 63)), '{known}', 1001, 17, 1048576)"
    )
}

/// The same with an even share of the bytes for each row.
fn ready_small(after: i64, known: &str) -> String {
    ready(after, known).replace("ready(", "ready_small(").replace("1048576", "1048")
}

const WAITING: &str =
    "waiting(ARRAY(SELECT n::smallint FROM generate_series(0, 63) n), '{}', 1000, 256, 1048576)";

const LINE: &str = "line(ARRAY(SELECT n::smallint FROM generate_series(0, 63) n), \
     ARRAY(SELECT 0::bigint FROM generate_series(0, 63)), '{}', 1000, 1048576, 32)";

/// What running a prepared statement did.
struct Ran {
    plan: Value,
    text: String,
}

impl Ran {
    async fn of(relay: &Client, call: &str) -> Self {
        // EXECUTE takes no subquery, so arrays are written out first.
        let mut call = call.to_owned();
        while let Some(at) = call.find("ARRAY(") {
            let mut depth = 0;
            let end = call[at + 5..]
                .find(|c| {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    depth == 0
                })
                .unwrap()
                + at
                + 6;
            let value: String = relay
                .query_one(&format!("SELECT quote_literal(({})::text)", &call[at..end]), &[])
                .await
                .unwrap()
                .get(0);
            call.replace_range(at..end, &value);
        }
        relay.batch_execute("BEGIN").await.unwrap();
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {call}");
        let ran = Self::explained(relay, &explain).await;
        relay.batch_execute("ROLLBACK").await.unwrap();
        ran
    }

    async fn explained(relay: &Client, explain: &str) -> Self {
        let answer = relay.simple_query(explain).await.unwrap();
        let text: String = answer
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        let plan: Value = serde_json::from_str(&text).unwrap();
        Self { plan: plan[0]["Plan"].clone(), text: outline(&plan[0]["Plan"], 0) }
    }

    /// Blocks that were read, wherever from.
    fn blocks(&self) -> i64 {
        ["Shared Hit Blocks", "Shared Read Blocks"]
            .iter()
            .map(|name| self.plan[name].as_i64().unwrap())
            .sum()
    }

    fn rows(&self) -> i64 {
        // PostgreSQL 18 writes them with decimals.
        let rows = self.plan["Actual Rows"].as_f64().unwrap();
        format!("{rows:.0}").parse().unwrap()
    }

    /// Every scan of the outbox goes by an index that leads to the rows.
    fn assert_by_index(&self, what: &str) {
        for node in ["Seq Scan", "Bitmap Heap Scan", "Gather"] {
            let on_outbox = scans(&self.plan, node);
            assert!(on_outbox == 0, "{what}: {node} in {}", self.text);
        }
    }
}

/// A plan on one line for each node.
fn outline(plan: &Value, depth: usize) -> String {
    let word = |name: &str| plan[name].as_str().unwrap_or_default().to_owned();
    let mut text = format!(
        "\n{:depth$}{} {} {} rows {} x {} blocks {}",
        "",
        word("Node Type"),
        word("Index Name"),
        word("Index Cond"),
        plan["Actual Rows"],
        plan["Actual Loops"],
        plan["Shared Hit Blocks"]
    );
    for below in plan["Plans"].as_array().into_iter().flatten() {
        text.push_str(&outline(below, depth + 2));
    }
    text
}

/// How many nodes of this kind scan the outbox.
fn scans(plan: &Value, node: &str) -> usize {
    let here = plan["Node Type"] == node && (plan["Relation Name"] == "outbox" || node == "Gather");
    let below = plan["Plans"].as_array().into_iter().flatten();
    usize::from(here) + below.map(|plan| scans(plan, node)).sum::<usize>()
}

#[tokio::test]
async fn a_look_is_as_cheap_beside_an_old_snapshot_of_200000_published_rows() {
    let (relay, client) = relay().await;
    send(&client, 1, 100).await;
    let fresh = Ran::of(&relay, &ready(0, "{}")).await;
    assert_eq!(fresh.rows(), 101, "a hundred and the header");
    send(&client, 101, 200_000).await;
    // Somebody's report, open for hours.
    let url_client = &client;
    let old = relay_of(url_client).await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sendoff.outbox")
        .await
        .unwrap();
    client.batch_execute("DELETE FROM sendoff.outbox").await.unwrap();
    client.batch_execute("VACUUM sendoff.outbox").await.unwrap();
    let last: i64 = client
        .query_one("SELECT last_value FROM sendoff.outbox_seq_seq", &[])
        .await
        .unwrap()
        .get(0);
    send(&client, 200_001, 200_100).await;
    let beside = Ran::of(&relay, &ready(last, "{}")).await;
    assert_eq!(beside.rows(), 101);
    assert!(
        beside.blocks() <= 2 * fresh.blocks() + 100,
        "{} blocks, {} without the snapshot: {}",
        beside.blocks(),
        fresh.blocks(),
        beside.text
    );
    // The measure would tell: from 0 it does walk what is dead.
    let from_0 = Ran::of(&relay, &ready(0, "{}")).await;
    assert!(from_0.blocks() > 10 * beside.blocks(), "{} blocks", from_0.blocks());
    old.batch_execute("ROLLBACK").await.unwrap();
}

/// Another connection to the same database.
async fn relay_of(client: &Client) -> Client {
    let name: String =
        client.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
    let server =
        tokio::task::spawn_blocking(sendoff_conformance::servers::postgres).await.unwrap().unwrap();
    let (server, _) = server.rsplit_once('/').unwrap();
    connect(&format!("{server}/{name}")).await
}

#[tokio::test]
async fn plans_made_when_the_outbox_was_empty_and_analysed_are_good_for_a_backlog() {
    let (relay, client) = relay().await;
    client
        .batch_execute("ALTER TABLE sendoff.outbox SET (autovacuum_enabled = off)")
        .await
        .unwrap();
    client.batch_execute("ANALYZE sendoff.outbox; ANALYZE sendoff.lane").await.unwrap();
    // The plans are made now and kept.
    let seqs = "ARRAY(SELECT n::bigint FROM generate_series(1, 1000) n)";
    let nothing = "'{}', '{}', '{}'";
    let calls = [
        ready(0, "{}"),
        ready_small(0, "{}"),
        WAITING.to_owned(),
        LINE.to_owned(),
        format!("settle_published({seqs}, 'r', '{{1}}', '{{1}}')"),
        format!(
            "settle({seqs}, 'r', '{{1}}', '{{1}}', {nothing}, '{{}}', {nothing}, '{{}}', '{{}}')"
        ),
        format!("hold('r', {nothing})"),
        format!("hold_followers('r', {nothing}, 1000)"),
        format!("release('r', {nothing}, '{{}}', 1000)"),
        "promote('{1}', '{k1}')".to_owned(),
        "mend_keys('r', -1::smallint, '', 1000)".to_owned(),
        "tend('r', '{}', '{}', 1000)".to_owned(),
        "claim(0, 1000, 1048576)".to_owned(),
        format!("claim_mark({seqs}, 'r', 't', {nothing}, {nothing})"),
    ];
    for call in &calls {
        Ran::of(&relay, call).await.assert_by_index("empty");
    }
    send(&client, 1, 100_000).await;
    client
        .batch_execute(
            "UPDATE sendoff.outbox SET due_at = now() + interval '1 day' WHERE seq % 2 = 0; \
             UPDATE sendoff.outbox SET held = true WHERE seq % 3 = 0 AND due_at IS NULL",
        )
        .await
        .unwrap();
    for call in &calls {
        let ran = Ran::of(&relay, call).await;
        ran.assert_by_index("a backlog");
        // A thousand rows by the primary key are a few thousand blocks; the table has tens of
        // thousands of rows on as many.
        assert!(ran.blocks() < 12_000, "{call}: {} blocks: {}", ran.blocks(), ran.text);
    }
    for look in [ready(0, "{}"), ready_small(0, "{}")] {
        let look = Ran::of(&relay, &look).await;
        assert!(look.rows() <= 1_002, "{}", look.rows());
        assert!(look.blocks() < 8_000, "{} blocks: {}", look.blocks(), look.text);
    }
}

#[tokio::test]
async fn what_is_kept_costs_a_look_nothing_and_a_settlement_that_deletes_one_row() {
    let (relay, client) = relay().await;
    let seqs = "ARRAY(SELECT n::bigint FROM generate_series(1, 1000) n)";
    let settle = format!("settle_published({seqs}, 'r', '{{1}}', '{{1}}')");
    send(&client, 1, 1_000).await;
    let (look, settled) = (ready(0, "{}"), Ran::of(&relay, &settle).await);
    let looked = Ran::of(&relay, &look).await;
    client
        .batch_execute(
            "INSERT INTO sendoff.kept (published_at, n, seq, created_at, attempts, id, source, topic, \
                                       headers, body) \
             SELECT now(), n, n, now(), 0, 'k' || n, 's', 't', '{}', 'x' \
               FROM generate_series(1, 100000) n",
        )
        .await
        .unwrap();
    let look_beside = Ran::of(&relay, &look).await;
    assert_eq!(look_beside.blocks(), looked.blocks(), "{}", look_beside.text);
    let settled_beside = Ran::of(&relay, &settle).await;
    assert!(
        settled_beside.blocks() <= settled.blocks() + 16,
        "{} blocks, {} before: {}",
        settled_beside.blocks(),
        settled.blocks(),
        settled_beside.text
    );
    let touched = reads(&settled_beside.plan, "retention");
    assert!(touched <= 2, "the rule is read, and read again to be told: {}", settled_beside.text);
    assert_eq!(reads(&settled_beside.plan, "kept") + reads(&settled_beside.plan, "resent"), 0);
    client.batch_execute("UPDATE sendoff.retention SET keeps = true").await.unwrap();
    let keeping = settle.replace("settle_published(", "settle_published_keeping(");
    let keeping = Ran::of(&relay, &keeping).await;
    keeping.assert_by_index("keeping");
    assert!(keeping.blocks() < 20_000, "{} blocks: {}", keeping.blocks(), keeping.text);
}

/// How many rows are read from this table, over all nodes that scan it.
fn reads(plan: &Value, table: &str) -> i64 {
    let here = if plan["Relation Name"] == table && plan["Node Type"] != "ModifyTable" {
        let rows = plan["Actual Rows"].as_f64().unwrap_or(0.0);
        let loops = plan["Actual Loops"].as_f64().unwrap_or(0.0);
        format!("{:.0}", rows * loops).parse().unwrap()
    } else {
        0
    };
    let below = plan["Plans"].as_array().into_iter().flatten();
    here + below.map(|plan| reads(plan, table)).sum::<i64>()
}

#[tokio::test]
async fn what_is_parked_costs_neither_looks_nor_tending_anything() {
    let (relay, client) = relay().await;
    send(&client, 1, 60_000).await;
    client
        .batch_execute(
            "UPDATE sendoff.lane SET owner = 'r', lease_until = now() + interval '1 hour'; \
             INSERT INTO sendoff.pause (kind, name) VALUES ('topic', 't'); \
             UPDATE sendoff.outbox SET retry_at = 'infinity', \
                parked = CASE WHEN seq % 2 = 0 THEN 'pause:topic:t' ELSE 'target:mail' END",
        )
        .await
        .unwrap();
    client.batch_execute("VACUUM sendoff.outbox").await.unwrap();
    let full = "tend('r', '{target:mail}', '{0}', 1000)";
    for (call, most) in [(ready(0, "{}"), 500), (WAITING.to_owned(), 500), (full.to_owned(), 300)] {
        let ran = Ran::of(&relay, &call).await;
        ran.assert_by_index("parked rows");
        assert!(ran.blocks() < most, "{call}: {} blocks: {}", ran.blocks(), ran.text);
    }
    let room = Ran::of(&relay, "tend('r', '{target:mail}', '{100}', 1000)").await;
    room.assert_by_index("a hundred come back");
    assert!(room.blocks() < 10_000, "{} blocks: {}", room.blocks(), room.text);
}

#[tokio::test]
async fn a_look_costs_the_same_with_a_hundred_rows_and_with_a_hundred_thousand() {
    let (relay, client) = relay().await;
    send(&client, 1, 2_000).await;
    let looks = [ready(0, "{}"), ready_small(0, "{}")];
    let mut few = Vec::new();
    for look in &looks {
        few.push(Ran::of(&relay, look).await);
    }
    send(&client, 2_001, 100_000).await;
    for (look, few) in looks.iter().zip(few) {
        let many = Ran::of(&relay, look).await;
        assert!(many.blocks() <= 2 * few.blocks() + 200, "{} and {}", many.blocks(), few.blocks());
    }
}

#[tokio::test]
async fn the_line_of_all_rows_costs_the_same_beside_many_that_failed_and_hold_nobody() {
    let (relay, client) = relay().await;
    send(&client, 1, 2_000).await;
    let few = Ran::of(&relay, LINE).await;
    client
        .batch_execute(
            "INSERT INTO sendoff.outbox (id, source, topic, key, retry_at, holds) \
             SELECT 'f' || n, 'test', 't', 'k' || n, now() + interval '1 day', false \
               FROM generate_series(1, 100000) AS n",
        )
        .await
        .unwrap();
    send(&client, 2_001, 100_000).await;
    for look in [LINE.to_owned(), ready(0, "{}")] {
        let many = Ran::of(&relay, &look).await;
        many.assert_by_index(&look);
        assert!(
            many.blocks() <= 2 * few.blocks() + 200,
            "{} blocks, {} before: {}",
            many.blocks(),
            few.blocks(),
            many.text
        );
    }
}
