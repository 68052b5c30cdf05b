//! Backends that are killed at any moment, and algorithms that are known to be wrong: the suite has to
//! catch those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use sendoff_core::barrier::{BarrierDesk, BarrierTransaction, Outcome};
use tokio_postgres::Client;

use crate::barrier_stage::{Race, Step, Verdict, batch, plan, rounds, stage, try_connect};
use crate::stage::connect;

/// Replaces the algorithm of a test's own database.
async fn broken(client: &Client, body: &str) {
    client
        .batch_execute(&format!(
            "CREATE OR REPLACE FUNCTION sendoff.barrier_settle( \
                 p_no bigint, p_groups text[], p_short bigint[]) RETURNS text \
                 LANGUAGE plpgsql VOLATILE AS $$ BEGIN {body} END $$"
        ))
        .await
        .unwrap();
}

/// Rounds of two members, acknowledged at once.
fn two() -> Race {
    Race::new(
        rounds(150),
        2,
        |id| plan(id).members(["member-0", "member-1"]).build().unwrap(),
        |_, session| {
            vec![vec![
                Step::ok(format!("member-{session}")),
                Step::Pause(Duration::from_micros(500)),
            ]]
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_for_pending_members_without_waiting_is_caught() {
    let (_store, url, client) = stage().await;
    // Every acknowledgement is watched and asks "is anything pending?" in its own transaction.
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION sendoff.barrier_watches( \
                 p_quota jsonb, p_pending bigint, p_ok bigint, p_failed bigint) RETURNS bigint \
                 LANGUAGE sql IMMUTABLE AS 'SELECT $2'",
        )
        .await
        .unwrap();
    broken(
        &client,
        "IF NOT EXISTS (SELECT FROM sendoff.barrier_member m \
                         WHERE m.barrier = p_no AND m.resolved_at IS NULL) THEN \
             PERFORM sendoff.barrier_finish(p_no, 'complete', 'all'); RETURN 'complete'; \
         END IF; RETURN 'open';",
    )
    .await;
    let verdict = two().run_on(&url).await;
    assert!(verdict.lost > 0, "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handing_on_to_what_nobody_has_locked_and_no_further_is_caught() {
    let (_store, url, client) = stage().await;
    broken(
        &client,
        "UPDATE sendoff.barrier SET version = version + 1 WHERE no = p_no; \
         FOR i IN 1..cardinality(p_groups) LOOP \
             p_short[i] := p_short[i] \
                 - sendoff.barrier_hand_on(p_no, p_groups[i], p_short[i], false); \
         END LOOP; \
         IF 0 = ALL (p_short) THEN RETURN 'open'; END IF; \
         RETURN sendoff.barrier_evaluate(p_no, false);",
    )
    .await;
    let verdict = two().run_on(&url).await;
    assert!(verdict.lost > 0, "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_that_are_killed_at_any_moment_lose_nothing_and_double_nothing() {
    const SESSIONS: usize = 4;
    let (store, url, client) = stage().await;
    let rounds = rounds(120);
    for round in 0..rounds {
        let members: Vec<String> = (0..SESSIONS).map(|n| format!("member-{n}")).collect();
        let asked = plan(&format!("round-{round}")).members(members).build().unwrap();
        store.create_barrier(&asked).await.unwrap().unwrap();
    }
    let pids: Arc<Vec<AtomicI32>> = Arc::new((0..SESSIONS).map(|_| AtomicI32::new(0)).collect());
    let over = Arc::new(AtomicBool::new(false));
    let killer = tokio::spawn({
        let (pids, over, client) = (Arc::clone(&pids), Arc::clone(&over), connect(&url).await);
        async move {
            let mut killed = 0;
            while !over.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..20_000))).await;
                let pid = pids[fastrand::usize(0..SESSIONS)].load(Ordering::Relaxed);
                if client.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.is_ok() {
                    killed += usize::from(pid != 0);
                }
            }
            killed
        }
    });
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let (pids, url) = (Arc::clone(&pids), url.clone());
            tokio::spawn(async move {
                let mut held: Option<Client> = None;
                for round in 0..rounds {
                    let acks = [(format!("member-{session}"), Outcome::ok())];
                    let batch = batch(&format!("round-{round}"), &acks);
                    // Again until it is known to be committed.
                    loop {
                        let Some(client) = held.as_mut().filter(|client| !client.is_closed())
                        else {
                            held = try_connect(&url).await.map(|(client, pid)| {
                                pids[session].store(pid, Ordering::Relaxed);
                                client
                            });
                            continue;
                        };
                        if acknowledged(client, &batch).await.is_ok() {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    for session in sessions {
        session.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let killed = killer.await.unwrap();
    assert_eq!(Verdict::of(&client).await, Verdict::clean(rounds));
    assert!(killed > 5, "only {killed} were killed");
}

async fn acknowledged(
    client: &mut Client,
    batch: &sendoff_core::barrier::AckBatch,
) -> Result<(), tokio_postgres::Error> {
    let mut transaction = client.transaction().await?;
    transaction.ack_members(batch).await?.unwrap();
    tokio::time::sleep(Duration::from_micros(fastrand::u64(0..500))).await;
    transaction.commit().await
}
