//! What claims and single rows cost.

use super::*;

#[tokio::test]
async fn a_claim_costs_the_same_with_a_hundred_rows_and_with_a_hundred_thousand() {
    let (relay, client) = relay().await;
    send(&client, 1, 100).await;
    let few = Ran::of(&relay, "claim(0, 50, 1048576)").await;
    assert_eq!(few.rows(), 51, "fifty and the header");
    send(&client, 101, 100_000).await;
    for after in [0, 50_000] {
        let many = Ran::of(&relay, &format!("claim({after}, 50, 1048576)")).await;
        assert_eq!(many.rows(), 51);
        assert!(many.blocks() <= 2 * few.blocks() + 50, "{} and {}", many.blocks(), few.blocks());
    }
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_not_read() {
    let (relay, client) = relay().await;
    // Incompressible, so that the bodies lie in a hundred and more blocks of their own each.
    client
        .batch_execute(
            "INSERT INTO sendoff.outbox (id, source, topic, key, body) \
             SELECT n::text, 'test', 't', 'k', (SELECT string_agg(sha256((n * 100000 + m)::text::bytea), '') \
                                                  FROM generate_series(1, 32768) m) \
               FROM generate_series(1, 8) n",
        )
        .await
        .unwrap();
    relay.batch_execute("PREPARE size AS SELECT 1").await.unwrap();
    let sizes = Ran::of(&relay, &ready(0, "{}")).await;
    // Bodies are read when rows are sent, which EXPLAIN does not do; so they are read here.
    assert!(sizes.blocks() < 200, "{} blocks: {}", sizes.blocks(), sizes.text);
    let looked = sql::LOOK_READY
        .replace("$1::smallint[]", "ARRAY(SELECT n::smallint FROM generate_series(0, 63) n)")
        .replace("$2::bigint[]", "ARRAY(SELECT 0::bigint FROM generate_series(0, 63))")
        .replace("$3::bigint[]", "'{}'::bigint[]")
        .replace("$4::bigint", "1001")
        .replace("$5::bigint", "17");
    for (bytes, bodies) in [(1, 1), (2_200_000, 2), (64 << 20, 8)] {
        let looked = looked.replace("$6", &format!("{bytes}::bigint"));
        let names = "state, seq, mark, lane, attempts, blocker, key, id, source, topic, headers, body, due_at, since";
        let reading = format!(
            "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) \
             SELECT sum(length(encode(body, 'hex'))) FROM ({looked}) AS l ({names})"
        );
        let answer = relay.simple_query(&reading).await.unwrap();
        let text: String = answer
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        let plan: Value = serde_json::from_str(&text).unwrap();
        let ran = Ran { plan: plan[0]["Plan"].clone(), text };
        // A body of 1 MiB has some 130 blocks, and their index.
        let (least, most) = (bodies * 125, bodies * 700 + 200);
        assert!((least..=most).contains(&ran.blocks()), "{bodies}: {} blocks", ran.blocks());
    }
}

#[tokio::test]
async fn a_backlog_is_counted_at_the_cost_of_the_bound_and_not_of_what_is_there() {
    let (relay, client) = relay().await;
    client.batch_execute("ANALYZE sendoff.outbox; ANALYZE sendoff.lane").await.unwrap();
    Ran::of(&relay, "backlog(100)").await.assert_by_index("empty");
    // Of each kind so many that a statement that walked them all would be seen.
    send(&client, 1, 60_000).await;
    client
        .batch_execute(
            "UPDATE sendoff.outbox SET due_at = now() + interval '1 day' WHERE seq % 6 = 1; \
             UPDATE sendoff.outbox SET due_at = now() - interval '1 day' WHERE seq % 6 = 2; \
             UPDATE sendoff.outbox SET held = true WHERE seq % 6 = 3; \
             UPDATE sendoff.outbox SET quarantined_at = now() WHERE seq % 6 = 4; \
             UPDATE sendoff.outbox SET retry_at = now() + interval '1 minute' WHERE seq % 6 = 5",
        )
        .await
        .unwrap();
    client.batch_execute("VACUUM sendoff.outbox").await.unwrap();
    let ran = Ran::of(&relay, "backlog(100)").await;
    ran.assert_by_index("a backlog");
    // Six times a hundred rows, 128 first ones, and the way to each.
    assert!(ran.blocks() < 3_000, "{} blocks: {}", ran.blocks(), ran.text);
    let all = Ran::of(&relay, "backlog(1000000)").await;
    assert!(all.blocks() > 4 * ran.blocks(), "the measure would tell: {} blocks", all.blocks());
}
