//! Sweeps of the pairs that make sends unique.

use std::time::Duration;

use sendoff_core::store::{OutboxDesk, OutboxStore};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};

use crate::stage::{Owner, connect, content, database, message, published};

#[tokio::test]
async fn a_sweep_goes_on_past_many_pairs_that_have_to_stay() {
    let url = database().await;
    let options =
        PostgresOptions { horizon: Duration::from_secs(3_600), ..PostgresOptions::default() };
    let store = PostgresStore::new(&url, options).unwrap();
    store.migrate().await.unwrap();
    let messages: Vec<_> = (0..250).map(|n| message(&format!("{n:03}"), "k")).collect();
    store.send_all(&messages).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    // The oldest 240 wait, the youngest 10 are gone.
    let verdicts: Vec<_> = rows
        .iter()
        .filter(|row| content(row).id() >= "240")
        .map(|row| owner.verdict(row, published()))
        .collect();
    store.settle(&owner.id, &verdicts).await.unwrap();
    connect(&url)
        .await
        .batch_execute(
            "UPDATE sendoff.message_key SET sent_at = now() - interval '2 hours' \
                                             + seq * interval '1 millisecond'",
        )
        .await
        .unwrap();
    assert_eq!(store.sweep(20).await.unwrap(), 10, "it does not stop at the first page");
    assert_eq!(store.sweep(20).await.unwrap(), 0);
    assert_eq!(store.stats().await.unwrap().pending, 240);
    let again = store.send_all(&[message("000", "k")]).await;
    assert!(again.is_err(), "what waits is still refused");
    store.send_all(&[message("249", "k")]).await.unwrap();
}
