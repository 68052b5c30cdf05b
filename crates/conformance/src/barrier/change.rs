//! Cancelling, growing, sealing, excluding.

use sendoff_core::Result;
use sendoff_core::barrier::{BarrierState, Change, Outcome, Policy, Reason, RefusalCode, Which};

use super::stage::{Stage, batch, continuation, name, only, plan, refused, taken};
use super::subject::Subject;

fn grow<const N: usize>(names: [&str; N]) -> Change {
    taken(Change::grow("", names))
}

/// A cancelled barrier has no continuation and takes no acknowledgement.
pub async fn a_cancelled_barrier_ends_without_a_continuation<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    stage.ok("b", "a").await?;
    let changed = stage.change("b", Change::Cancel).await?;
    assert!(!changed.complete);
    let answer = stage.store.ack_members(&batch("b", ["a", "b"])).await?;
    assert_eq!(refused(answer), RefusalCode::Cancelled);
    let status = stage.status("b").await?;
    assert_eq!((status.state, status.reason), (BarrierState::Cancelled, Some(Reason::Cancelled)));
    assert!(!status.complete && status.dispatched.is_none() && status.completed_at.is_some());
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.create(plan("b", ["c"])).await?.existing, "its id is taken for the week");
    assert_eq!(refused(stage.try_change("b", Change::Seal).await?), RefusalCode::Cancelled);
    Ok(())
}

/// What is complete cannot be cancelled.
pub async fn what_is_complete_cannot_be_cancelled<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    stage.ok("b", "a").await?;
    assert_eq!(refused(stage.try_change("b", Change::Cancel).await?), RefusalCode::Conflict);
    assert_eq!(refused(stage.try_change("none", Change::Cancel).await?), RefusalCode::NotFound);
    only(stage.deliver().await?);
    assert!(stage.status("b").await?.complete);
    Ok(())
}

/// A list that grows completes once it is sealed, however many are done before.
pub async fn a_growing_list_completes_after_its_seal<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("b", ["a", "b"]).unsealed()).await?;
    assert!(!stage.ack_all(&batch("b", ["a", "b"])).await?.complete);
    assert!(stage.deliver().await?.is_empty());
    let grown = stage.change("b", grow(["c", "a", "d"])).await?;
    assert_eq!(
        (grown.members, grown.complete),
        (2, false),
        "a name that is there is left as it is"
    );
    assert_eq!(stage.counts("b").await?, [4, 2, 2, 0, 0]);
    assert!(!stage.ack_all(&batch("b", ["c", "d"])).await?.complete);
    assert!(stage.deliver().await?.is_empty());
    let sealed = stage.change("b", Change::Seal).await?;
    assert!(sealed.complete);
    only(stage.deliver().await?);
    assert!(stage.change("b", Change::Seal).await?.complete, "twice is as good as once");
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// Sealed with members pending, the last of them completes it.
pub async fn the_last_member_completes_a_sealed_list<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("b", [""; 0]).unsealed()).await?;
    assert_eq!(stage.change("b", grow([])).await?.members, 0);
    stage.change("b", grow(["a"])).await?;
    stage.change("b", grow(["b"])).await?;
    stage.ok("b", "b").await?;
    assert!(!stage.change("b", Change::Seal).await?.complete);
    assert!(stage.status("b").await?.sealed);
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.ok("b", "a").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// An empty list that is sealed completes.
pub async fn an_empty_list_completes_when_it_is_sealed<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    assert!(!stage.create(plan("b", [""; 0]).unsealed()).await?.complete);
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.change("b", Change::Seal).await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// What is sealed, or closed, cannot grow.
pub async fn what_is_sealed_cannot_grow<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    assert_eq!(refused(stage.try_change("b", grow(["c"])).await?), RefusalCode::Conflict);
    stage.ok("b", "a").await?;
    only(stage.deliver().await?);
    // A continuation that grows its own barrier would begin it again and again.
    assert_eq!(refused(stage.try_change("b", grow(["c"])).await?), RefusalCode::Conflict);
    assert_eq!(stage.counts("b").await?, [1, 1, 0, 0, 0]);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// Growth in one transaction, and taken back by another.
pub async fn growth_is_part_of_its_transaction<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("b", ["a"]).unsealed()).await?;
    let mut transaction = stage.subject.begin().await?;
    taken(transaction.change(&super::stage::id("b"), &grow(["x"])).await?);
    taken(transaction.ack(&batch("b", ["x"])).await?);
    transaction.rollback().await?;
    assert_eq!(stage.counts("b").await?, [1, 0, 1, 0, 0]);
    let mut transaction = stage.subject.begin().await?;
    taken(transaction.change(&super::stage::id("b"), &grow(["x"])).await?);
    assert_eq!(taken(transaction.ack(&batch("b", ["x"])).await?).resolved(), 1);
    assert!(!taken(transaction.change(&super::stage::id("b"), &Change::Seal).await?).complete);
    transaction.commit().await?;
    assert!(stage.ok("b", "a").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// A member that will never come is resolved as failed, and the barrier goes on.
pub async fn an_excluded_member_is_resolved_as_failed<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    stage.ok("b", "a").await?;
    let changed = stage.change("b", Change::Exclude(name("b"))).await?;
    assert_eq!((changed.members, changed.complete), (1, false));
    let answer = stage.try_change("b", Change::Exclude(name("nobody"))).await?;
    assert_eq!(refused(answer), RefusalCode::UnknownMember);
    let late = stage.ok("b", "b").await?;
    assert!(late.duplicate && late.conflict);
    assert_eq!(late.winner.map(|winner| winner.channel).as_deref(), Some("excluded"));
    assert!(stage.change("b", Change::Exclude(name("c"))).await?.complete);
    only(stage.deliver().await?);
    let failed = stage.members("b", Which::Failed).await?;
    let errors: Vec<_> =
        failed.iter().filter_map(|one| one.outcome.as_ref().and_then(Outcome::error)).collect();
    assert_eq!(errors, ["excluded", "excluded"]);
    assert_eq!(stage.counts("b").await?, [3, 3, 0, 2, 0]);
    Ok(())
}

/// Members of a group for which the policy says nothing cannot be waited for.
pub async fn growth_stays_within_the_policys_groups<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("b", ["a"]).policy(Policy::all()).unsealed()).await?;
    let other = taken(Change::grow("other", ["x"]));
    assert_eq!(refused(stage.try_change("b", other).await?), RefusalCode::Invalid);
    assert_eq!(stage.counts("b").await?, [1, 0, 1, 0, 0]);
    stage.ok("b", "a").await?;
    assert!(stage.change("b", Change::Seal).await?.complete);
    assert_eq!(continuation(&only(stage.deliver().await?)).barrier, "b");
    Ok(())
}
