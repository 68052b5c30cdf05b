//! Sends from sqlx transactions.

use std::time::Duration;

use sendoff_core::{Outbox, Wake};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Acquire, SqlitePool};

use super::shop::{Shop, content, ids, message};

async fn pool(shop: &Shop) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(SqliteConnectOptions::new().filename(&shop.path))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_message_of_a_sqlx_transaction_shares_its_fate() {
    let shop = Shop::open().await;
    let pool = pool(&shop).await;
    let outbox = Outbox::new("shop");

    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &message("a")).await.unwrap();
    transaction.rollback().await.unwrap();

    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &message("b")).await.unwrap();
    let mut savepoint = transaction.begin().await.unwrap();
    outbox.send(&mut savepoint, &message("c")).await.unwrap();
    savepoint.rollback().await.unwrap();
    outbox.send_all(&mut transaction, &[message("d"), message("e")]).await.unwrap();
    assert!(shop.rows().await.is_empty());
    let wake = Wake::new();
    wake.commit(transaction).await.unwrap();
    wake.woken().await;
    assert_eq!(ids(&shop.rows().await), ["b", "d", "e"]);
}

#[tokio::test]
async fn a_duplicate_is_a_unique_violation_to_sqlx_and_a_batch_is_all_or_none() {
    let shop = Shop::open().await;
    let pool = pool(&shop).await;
    let outbox = Outbox::new("shop");
    let mut transaction = pool.begin().await.unwrap();
    outbox.send(&mut transaction, &message("a")).await.unwrap();
    let batch = [message("b"), message("a")];
    for messages in [&batch[..], &batch[1..]] {
        let error = outbox.send_all(&mut transaction, messages).await.unwrap_err();
        assert!(error.as_database_error().unwrap().is_unique_violation());
    }
    transaction.commit().await.unwrap();
    assert_eq!(ids(&shop.rows().await), ["a"]);
}

#[tokio::test]
async fn a_large_and_an_empty_body_and_a_nul_survive_sqlx() {
    let shop = Shop::open().await;
    let pool = pool(&shop).await;
    let outbox = Outbox::new("shop");
    let mut transaction = pool.begin().await.unwrap();
    for body in [vec![7; 1 << 20], Vec::new(), vec![0; 3]] {
        let message = outbox.message("t").header("ü", "✓").body(body).build().unwrap();
        outbox.send(&mut transaction, &message).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let bodies: Vec<usize> =
        shop.rows().await.iter().map(|row| content(row).body().len()).collect();
    assert_eq!(bodies, [1 << 20, 0, 3]);
}

#[tokio::test]
async fn a_batch_whose_future_is_dropped_is_not_sent_in_part() {
    let shop = Shop::open().await;
    let pool = pool(&shop).await;
    let outbox = Outbox::new("shop");
    let mut dropped = 0;
    for round in 0..20_u64 {
        let batch: Vec<_> = (0..200).map(|n| message(&format!("{round}-{n}"))).collect();
        let mut transaction = pool.begin().await.unwrap();
        let send = outbox.send_all(&mut transaction, &batch);
        let whole = tokio::time::timeout(Duration::from_micros(300 * (round + 1)), send).await;
        let marker = message(&format!("marker-{round}"));
        outbox.send(&mut transaction, &marker).await.unwrap();
        transaction.commit().await.unwrap();
        let sent = ids(&shop.rows().await)
            .iter()
            .filter(|id| id.starts_with(&format!("{round}-")))
            .count();
        assert_eq!(sent, if whole.is_ok() { 200 } else { 0 });
        dropped += u32::from(whole.is_err());
    }
    assert!(dropped > 0, "some were dropped half way");
    let markers = shop.rows().await.iter().filter(|row| content(row).id().starts_with("m")).count();
    assert_eq!(markers, 20);
}
