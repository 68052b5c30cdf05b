//! A week: when acknowledgements are no longer taken, when a barrier goes, when its id is free.

use std::time::Duration;

use sendoff_core::barrier::{BarrierState, Outcome, Page, RefusalCode, Which};
use sendoff_core::{Message, Result};

use super::stage::{DAY, HOUR, MINUTE, Stage, batch, continuation, id, only, plan, refused};
use super::subject::Subject;

/// Both complete and not, a barrier is there and can be read for a week.
pub async fn a_barrier_lives_a_week<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    stage.create(plan("open", ["a", "b"])).await?;
    stage.ok("b", "a").await?;
    let message = only(stage.deliver().await?);
    stage.subject.age(7 * DAY - MINUTE).await?;
    stage.store.sweep(100).await?;
    assert!(stage.hydrate(&continuation(&message)).await?.is_some());
    assert_eq!(stage.names("b", Which::Resolved).await?, ["a"]);
    assert_eq!(stage.status("open").await?.state, BarrierState::Open);
    stage.subject.age(2 * MINUTE).await?;
    assert!(stage.hydrate(&continuation(&message)).await?.is_none());
    for of in ["b", "open"] {
        // Until it is swept it says that it has expired; then it is not there.
        let status = stage.store.barrier_status(&id(of)).await?;
        let is_over = status.is_none_or(|s| s.state == BarrierState::Expired && !s.complete);
        assert!(is_over, "{of}");
        let page = Page { id: id(of), which: Which::Resolved, after: None, limit: 10, only: None };
        assert!(stage.store.barrier_outcomes(&page).await?.is_none());
    }
    Ok(())
}

/// An hour before the end nothing is taken any more, so that a row that is about to go can never make
/// a barrier look finished.
pub async fn the_last_hour_takes_no_acknowledgement<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    stage.subject.age(7 * DAY - HOUR - MINUTE).await?;
    stage.ok("b", "a").await?;
    stage.subject.age(2 * MINUTE).await?;
    let Err(refusal) = stage.store.ack_members(&batch("b", ["b", "c"])).await? else {
        panic!("it is too late");
    };
    assert_eq!((refusal.code(), refusal.detail()), (RefusalCode::Expired, "barrier expired"));
    assert_eq!(refused(stage.try_ack("b", "a", Outcome::ok()).await?), RefusalCode::Expired);
    assert_eq!(stage.counts("b").await?, [3, 1, 2, 0, 0]);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// An id is free once its barrier has expired and not before; then it is another barrier, whose
/// continuation is another message.
pub async fn an_id_is_free_after_the_week<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    assert!(stage.ack_all(&batch("b", ["a", "b"])).await?.complete);
    let first = only(stage.deliver().await?);
    let before = stage.status("b").await?;
    stage.subject.age(7 * DAY - MINUTE).await?;
    assert!(stage.create(plan("b", ["c"])).await?.existing);
    stage.subject.age(2 * MINUTE).await?;
    assert!(!stage.create(plan("b", ["b", "c"])).await?.existing);
    let after = stage.status("b").await?;
    assert_ne!(before.incarnation, after.incarnation);
    assert_eq!(stage.counts("b").await?, [2, 0, 2, 0, 0], "nothing of the old one");
    for _ in 0..5 {
        stage.store.sweep(100).await?;
    }
    assert_eq!(
        stage.names("b", Which::Pending).await?,
        ["b", "c"],
        "the sweep knows which is which"
    );
    assert!(stage.ack_all(&batch("b", ["b", "c"])).await?.complete);
    let second = only(stage.deliver().await?);
    assert_ne!(first.id(), second.id());
    Ok(())
}

/// What its continuation is about is there when it arrives, however late that is.
pub async fn a_barrier_outlives_its_unpublished_continuation<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    stage.ok("b", "a").await?;
    stage.subject.age(8 * DAY).await?;
    stage.store.sweep(100).await?;
    assert!(stage.create(plan("b", ["c"])).await?.existing, "the id is not free");
    let status = stage.status("b").await?;
    assert_eq!((status.state, status.dispatched), (BarrierState::Complete, Some(false)));
    stage.quarantine().await?;
    stage.subject.age(8 * DAY).await?;
    stage.store.sweep(100).await?;
    assert!(stage.create(plan("b", ["c"])).await?.existing, "nor while it is in quarantine");
    stage.store.requeue(&sendoff_core::store::Which::All).await?;
    let message = only(stage.deliver().await?);
    // It has left: now the week is over.
    assert!(stage.hydrate(&continuation(&message)).await?.is_none());
    assert!(!stage.create(plan("b", ["c"])).await?.existing);
    Ok(())
}

/// What has expired is swept in bounded pieces, and what has not is left.
pub async fn the_expired_are_swept_in_pieces<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let names: Vec<String> = (0..25).map(|n| format!("m{n}")).collect();
    for of in ["x", "y"] {
        stage.create(plan(of, &names)).await?;
    }
    stage.subject.age(4 * DAY).await?;
    stage.create(plan("young", &names)).await?;
    stage.subject.age(4 * DAY).await?;
    let mut swept = 0;
    for _ in 0..40 {
        let piece = stage.store.sweep(10).await?;
        assert!(piece <= 20, "{piece} of a sweep that takes 10 pairs and 10 members");
        swept += piece;
        let acked = stage.store.ack_members(&batch("young", [""; 0])).await?;
        assert!(acked.is_ok(), "acknowledgements go on");
    }
    assert_eq!(swept, 50);
    for of in ["x", "y"] {
        assert!(stage.store.barrier_status(&id(of)).await?.is_none(), "{of} is gone");
        assert!(!stage.create(plan(of, ["a"])).await?.existing);
    }
    assert_eq!(stage.counts("young").await?, [25, 0, 25, 0, 0]);
    Ok(())
}

/// The message is the same for the same barrier, and another for each incarnation and reason.
pub async fn a_continuation_has_an_id_of_its_own<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut ids: Vec<String> = Vec::new();
    for of in ["x", "y"] {
        stage.create(plan(of, ["a"])).await?;
        stage.ok(of, "a").await?;
        let status = stage.status(of).await?;
        let message: Message = only(stage.deliver().await?);
        let expected =
            sendoff_core::barrier::continuation_id(&id(of), &status.incarnation, 1, "all");
        assert_eq!(message.id(), expected);
        assert_eq!(message.source(), "sendoff.barrier");
        ids.push(expected);
    }
    stage.subject.age(7 * DAY + Duration::from_secs(1)).await?;
    stage.create(plan("x", ["a"])).await?;
    stage.ok("x", "a").await?;
    ids.push(only(stage.deliver().await?).id().to_owned());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    Ok(())
}
