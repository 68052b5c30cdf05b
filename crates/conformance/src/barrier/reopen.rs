//! Reopening: failed and missing members again, under a new epoch with one continuation of its own.

use sendoff_core::Result;
use sendoff_core::barrier::{
    BarrierState, Change, Counting, OnDeadline, Outcome, Policy, RefusalCode, Which,
};

use super::stage::{DAY, HOUR, MINUTE, Stage, batch, continuation, name, only, plan, refused};
use super::subject::Subject;

/// All that failed are pending again; what went well stays.
pub async fn failed_members_are_pending_again<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    stage.ok("b", "a").await?;
    stage.ack("b", "b", Outcome::failed()).await?;
    stage.ack("b", "c", Outcome::failed()).await?;
    let first = only(stage.deliver().await?);
    let changed = stage.change("b", Change::Reopen(Vec::new())).await?;
    assert_eq!((changed.members, changed.epoch, changed.complete), (2, 2, false));
    let status = stage.status("b").await?;
    assert_eq!((status.state, status.epoch, status.reason), (BarrierState::Open, 2, None));
    assert_eq!((status.completed_at, status.dispatched), (None, None));
    assert_eq!(stage.counts("b").await?, [3, 1, 2, 0, 0]);
    assert!(stage.hydrate(&continuation(&first)).await?.is_none(), "it is open");
    assert!(stage.ok("b", "a").await?.duplicate, "what went well stays");
    assert!(!stage.ok("b", "c").await?.duplicate);
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.ok("b", "b").await?.complete);
    let second = only(stage.deliver().await?);
    assert_ne!(first.id(), second.id());
    let continued = continuation(&second);
    assert_eq!(continued.epoch, 2);
    assert!(stage.hydrate(&continued).await?.is_some());
    assert!(stage.hydrate(&continuation(&first)).await?.is_none(), "the first epoch is over");
    assert_eq!(stage.counts("b").await?, [3, 3, 0, 0, 0]);
    Ok(())
}

/// Chosen members only; the others stay as they are.
pub async fn chosen_members_are_pending_again<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    for member in ["a", "b"] {
        stage.ack("b", member, Outcome::failed()).await?;
    }
    stage.ok("b", "c").await?;
    let reopen = |names: &[&str]| Change::Reopen(names.iter().map(name).collect());
    for (names, code) in [
        (&["c"][..], RefusalCode::Conflict),
        (&["a", "c"], RefusalCode::Conflict),
        (&["a", "nobody"], RefusalCode::UnknownMember),
    ] {
        assert_eq!(refused(stage.try_change("b", reopen(names)).await?), code, "{names:?}");
    }
    assert_eq!(stage.status("b").await?.epoch, 1, "nothing was changed");
    assert_eq!(stage.change("b", reopen(&["b", "b"])).await?.members, 1);
    assert_eq!(stage.names("b", Which::Pending).await?, ["b"]);
    assert_eq!(stage.names("b", Which::Failed).await?, ["a"]);
    assert!(stage.ok("b", "b").await?.complete);
    assert_eq!(stage.deliver().await?.len(), 2, "one of each epoch");
    Ok(())
}

/// Only what has ended can be reopened.
pub async fn only_what_has_ended_is_reopened<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    stage.ack("b", "a", Outcome::failed()).await?;
    let answer = stage.try_change("b", Change::Reopen(Vec::new())).await?;
    assert_eq!(refused(answer), RefusalCode::Conflict);
    assert_eq!(stage.counts("b").await?, [2, 1, 1, 1, 0]);
    assert!(stage.ok("b", "b").await?.complete);
    Ok(())
}

/// What a deadline gave up can come after all; the week begins anew.
pub async fn missing_members_can_come_after_all<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let asked = plan("b", ["a", "b"]).deadline(HOUR).on_deadline(OnDeadline::Continue);
    stage.create(asked).await?;
    stage.ok("b", "a").await?;
    stage.subject.age(HOUR + MINUTE).await?;
    only(stage.deliver().await?);
    stage.subject.age(5 * DAY).await?;
    assert_eq!(stage.change("b", Change::Reopen(vec![name("b")])).await?.members, 1);
    assert!(stage.deliver().await?.is_empty(), "the old deadline does not close it");
    assert_eq!(stage.status("b").await?.state, BarrierState::Open);
    stage.subject.age(5 * DAY).await?;
    stage.store.sweep(100).await?;
    assert!(stage.ok("b", "b").await?.complete, "a week from the reopening on");
    assert_eq!(continuation(&only(stage.deliver().await?)).epoch, 2);
    assert_eq!(stage.counts("b").await?, [2, 2, 0, 0, 0]);
    Ok(())
}

/// Under a quorum the reopened members count again.
pub async fn a_quorum_is_reached_again_after_a_reopening<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage
        .create(plan("b", ["a", "b", "c"]).policy(Policy::at_least(2, Counting::Resolved)))
        .await?;
    stage.ok("b", "a").await?;
    assert!(stage.ack("b", "b", Outcome::failed()).await?.complete);
    stage.change("b", Change::Reopen(Vec::new())).await?;
    assert_eq!(stage.counts("b").await?, [3, 1, 2, 0, 0]);
    assert!(stage.ok("b", "c").await?.complete);
    assert_eq!(stage.deliver().await?.len(), 2);
    Ok(())
}

/// An acknowledgement with a token of the first epoch is not taken in the second.
pub async fn an_old_epochs_acknowledgement_is_refused<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    stage.ack("b", "a", Outcome::failed()).await?;
    stage.change("b", Change::Reopen(Vec::new())).await?;
    let old = stage.store.ack_members(&batch("b", ["a"]).at_epoch(1)).await?;
    assert_eq!(refused(old), RefusalCode::Conflict);
    assert!(stage.ack_all(&batch("b", ["a"]).at_epoch(2)).await?.complete);
    Ok(())
}
