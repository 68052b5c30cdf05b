//! The line fails, or a call is given up: every call ends in time and leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_conformance::servers::Proxy;
use sendoff_core::ErrorKind;
use sendoff_core::store::{Ask, LeaseRequest, OutboxDesk, OutboxStore, Outcome, RelayId};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};

use crate::stage::{Owner, connect, eventually, message, migrated, published, retry, through};

const LIMIT: Duration = Duration::from_millis(300);

fn impatient() -> PostgresOptions {
    PostgresOptions {
        answer_timeout: LIMIT,
        desk_timeout: LIMIT,
        connect_timeout: LIMIT,
        ..PostgresOptions::default()
    }
}

async fn proxied(url: &str) -> (PostgresStore, Proxy) {
    let config: tokio_postgres::Config = url.parse().unwrap();
    let proxy = Proxy::to_port(config.get_ports()[0]).await.unwrap();
    let store = PostgresStore::new(&through(url, proxy.port()), impatient()).unwrap();
    (store, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_ends_in_a_timeout_and_the_next_call_connects_anew() {
    let (first, url) = migrated().await;
    first.send_all(&[message("1", "k")]).await.unwrap();
    let owner = Owner::of(&first).await;
    let (store, proxy) = proxied(&url).await;
    // Each pool has a connection that is good.
    let rows = eventually("a look", || async { store.look(&owner.look()).await.ok() }).await.rows;
    let verdict = owner.verdict(&rows[0], published());
    eventually("a settlement", || async { store.settle(&owner.id, &[]).await.ok() }).await;
    eventually("counts", || async { store.stats().await.ok() }).await;
    proxy.stall();
    let lease = LeaseRequest {
        relay: RelayId::new(),
        target: None,
        ttl: Duration::from_secs(1),
        keep: Vec::new(),
        release: Vec::new(),
        ask: Ask::Nothing,
    };
    let begun = Instant::now();
    let (look, settled, leased, stats) = tokio::join!(
        async { store.look(&owner.look()).await.map(drop) },
        async { store.settle(&owner.id, std::slice::from_ref(&verdict)).await.map(drop) },
        async { store.lease(&lease).await.map(drop) },
        async { store.stats().await.map(drop) },
    );
    let took = begun.elapsed();
    // Where a connection has to be made first, it is the connecting that fails.
    let kinds = [ErrorKind::Timeout, ErrorKind::Unreachable];
    assert_eq!(look.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(stats.unwrap_err().kind(), ErrorKind::Timeout);
    for error in [settled.unwrap_err(), leased.unwrap_err()] {
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    assert!(took < LIMIT * 10, "bounded: {took:?}");
    proxy.resume();
    eventually("the settlement", || async {
        store.settle(&owner.id, std::slice::from_ref(&verdict)).await.ok()
    })
    .await;
    let stats = eventually("counts", || async { store.stats().await.ok() }).await;
    assert_eq!((stats.pending, stats.published), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_was_cut_is_made_anew_by_the_next_calls() {
    let (first, url) = migrated().await;
    let owner = Owner::of(&first).await;
    let (store, proxy) = proxied(&url).await;
    for _ in 0..3 {
        eventually("a look", || async { store.look(&owner.look()).await.ok() }).await;
        proxy.cut();
    }
    eventually("a look", || async { store.look(&owner.look()).await.ok() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_different_kinds_do_not_wait_for_each_other() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    // A transaction sees the activity as it was when it first asked, so another one watches.
    let (mut client, watcher) = (connect(&url).await, connect(&url).await);
    let lock = client.transaction().await.unwrap();
    lock.batch_execute("SELECT * FROM sendoff.lane FOR UPDATE").await.unwrap();
    let store = Arc::new(store);
    let verdict = owner.verdict(&rows[0], retry("no"));
    let settling = {
        let (store, relay) = (Arc::clone(&store), owner.id.clone());
        tokio::spawn(async move { store.settle(&relay, &[verdict]).await })
    };
    eventually("the settlement waits", || async {
        let waits = "SELECT count(*) FROM pg_stat_activity \
                      WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let waiting: i64 = watcher.query_one(waits, &[]).await.unwrap().get(0);
        (waiting > 0).then_some(())
    })
    .await;
    assert_eq!(owner.rows(&store).await.len(), 1);
    assert_eq!(store.stats().await.unwrap().pending, 1);
    let publish = owner.verdict(&rows[0], published());
    assert_eq!(store.settle(&owner.id, &[publish]).await.unwrap().published, 1);
    assert!(!settling.is_finished());
    lock.rollback().await.unwrap();
    settling.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_cancelled_leave_no_transaction_and_no_lock_behind() {
    let (store, url) = migrated().await;
    let messages: Vec<_> = (0..50).map(|n| message(&n.to_string(), "k")).collect();
    store.send_all(&messages).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    let verdicts = [owner.verdict(&rows[0], retry("no")), owner.verdict(&rows[1], Outcome::Held)];
    let client = connect(&url).await;
    for micros in (0..6_000).step_by(200) {
        let limit = Duration::from_micros(micros);
        let id = format!("late {micros}");
        let sent = [message(&id, "k"), message(&format!("{id} too"), "k")];
        let _ = tokio::time::timeout(limit, store.settle(&owner.id, &verdicts)).await;
        let _ = tokio::time::timeout(limit, store.send_all(&sent)).await;
        let _ = tokio::time::timeout(limit, store.look(&owner.look())).await;
    }
    eventually("nothing is open", || async {
        let open = "SELECT count(*) FROM pg_stat_activity \
                     WHERE state LIKE 'idle in transaction%' AND datname = current_database()";
        let open: i64 = client.query_one(open, &[]).await.unwrap().get(0);
        (open == 0).then_some(())
    })
    .await;
    let settled = store.settle(&owner.id, &verdicts).await.unwrap();
    assert!(settled.fenced.is_empty());
    // All or none of each send, whenever it was cancelled.
    let halves: i64 = client
        .query_one(
            "SELECT count(*) FROM sendoff.outbox o WHERE id LIKE 'late%' AND id NOT LIKE '% too' \
                AND NOT EXISTS (SELECT 1 FROM sendoff.outbox t WHERE t.id = o.id || ' too')",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert_eq!(halves, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_waits_for_a_settlement_that_is_under_way() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    let (mut client, watcher) = (connect(&url).await, connect(&url).await);
    // The lease has lapsed, and the row is locked: the settlement stops between fence and write.
    watcher
        .batch_execute(
            "UPDATE sendoff.lane SET lease_until = now() - interval '1 s'; DELETE FROM sendoff.relay",
        )
        .await
        .unwrap();
    let lock = client.transaction().await.unwrap();
    lock.batch_execute("SELECT * FROM sendoff.outbox FOR UPDATE").await.unwrap();
    let waiting = async |least: i64| {
        eventually("it waits for a lock", || async {
            let waits = "SELECT count(*) FROM pg_stat_activity \
                          WHERE wait_event_type = 'Lock' AND datname = current_database()";
            let waiting: i64 = watcher.query_one(waits, &[]).await.unwrap().get(0);
            (waiting >= least).then_some(())
        })
        .await;
    };
    let store = Arc::new(store);
    let settling = {
        let (store, relay) = (Arc::clone(&store), owner.id.clone());
        let verdict = owner.verdict(&rows[0], retry("no"));
        tokio::spawn(async move { store.settle(&relay, &[verdict]).await })
    };
    waiting(1).await;
    let heir = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { Owner::of(&store).await })
    };
    waiting(2).await;
    assert!(!heir.is_finished(), "the lane is not taken while a verdict of it is written");
    lock.rollback().await.unwrap();
    assert!(settling.await.unwrap().unwrap().fenced.is_empty());
    assert_eq!(heir.await.unwrap().lanes.len(), 64);
    let late = owner.verdict(&rows[0], retry("too late"));
    assert_eq!(store.settle(&owner.id, &[late]).await.unwrap().fenced, [rows[0].seq]);
}
