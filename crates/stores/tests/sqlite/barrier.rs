//! Barriers on SQLite: what it alone has. The suite of every store is in `sqlite_barrier.rs`.

use std::time::{Duration, Instant};

use sendoff_core::ErrorKind;
use sendoff_core::barrier::{
    Ack, AckBatch, BarrierDesk, Barriers, Continuation, Failed, MemberName, Outcome, Probe, Reason,
    RefusalCode,
};
use sendoff_core::store::{OutboxDesk, OutboxStore};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::shop::{Shop, content};

#[tokio::test]
async fn an_acknowledgement_in_rusqlite_and_in_sqlx_completes_the_barrier() {
    let shop = Shop::open().await;
    let barriers = Barriers::new();
    let plan = barriers.plan("b").unwrap().members(["a", "b", "c"]).continue_with("done");
    let plan = plan.build().unwrap();

    let mut connection = shop.connection();
    let mut transaction = connection.transaction().unwrap();
    barriers.create_blocking(&transaction, &plan).unwrap();
    let savepoint = transaction.savepoint().unwrap();
    let acked = barriers.ack_blocking(&savepoint, "b", "a", Outcome::ok()).unwrap();
    assert_eq!((acked.complete, acked.remaining), (false, Some(2)));
    savepoint.commit().unwrap();
    transaction.commit().unwrap();

    let pool = SqlitePoolOptions::new()
        .connect_with(SqliteConnectOptions::new().filename(&shop.path))
        .await
        .unwrap();
    let mut transaction = pool.begin().await.unwrap();
    barriers.ack(&mut transaction, "b", "b", Outcome::failed()).await.unwrap();
    let refused = barriers.ack(&mut transaction, "b", "C", Outcome::ok()).await.unwrap_err();
    let Failed::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code(), RefusalCode::UnknownMember);
    assert_eq!(refusal.near()[0].as_bytes(), b"c");
    let last = barriers.ack(&mut transaction, "b", "c", Outcome::ok()).await.unwrap();
    assert!(last.complete);
    assert!(shop.rows().await.is_empty());
    transaction.commit().await.unwrap();
    let rows = shop.rows().await;
    assert_eq!(content(&rows[0]).topic(), "done");
    let status = shop.store.barrier_status(plan.id()).await.unwrap().unwrap();
    assert_eq!((status.resolved, status.failed, status.complete), (3, 1, true));

    // What the continuation reads, by either driver.
    let continuation = Continuation::parse(content(&rows[0]).body()).unwrap();
    let transaction = connection.transaction().unwrap();
    let result = barriers.hydrate_blocking(&transaction, &continuation).unwrap().unwrap();
    let page = result.results_blocking(&transaction, None, 2).unwrap();
    let rest = result.results_blocking(&transaction, page.next_after.as_ref(), 2).unwrap();
    assert_eq!((page.members.len(), rest.members.len()), (2, 1));
    let failures = result.failures_blocking(&transaction, None, 9).unwrap();
    assert_eq!(failures.members[0].member.as_bytes(), b"b");
    assert!(result.missing_blocking(&transaction, None, 9).unwrap().members.is_empty());
    let one = result.get_blocking(&transaction, "b").unwrap().unwrap();
    assert_eq!(one.outcome, Some(Outcome::failed()));
    assert!(result.get_blocking(&transaction, "B").unwrap().is_none());
    drop(transaction);
    let mut transaction = pool.begin().await.unwrap();
    let result = barriers.hydrate(&mut transaction, &continuation).await.unwrap().unwrap();
    let one = result.get(&mut transaction, "c").await.unwrap().unwrap();
    assert_eq!(one.outcome, Some(Outcome::ok()));
    transaction.rollback().await.unwrap();
    shop.store.sweep(100).await.unwrap();
    assert_eq!(shop.store.stats().await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_hundred_thousand_members_are_created_and_acknowledged_in_batches_within_seconds() {
    let shop = Shop::open().await;
    let names: Vec<String> = (0..100_000).map(|n| format!("documents/{n}.xml")).collect();
    let plan = Barriers::new().plan("big").unwrap().members(&names).build().unwrap();
    let begun = Instant::now();
    shop.store.create_barrier(&plan).await.unwrap().unwrap();
    // Many times what it takes: this machine may be busy.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let begun = Instant::now();
    for names in names.chunks(1_000) {
        let acks = names
            .iter()
            .map(|name| Ack { member: MemberName::new(name).unwrap(), outcome: Outcome::ok() })
            .collect();
        let batch = AckBatch::new(plan.id().clone(), acks);
        let acked = shop.store.ack_members(&batch).await.unwrap().unwrap();
        assert_eq!(acked.resolved(), 1_000);
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(shop.store.barrier_status(plan.id()).await.unwrap().unwrap().complete);
}

/// rusqlite's and sqlx's transactions are deferred unless asked otherwise: one that reads first is
/// refused without a wait once another one has written. An acknowledgement takes the lock first.
#[tokio::test]
async fn acknowledgements_in_deferred_transactions_wait_for_each_other() {
    const MEMBERS: usize = 200;
    let shop = Shop::open().await;
    let names: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
    let plan = Barriers::new().plan("b").unwrap().members(&names).continue_with("done");
    shop.store.create_barrier(&plan.build().unwrap()).await.unwrap().unwrap();
    let threads: Vec<_> = names
        .chunks(MEMBERS / 4)
        .map(|names| {
            let (names, mut connection) = (names.to_vec(), shop.connection());
            std::thread::spawn(move || {
                let mut completed = 0;
                for name in names {
                    let transaction = connection.transaction().unwrap();
                    let acked =
                        Barriers::new().ack_blocking(&transaction, "b", &name, Outcome::ok());
                    completed += u32::from(acked.unwrap().complete);
                    transaction.commit().unwrap();
                }
                completed
            })
        })
        .collect();
    let completed: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(completed, 1);
    assert_eq!(shop.rows().await.len(), 1);
}

#[tokio::test]
async fn an_acknowledgement_whose_future_is_dropped_is_not_applied_in_part() {
    let shop = Shop::open().await;
    let barriers = Barriers::new();
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(SqliteConnectOptions::new().filename(&shop.path))
        .await
        .unwrap();
    let (mut dropped, mut applied) = (0, 0);
    for round in 0..30_u64 {
        let of = format!("b{round}");
        let plan = barriers.plan(&of).unwrap().members(["a", "b"]).continue_with("done");
        shop.store.create_barrier(&plan.build().unwrap()).await.unwrap().unwrap();
        let acks = ["a", "b"]
            .map(|name| Ack { member: MemberName::new(name).unwrap(), outcome: Outcome::ok() });
        let batch = AckBatch::new(barriers.id(&of).unwrap(), acks.to_vec());
        let mut transaction = pool.begin().await.unwrap();
        let ack = barriers.ack_all(&mut transaction, &batch);
        let whole = tokio::time::timeout(Duration::from_micros(40 * round), ack).await;
        dropped += u32::from(whole.is_err());
        transaction.commit().await.unwrap();
        let status = shop.store.barrier_status(&batch.id).await.unwrap().unwrap();
        // One that is dropped while its very end is on the way may have been applied, whole.
        let is_whole = status.resolved == 2 && status.complete;
        assert!(is_whole || (whole.is_err() && status.resolved == 0), "{of}: {status:?}");
        applied += u64::from(is_whole);
    }
    assert!(dropped > 0, "some were dropped half way");
    assert_eq!(shop.store.stats().await.unwrap().pending, applied);
}

#[tokio::test]
async fn a_barrier_that_lost_its_rows_is_completed_by_the_sweep() {
    let shop = Shop::open().await;
    let plan = Barriers::new().plan("b").unwrap().members(["a", "b"]).continue_with("done");
    let plan = plan.build().unwrap();
    shop.store.create_barrier(&plan).await.unwrap().unwrap();
    shop.store.sweep(100).await.unwrap();
    assert!(!shop.store.barrier_status(plan.id()).await.unwrap().unwrap().complete);
    shop.connection().execute("DELETE FROM sendoff_barrier_member", []).unwrap();
    shop.store.sweep(100).await.unwrap();
    let status = shop.store.barrier_status(plan.id()).await.unwrap().unwrap();
    assert_eq!((status.complete, status.pending, status.missing), (true, 0, 2));
    shop.store.sweep(100).await.unwrap();
    assert_eq!(shop.rows().await.len(), 1);
}

#[tokio::test]
async fn a_row_that_does_not_decode_is_told_and_nothing_is_changed() {
    let shop = Shop::open().await;
    let plan = Barriers::new().plan("b").unwrap().members(["a"]).build().unwrap();
    shop.store.create_barrier(&plan).await.unwrap().unwrap();
    shop.connection().execute("UPDATE sendoff_barrier SET policy = 'nonsense'", []).unwrap();
    let error = shop.store.barrier_status(plan.id()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("policy"), "{error}");
    let mut connection = shop.connection();
    let transaction = connection.transaction().unwrap();
    let failed = Barriers::new().ack_blocking(&transaction, "b", "a", Outcome::ok());
    assert!(matches!(failed, Err(Failed::Driver(_))));
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_probe_that_does_not_end_is_ended() {
    let shop = Shop::open().await;
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i FROM n WHERE i < 0";
    let plan = Barriers::new().plan("b").unwrap().members(["a"]).continue_with("done");
    let plan = plan.probe(Probe::Sql(endless.to_owned())).build().unwrap();
    shop.store.create_barrier(&plan).await.unwrap().unwrap();
    let begun = Instant::now();
    let error = shop.store.reconcile_barrier(plan.id()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // The store's own work went on meanwhile, and goes on.
    let acks = vec![Ack { member: MemberName::new("a").unwrap(), outcome: Outcome::ok() }];
    let acked = shop.store.ack_members(&AckBatch::new(plan.id().clone(), acks)).await;
    assert!(acked.unwrap().unwrap().complete);
    let status = shop.store.barrier_status(plan.id()).await.unwrap().unwrap();
    assert_eq!(status.reason, Some(Reason::All));
}

#[tokio::test]
async fn a_desk_that_cannot_get_the_lock_is_busy_and_changed_nothing() {
    let shop = Shop::with(sendoff_stores::sqlite::SqliteOptions {
        busy_timeout: Duration::from_millis(50),
        ..Default::default()
    })
    .await;
    let plan = Barriers::new().plan("b").unwrap().members(["a"]).build().unwrap();
    shop.store.create_barrier(&plan).await.unwrap().unwrap();
    let mut other = shop.connection();
    let held = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let acks = vec![Ack { member: MemberName::new("a").unwrap(), outcome: Outcome::ok() }];
    let batch = AckBatch::new(plan.id().clone(), acks);
    let refusal = shop.store.ack_members(&batch).await.unwrap().unwrap_err();
    assert_eq!(refusal.code(), RefusalCode::Busy);
    held.rollback().unwrap();
    assert!(shop.store.ack_members(&batch).await.unwrap().unwrap().complete);
}
