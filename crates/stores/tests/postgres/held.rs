//! Very many rows behind one key.

use std::time::Duration;

use sendoff_core::store::{OutboxDesk, OutboxStore, Outcome};

use crate::stage::{Owner, connect, content, eventually, message, migrated, retry};

/// More than one settlement lets go.
const HELD: i64 = 20_100;

#[tokio::test]
async fn a_key_with_more_held_rows_than_one_settlement_frees_goes_on_in_order() {
    let (store, url) = migrated().await;
    store.send_all(&[message("first", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let first = owner.rows(&store).await.remove(0);
    let verdict = owner.verdict(
        &first,
        Outcome::Retry { after: Duration::ZERO, error: "no".into(), counts: true, holds: true },
    );
    store.settle(&owner.id, &[verdict]).await.unwrap();
    let client = connect(&url).await;
    client
        .batch_execute(&format!(
            "INSERT INTO sendoff.outbox (id, source, topic, key, held) \
             SELECT 'h' || lpad(n::text, 6, '0'), 'test', 't', 'k', true \
               FROM generate_series(1, {HELD}) AS n"
        ))
        .await
        .unwrap();
    let publish = Outcome::Published { releases: true };
    // The first ones go one by one, each of them in the blocker's place; then all the rest.
    let mut freed = Vec::new();
    let mut next = first;
    for n in 1..=102 {
        let settled =
            store.settle(&owner.id, &[owner.verdict(&next, publish.clone())]).await.unwrap();
        freed.push(settled.released);
        if settled.released > 1 {
            break;
        }
        // Whatever is sent meanwhile stays behind.
        let id = format!("new {n}");
        store.send_all(&[message(&id, "k")]).await.unwrap();
        let mut look = owner.look();
        look.ready = false;
        next = eventually("the next one", || async {
            let rows = store.look(&look).await.unwrap().rows;
            rows.into_iter().find(|row| row.blocker)
        })
        .await;
        assert_eq!(content(&next).id(), format!("h{n:06}"));
    }
    assert_eq!(freed.len(), 101, "{freed:?}");
    assert_eq!(freed[..100], [1; 100]);
    assert_eq!(freed[100], 20_000);
    assert_eq!(store.stats().await.unwrap().held, 0);
}

#[tokio::test]
async fn a_new_row_behind_held_ones_is_blocked_though_their_blocker_is_gone() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k"), message("2", "k")]).await.unwrap();
    let owner = Owner::of(&store).await;
    let rows = owner.rows(&store).await;
    store.settle(&owner.id, &[owner.verdict(&rows[0], retry("no"))]).await.unwrap();
    let client = connect(&url).await;
    client.batch_execute("DELETE FROM sendoff.outbox WHERE id = '1'").await.unwrap();
    store.send_all(&[message("3", "k"), message("other", "o")]).await.unwrap();
    let rows = owner.rows(&store).await;
    let seen: Vec<Option<&str>> = rows
        .iter()
        .map(|row| match &row.content {
            sendoff_core::store::Content::Message(message) => Some(message.id()),
            _ => None,
        })
        .collect();
    assert_eq!(rows.len(), 2);
    assert!(seen.contains(&Some("other")) && seen.contains(&None), "{seen:?}");
    let blocked = rows.iter().find(|row| row.key.as_deref() == Some("k")).unwrap();
    store.settle(&owner.id, &[owner.verdict(blocked, Outcome::Held)]).await.unwrap();
    assert_eq!(store.stats().await.unwrap().held, 2);
}
