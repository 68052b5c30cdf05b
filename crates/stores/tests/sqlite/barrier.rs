//! Barriers on SQLite: what it alone has. The suite of every store is in `sqlite_barrier.rs`.

use std::time::Instant;

use sendoff_core::barrier::{Ack, AckBatch, BarrierDesk, Barriers, Failed, Outcome, RefusalCode};
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
    println!("create {:?}", begun.elapsed());
    let begun = Instant::now();
    for names in names.chunks(1_000) {
        let acks = names
            .iter()
            .map(|name| Ack {
                member: sendoff_core::barrier::MemberName::new(name).unwrap(),
                outcome: Outcome::ok(),
            })
            .collect();
        let batch = AckBatch::new(plan.id().clone(), acks);
        let acked = shop.store.ack_members(&batch).await.unwrap().unwrap();
        assert_eq!(acked.resolved(), 1_000);
    }
    println!("acks {:?}", begun.elapsed());
    assert!(shop.store.barrier_status(plan.id()).await.unwrap().unwrap().complete);
}
