//! Holds: behind a message that fails, its key waits and loses no order (G3).

use std::time::Duration;

use sendoff_core::Result;
use sendoff_core::store::{Content, Outcome, Place, Which};

use super::stage::{LONG, SHORT, Stage, message, published, quarantined, retry};
use super::subject::Subject;

/// While a message is retried, its key's later messages stand aside, and come back in order.
pub async fn a_failing_message_holds_its_followers_until_it_is_published<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    stage.send_keyed("other", &["4"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry(SHORT)).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
    for id in ["2", "3"] {
        let found = stage.find(id).await?;
        assert_eq!(found.as_ref().map(|found| found.place), Some(Place::Held));
        assert_eq!(found.and_then(|found| found.held_behind).as_deref(), Some("1"));
    }
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    let mut ids = owner.ids().await?;
    ids.sort_unstable();
    assert_eq!(ids, ["1", "4"], "held rows are not given");
    let settled = owner.settle(&first, published(first.blocker)).await?;
    assert_eq!((settled.published, settled.released), (1, 2));
    let ids: Vec<String> = owner.drain().await?;
    let of_key: Vec<&String> = ids.iter().filter(|id| *id != "4").collect();
    assert_eq!(of_key, ["2", "3"]);
    assert_eq!(stage.store.stats().await?.held, 0);
    Ok(())
}

/// A message that failed before keeps holding when it fails again.
pub async fn a_message_that_fails_again_still_holds<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    for _ in 0..3 {
        let row = stage.eventually("its retry", || owner.seen("1")).await?;
        owner.settle(&row, retry(SHORT)).await?;
        assert_eq!(stage.store.stats().await?.held, 1);
    }
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    owner.settle(&row, quarantined()).await?;
    assert_eq!(stage.store.stats().await?.held, 1);
    assert!(owner.rows().await?.is_empty());
    Ok(())
}

/// A follower that is sent later is found blocked, held, and let go with the rest.
pub async fn a_follower_sent_later_is_held_and_let_go<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry(SHORT)).await?;
    stage.send_keyed("k", &["3"]).await?;
    owner.hold_blocked(1).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    let settled = owner.settle(&first, published(true)).await?;
    assert_eq!(settled.released, 2);
    assert_eq!(owner.drain().await?, ["2", "3"]);
    Ok(())
}

/// A relay that takes over finds its predecessor's followers held, and later ones blocked.
pub async fn a_new_owner_keeps_the_followers_held<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let dead = stage.owner().await?;
    let first = dead.row("1").await?;
    dead.settle(&first, retry(LONG)).await?;
    stage.lapse(&dead).await?;
    stage.send_keyed("k", &["3"]).await?;
    let heir = stage.owner().await?;
    heir.hold_blocked(1).await?;
    assert!(heir.rows().await?.is_empty());
    // Renewals let nothing go that still has something in front.
    let mut heir = heir;
    heir.lease(LONG).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
    Ok(())
}

/// A follower that is held behind two stays held until the last of them is out of its way.
pub async fn a_held_message_waits_for_every_blocker_before_it<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let mut owner = stage.owner().await?;
    let (first, second) = (owner.row("1").await?, owner.row("2").await?);
    owner.settle(&second, quarantined()).await?;
    owner.settle(&first, quarantined()).await?;
    assert_eq!(stage.store.stats().await?.held, 1);
    let which = Which::Id { id: "1".to_owned(), source: None };
    stage.store.discard(&which).await?;
    owner.lease(LONG).await?;
    assert_eq!(stage.place("3").await?, Some(Place::Held));
    assert!(owner.rows().await?.is_empty());
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!((mended.messages, mended.released), (1, 1));
    stage.eventually("it is let go", || owner.seen("3")).await?;
    assert_eq!(owner.drain().await?, ["3"]);
    Ok(())
}

/// A row whose blocker went before the verdict was written is not held, and is found again.
pub async fn a_message_is_not_held_behind_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    stage.send(&[message("3").build()?]).await?;
    let owner = stage.owner().await?;
    for id in ["1", "2", "3"] {
        let row = owner.row(id).await?;
        owner.settle(&row, Outcome::Held).await?;
    }
    assert_eq!(stage.store.stats().await?.held, 0);
    let mut ids = owner.drain().await?;
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2", "3"], "nothing is left behind");
    Ok(())
}

/// A follower is found blocked in the same look as what it waits for, and both verdicts are written
/// in one settlement, in either order: it is let go with the rest, and nothing passes it.
pub async fn one_settlement_can_hold_and_release_a_key<S: Subject>() -> Result<()> {
    for held_first in [true, false] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2"]).await?;
        let owner = stage.owner().await?;
        let first = owner.row("1").await?;
        owner.settle(&first, retry(Duration::ZERO)).await?;
        stage.send_keyed("k", &["3"]).await?;
        let first = stage.eventually("its retry", || owner.seen("1")).await?;
        let rows = owner.rows().await?;
        let mut verdicts = vec![owner.verdict(&first, published(true))];
        for row in rows.iter().filter(|row| matches!(row.content, Content::Blocked)) {
            verdicts.push(owner.verdict(row, Outcome::Held));
        }
        assert_eq!(verdicts.len(), 2);
        if held_first {
            verdicts.reverse();
        }
        owner.store.settle(&owner.id, &verdicts).await?;
        stage.send_keyed("k", &["4"]).await?;
        assert_eq!(owner.drain_holding().await?, ["2", "3", "4"]);
        assert_eq!(stage.store.stats().await?.held, 0);
    }
    Ok(())
}

/// A key's message is published and its next one fails, and both verdicts are written in one
/// settlement: what comes after the second is held.
pub async fn one_settlement_can_publish_a_message_and_hold_behind_the_next<S: Subject>()
-> Result<()> {
    for published_first in [true, false] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2", "3"]).await?;
        let owner = stage.owner().await?;
        let (first, second) = (owner.row("1").await?, owner.row("2").await?);
        let mut verdicts = vec![
            owner.verdict(&first, published(false)),
            owner.verdict(&second, retry(Duration::ZERO)),
        ];
        if !published_first {
            verdicts.reverse();
        }
        owner.store.settle(&owner.id, &verdicts).await?;
        assert_eq!(stage.place("3").await?, Some(Place::Held));
        stage.eventually("its retry", || owner.seen("2")).await?;
        assert_eq!(owner.drain_holding().await?, ["2", "3"]);
    }
    Ok(())
}

/// Held rows without anything to wait for are let go by their owner's next lease, one after the
/// other, so that what is sent then does not pass them.
pub async fn held_messages_without_a_blocker_are_let_go_by_a_lease<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let mut owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry(LONG)).await?;
    stage.subject.delete("1").await?;
    owner.lease(LONG).await?;
    stage.send_keyed("k", &["4"]).await?;
    let second = stage.eventually("it is let go", || owner.seen("2")).await?;
    assert!(second.blocker && second.waiting);
    assert_eq!(owner.ids().await?, ["2"], "the others wait for it");
    assert_eq!(owner.drain_holding().await?, ["2", "3", "4"]);
    assert_eq!(stage.store.stats().await?.held, 0);
    Ok(())
}

/// A release pulls the lane's floor down in the same commit: the rows that it lets go stand far
/// below what was read, and an owner who dies right then must not leave them there.
pub async fn a_release_pulls_the_floor_down<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let mut owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry(Duration::ZERO)).await?;
    for lease in &mut owner.lanes {
        lease.floor = first.seq + 1_000;
    }
    owner.lease(SHORT).await?;
    let settled = owner.settle(&first, published(true)).await?;
    assert_eq!((settled.published, settled.released), (1, 1));
    stage.subject.pass(SHORT * 2).await;
    let heir = stage.owner().await?;
    for lease in &heir.lanes {
        if lease.lane == first.lane {
            assert!(lease.floor <= first.seq, "{}", lease.floor);
        } else {
            assert_eq!(lease.floor, first.seq + 1_000);
        }
    }
    Ok(())
}

/// A row that is held although it has failed itself counts as its own key's blocker, and must not
/// wait for itself.
pub async fn a_held_message_that_has_failed_does_not_wait_for_itself<S: Subject>() -> Result<()> {
    for by_lease in [false, true] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2", "3"]).await?;
        let mut owner = stage.owner().await?;
        let (first, second) = (owner.row("1").await?, owner.row("2").await?);
        owner.settle(&second, retry(SHORT)).await?;
        owner.settle(&first, retry(SHORT)).await?;
        stage.subject.pass(SHORT * 2).await;
        owner.hold_blocked(1).await?;
        assert_eq!(stage.store.stats().await?.held, 2);
        let first = stage.eventually("its retry", || owner.seen("1")).await?;
        owner.settle(&first, published(!by_lease)).await?;
        if by_lease {
            owner.lease(LONG).await?;
        }
        let second = stage.eventually("it is let go", || owner.seen("2")).await?;
        assert!(second.blocker, "it still holds what comes after it");
        assert_eq!(stage.place("3").await?, Some(Place::Held));
        owner.settle(&second, published(true)).await?;
        assert_eq!(owner.drain().await?, ["3"]);
    }
    Ok(())
}

/// A message that fell due behind a blocker is held and let go like the others.
pub async fn a_message_that_falls_due_is_held_and_let_go<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(SHORT).await?;
    stage.send(&[message("due").key("k").due_at(due_at).build()?]).await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, quarantined()).await?;
    assert_eq!(stage.store.stats().await?.held, 0, "before its time it is not held");
    stage
        .eventually("it falls due", || async {
            Ok((!owner.rows().await?.is_empty()).then_some(()))
        })
        .await?;
    owner.hold_blocked(1).await?;
    assert!(owner.rows().await?.is_empty());
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!(mended.released, 1);
    stage.eventually("it is let go", || owner.seen("due")).await?;
    assert_eq!(owner.drain().await?, ["due"]);
    Ok(())
}
