//! Mending: what an operator requeues or discards keeps every promise.

use std::time::Duration;

use sendoff_core::store::{Mended, Outcome, Place, QuarantineReason, Which};
use sendoff_core::{Message, Result};

use super::stage::{LONG, Stage, id_of, message, published, quarantined, retry};
use super::subject::Subject;

/// A requeued message is published before what waited for it, its attempts start anew, and what is
/// sent meanwhile waits as well.
pub async fn a_requeue_keeps_the_order_of_the_key<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, retry(Duration::ZERO)).await?;
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    assert_eq!(row.attempts, 1);
    owner.settle(&row, quarantined()).await?;
    let mended = stage.store.requeue(&Which::All).await?;
    assert_eq!(mended.messages, 1);
    stage.send_keyed("k", &["4"]).await?;
    let first = stage.eventually("it comes back", || owner.seen("1")).await?;
    assert_eq!(first.attempts, 0);
    assert_eq!(owner.ids().await?, ["1"], "the others still wait");
    assert!(stage.store.quarantined(0, 10).await?.is_empty());
    owner.settle(&first, published(first.blocker)).await?;
    assert_eq!(owner.drain().await?, ["2", "3", "4"]);
    Ok(())
}

/// A requeued message that fails again holds its key again.
pub async fn a_requeued_message_that_fails_again_holds_again<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let mut owner = stage.owner().await?;
    for _ in 0..2 {
        let row = stage.eventually("it is there", || owner.seen("1")).await?;
        owner.settle(&row, quarantined()).await?;
        owner.lease(LONG).await?;
        let stats = stage.store.stats().await?;
        assert_eq!((stats.quarantined, stats.held), (1, 1));
        stage.store.requeue(&Which::All).await?;
        owner.lease(LONG).await?;
        let stats = stage.store.stats().await?;
        assert_eq!((stats.quarantined, stats.held, stats.pending), (0, 1, 1));
    }
    Ok(())
}

/// A requeue is found wherever the lanes' marks are.
pub async fn a_requeued_message_is_found_below_the_floor<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    stage.store.requeue(&Which::All).await?;
    let mut look = owner.look_at_all();
    for lane in &mut look.lanes {
        lane.after = row.seq + 1_000;
    }
    stage
        .eventually("it comes back", || async {
            let rows = owner.store.look(&look).await?.rows;
            Ok((rows.len() == 1).then_some(()))
        })
        .await
}

/// A discard deletes the message and lets go what it held; its pair stays known.
pub async fn a_discard_lets_the_followers_go<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!(mended, Mended { messages: 1, released: 2 });
    assert_eq!(stage.place("1").await?, Some(Place::Gone));
    stage.send_keyed("k", &["4"]).await?;
    stage.eventually("it is let go", || owner.seen("2")).await?;
    assert_eq!(owner.ids().await?, ["2"], "one after the other");
    assert_eq!(owner.drain_holding().await?, ["2", "3", "4"]);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.published, stats.quarantined), (3, 0), "a discard is no publish");
    Ok(())
}

/// Mending takes what is asked for: an id, a pair, a reason; and only what is in quarantine.
pub async fn mending_takes_what_is_asked_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let other = Message::builder("other", "t").id("1").build()?;
    let mut sent = vec![other];
    for id in ["1", "2", "3", "ready"] {
        sent.push(message(id).build()?);
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    for row in owner.rows().await? {
        let reason = match id_of(&row) {
            Some("ready") => continue,
            Some("3") => QuarantineReason::TooLarge,
            _ => QuarantineReason::Permanent,
        };
        let outcome = Outcome::Quarantined { reason, error: "no".to_owned(), holds: true };
        owner.settle(&row, outcome).await?;
    }
    let id = |id: &str, source: Option<&str>| Which::Id {
        id: id.to_owned(),
        source: source.map(str::to_owned),
    };
    for nothing in [
        id("ready", None),
        id("never", None),
        id("1", Some("nobody")),
        Which::Reason(QuarantineReason::Attempts),
    ] {
        assert_eq!(stage.store.requeue(&nothing).await?, Mended::default());
        assert_eq!(stage.store.discard(&nothing).await?, Mended::default());
    }
    assert_eq!(stage.store.stats().await?.quarantined, 4);
    assert_eq!(stage.store.requeue(&id("1", Some("other"))).await?.messages, 1);
    let by_reason = Which::Reason(QuarantineReason::TooLarge);
    assert_eq!(stage.store.requeue(&by_reason).await?.messages, 1);
    assert_eq!(stage.store.stats().await?.quarantined, 2);
    assert_eq!(stage.store.discard(&id("1", None)).await?.messages, 1);
    assert_eq!(stage.store.discard(&Which::All).await?.messages, 1);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.quarantined, stats.pending), (0, 3));
    Ok(())
}
