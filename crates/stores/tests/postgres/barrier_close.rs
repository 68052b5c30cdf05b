//! Closing in two phases, against acknowledgements that come at that instant; and the sweep that finds
//! what was left behind.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::barrier::{
    BarrierDesk, BarrierState, BarrierTransaction, Barriers, Change, Counting, Errand, ErrandAct,
    OnDeadline, Outcome, Page, Policy, Reason, Which,
};
use sendoff_core::store::OutboxStore;
use sendoff_core::{Message, Outbox};
use sendoff_stores::postgres::PostgresStore;
use tokio_postgres::Client;

use crate::barrier_stage::{Race, Step, Verdict, batch, id, name, plan, rounds, stage};
use crate::stage::{PATIENCE, connect, open};

const OUTCOMES: [(&str, bool); 2] = [("member-0", true), ("member-1", true)];

fn acks() -> Vec<(String, Outcome)> {
    OUTCOMES.iter().map(|(member, _)| ((*member).to_owned(), Outcome::ok())).collect()
}

/// Runs every errand that stands in the outbox, as a relay does, until none is left.
async fn run_errands(store: &PostgresStore, client: &Client) {
    let begun = std::time::Instant::now();
    loop {
        let rows = client
            .query(
                "SELECT seq, body FROM sendoff.outbox WHERE topic = '$sendoff.barrier' \
                    AND coalesce(due_at, '-infinity') <= clock_timestamp()",
                &[],
            )
            .await
            .unwrap();
        for row in &rows {
            let body: Vec<u8> = row.get(1);
            let message =
                Message::builder("t", Errand::TOPIC).reserved().body(body).build().unwrap();
            if store.attend(&message).await.is_ok() {
                let seq: i64 = row.get(0);
                client.execute("DELETE FROM sendoff.outbox WHERE seq = $1", &[&seq]).await.unwrap();
            }
        }
        if rows.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "errands are not finished");
    }
}

/// A deadline errand of a barrier.
async fn deadline(store: &PostgresStore, barrier: &str) -> Errand {
    let status = store.barrier_status(&id(barrier)).await.unwrap().unwrap();
    Errand {
        tenant: String::new(),
        barrier: barrier.to_owned(),
        incarnation: status.incarnation,
        epoch: status.epoch,
        act: ErrandAct::Deadline,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_at_the_instant_of_the_last_acknowledgement() {
    let (store, url, mut client) = stage().await;
    let store = Arc::new(store);
    let mut other = connect(&url).await;
    let rounds = rounds(150);
    let (mut by_deadline, mut missing) = (0, 0);
    for round in 0..rounds {
        let barrier = format!("round-{round}");
        let asked = plan(&barrier)
            .members(["member-0", "member-1"])
            .deadline(Duration::from_micros(1))
            .on_deadline(OnDeadline::Continue);
        store.create_barrier(&asked.build().unwrap()).await.unwrap().unwrap();
        let errand = deadline(&store, &barrier).await;
        let closer = Arc::clone(&store);
        let closed =
            tokio::spawn(async move { while !closer.run_errand(&errand).await.unwrap() {} });
        let acks = acks();
        let (first, second) = (batch(&barrier, &acks[..1]), batch(&barrier, &acks[1..]));
        tokio::join!(
            async {
                let mut transaction = client.transaction().await.unwrap();
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..3_000))).await;
                let _ = transaction.ack_members(&first).await.unwrap();
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..2_000))).await;
                transaction.commit().await.unwrap();
            },
            async {
                let mut transaction = other.transaction().await.unwrap();
                let _ = transaction.ack_members(&second).await.unwrap();
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..4_000))).await;
                if fastrand::u8(0..4) == 0 {
                    transaction.rollback().await.unwrap();
                } else {
                    transaction.commit().await.unwrap();
                }
            }
        );
        closed.await.unwrap();
        let status = store.barrier_status(&id(&barrier)).await.unwrap().unwrap();
        assert!(status.complete, "{status:?}");
        assert_eq!(status.pending, 0);
        by_deadline += usize::from(status.reason == Some(Reason::Deadline));
        missing += usize::from(status.missing > 0);
    }
    assert_eq!(Verdict::of(&client).await, Verdict::clean(rounds));
    assert!(
        by_deadline > 0 && missing > 0,
        "{by_deadline} by the deadline, {missing} with missing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_failures_at_once_end_it_once() {
    let (store, url, client) = stage().await;
    let members: Vec<String> = (0..8).map(|n| format!("member-{n}")).collect();
    let race = Race::new(
        rounds(120),
        5,
        move |id| {
            plan(id).members(&members).policy(Policy::all().or_first_failure()).build().unwrap()
        },
        |_, session| {
            let member = format!("member-{session}");
            let step = if session < 4 { Step::failed(member) } else { Step::ok(member) };
            vec![vec![step, Step::Pause(Duration::from_micros(500))]]
        },
    );
    let rounds = race.rounds;
    // Nothing has closed them yet: that is the errands' work.
    assert_eq!(race.rolled_back(10).run_on(&url).await.double, 0);
    run_errands(&store, &client).await;
    assert_eq!(Verdict::of(&client).await, Verdict::clean(rounds));
    let status = store.barrier_status(&id("round-0")).await.unwrap().unwrap();
    assert_eq!((status.state, status.reason), (BarrierState::Complete, Some(Reason::FirstFailure)));
    assert_eq!((status.failed, status.resolved, status.missing), (4, 5, 3));
}

#[tokio::test]
async fn the_desk_closes_at_the_first_failure_without_a_relay() {
    let (store, _url, _client) = stage().await;
    let policy = Policy::all().or_first_failure();
    let asked = plan("b").members(["member-0", "member-1", "late"]).policy(policy).build().unwrap();
    store.create_barrier(&asked).await.unwrap().unwrap();
    let failed = [("member-0".to_owned(), Outcome::failed())];
    let acked = store.ack_members(&batch("b", &failed)).await.unwrap().unwrap();
    assert!(acked.closing && !acked.complete);
    let status = store.barrier_status(&id("b")).await.unwrap().unwrap();
    assert_eq!((status.complete, status.missing), (true, 2));
}

#[tokio::test]
async fn a_failure_before_the_seal_ends_it_after_the_seal() {
    let (store, _url, client) = stage().await;
    let policy = Policy::all().or_first_failure();
    let asked = plan("b").members(["a", "b"]).policy(policy).unsealed().build().unwrap();
    store.create_barrier(&asked).await.unwrap().unwrap();
    let failed = [("a".to_owned(), Outcome::failed())];
    store.ack_members(&batch("b", &failed)).await.unwrap().unwrap();
    run_errands(&store, &client).await;
    let status = store.barrier_status(&id("b")).await.unwrap().unwrap();
    assert_eq!(status.state, BarrierState::Open, "nothing ends before the list is sealed");
    store.change_barrier(&id("b"), &Change::Seal).await.unwrap().unwrap();
    run_errands(&store, &client).await;
    let status = store.barrier_status(&id("b")).await.unwrap().unwrap();
    assert_eq!(status.reason, Some(Reason::FirstFailure));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closer_that_dies_is_resumed_by_the_next_one() {
    let (store, url, client) = stage().await;
    let members: Vec<String> = (0..3_500).map(|n| format!("member-{n}")).collect();
    for round in 0..8_u64 {
        let barrier = format!("round-{round}");
        let asked = plan(&barrier)
            .members(&members)
            .deadline(Duration::from_micros(1))
            .on_deadline(OnDeadline::Continue);
        store.create_barrier(&asked.build().unwrap()).await.unwrap().unwrap();
        let errand = deadline(&store, &barrier).await;
        // Dropped at any point: before the first phase, between two parts, before the end.
        let dying = open(&url);
        let _ =
            tokio::time::timeout(Duration::from_millis(3 + round * 12), dying.run_errand(&errand))
                .await;
        drop(dying);
        while !store.run_errand(&errand).await.unwrap() {}
        let status = store.barrier_status(&id(&barrier)).await.unwrap().unwrap();
        assert_eq!((status.state, status.missing), (BarrierState::Deadline, 3_500));
    }
    assert_eq!(Verdict::of(&client).await, Verdict::clean(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_waits_for_an_acknowledgement_that_is_on_its_way_and_comes_again() {
    let (store, _url, mut client) = stage().await;
    let asked = plan("b")
        .members(["a", "b"])
        .deadline(Duration::from_micros(1))
        .on_deadline(OnDeadline::Continue);
    store.create_barrier(&asked.build().unwrap()).await.unwrap().unwrap();
    let errand = deadline(&store, "b").await;
    let mut transaction = client.transaction().await.unwrap();
    let first = batch("b", &[("a".to_owned(), Outcome::ok())]);
    transaction.ack_members(&first).await.unwrap().unwrap();
    assert!(!store.run_errand(&errand).await.unwrap(), "it has to come again");
    let status = store.barrier_status(&id("b")).await.unwrap().unwrap();
    // Where `a` was watched it has handed that on to `b`, which is locked as well.
    assert_eq!(status.state, BarrierState::Closing);
    assert!(status.missing <= 1);
    transaction.commit().await.unwrap();
    assert!(store.run_errand(&errand).await.unwrap());
    let status = store.barrier_status(&id("b")).await.unwrap().unwrap();
    assert_eq!((status.resolved, status.missing), (1, 1));
    assert_eq!(status.reason, Some(Reason::Deadline));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reopenings_have_one_continuation_for_each_epoch() {
    let (store, url, client) = stage().await;
    let members = ["member-0", "member-1", "member-2", "member-3"];
    for policy in [Policy::all(), Policy::at_least(3, Counting::Resolved)] {
        client.batch_execute("TRUNCATE sendoff.barrier, sendoff.outbox").await.unwrap();
        let race = Race::new(
            rounds(100),
            4,
            move |id| plan(id).members(members).policy(policy.clone()).build().unwrap(),
            |_, session| {
                let again = Change::Reopen(vec![name(format!("member-{session}"))]);
                let pause = || Step::Pause(Duration::from_micros(500));
                vec![
                    vec![Step::failed(format!("member-{session}")), pause()],
                    vec![Step::Change(again), pause()],
                    vec![Step::ok(format!("member-{session}")), pause()],
                ]
            },
        );
        let rounds = i64::try_from(race.rounds).unwrap();
        let verdict = race.rolled_back(10).run_on(&url).await;
        assert_eq!((verdict.double, verdict.wrong), (0, 0), "{verdict:?}");
        // Whoever reopened last has acknowledged again: nothing is left open that has what it wants.
        assert_eq!((verdict.ended, verdict.lost), (rounds, 0));
    }
    let again: i64 = client
        .query_one("SELECT count(*) FROM sendoff.barrier WHERE epoch > 1", &[])
        .await
        .unwrap()
        .get(0);
    assert!(again > 0);
    drop(store);
}

#[tokio::test]
async fn a_barrier_that_stands_still_is_found_and_set_going_again() {
    let (store, _url, client) = stage().await;
    for barrier in ["finished", "unwatched", "closing"] {
        let asked = plan(barrier)
            .members(["a", "b"])
            .deadline(Duration::from_secs(3_600))
            .on_deadline(OnDeadline::Continue);
        store.create_barrier(&asked.build().unwrap()).await.unwrap().unwrap();
    }
    // What only a fault, or somebody's hand, could bring about.
    client
        .batch_execute(
            "UPDATE sendoff.barrier_member m SET resolved_at = now(), ok = true, outcome = '{}' \
               FROM sendoff.barrier b WHERE b.no = m.barrier AND b.id = 'finished'; \
             UPDATE sendoff.barrier_member m SET watched = false \
               FROM sendoff.barrier b WHERE b.no = m.barrier AND b.id = 'unwatched'; \
             UPDATE sendoff.barrier SET state = 'closing', reason = 'deadline', \
                    closing_at = now() - interval '2 minutes' WHERE id = 'closing'",
        )
        .await
        .unwrap();
    store.sweep(100).await.unwrap();
    let status = store.barrier_status(&id("finished")).await.unwrap().unwrap();
    assert_eq!((status.complete, status.reason), (true, Some(Reason::All)));
    let status = store.barrier_status(&id("closing")).await.unwrap().unwrap();
    assert_eq!((status.complete, status.missing), (true, 2));
    let acks = [("a".to_owned(), Outcome::ok()), ("b".to_owned(), Outcome::ok())];
    for ack in acks {
        store.ack_members(&batch("unwatched", &[ack])).await.unwrap().unwrap();
    }
    assert!(store.barrier_status(&id("unwatched")).await.unwrap().unwrap().complete);
    assert_eq!(Verdict::of(&client).await, Verdict::clean(3));
    let found: i64 = client
        .query_one(
            "SELECT count(*) FROM sendoff.barrier_findings(0, 100) WHERE finding IS NOT NULL",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert_eq!(found, 0);
}

#[tokio::test]
async fn an_acknowledgement_and_the_callers_own_rows_are_one_commit() {
    let (store, _url, mut client) = stage().await;
    store.create_barrier(&plan("b").members(["a"]).build().unwrap()).await.unwrap().unwrap();
    let barriers = Barriers::new();
    let mut transaction = client.transaction().await.unwrap();
    let acked = barriers.ack(&mut transaction, "b", "a", Outcome::ok()).await.unwrap();
    assert!(acked.complete);
    let own = Outbox::new("own").message("own.topic").body("x").build().unwrap();
    Outbox::new("own").send(&mut transaction, &own).await.unwrap();
    transaction.rollback().await.unwrap();
    let waiting: i64 =
        client.query_one("SELECT count(*) FROM sendoff.outbox", &[]).await.unwrap().get(0);
    assert_eq!(waiting, 0);
    let page = Page { id: id("b"), which: Which::Pending, after: None, limit: 10, only: None };
    assert_eq!(store.barrier_outcomes(&page).await.unwrap().unwrap().members.len(), 1);
}
