//! When a barrier is complete.

use sendoff_core::Result;
use sendoff_core::barrier::{
    AckBatch, BarrierState, Counting, Outcome, Plan, PlanBuilder, Policy, Quota, Reason,
    RefusalCode, Wanted, Which,
};

use super::stage::{DONE, Stage, ack, batch, continuation, id, only, plan, refused, taken};
use super::subject::Subject;

fn with(policy: Policy) -> PlanBuilder {
    plan("b", ["a", "b", "c", "d"]).policy(policy)
}

/// So many resolved members are enough, and the others are not waited for.
pub async fn so_many_resolved_members_are_enough<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(with(Policy::at_least(3, Counting::Resolved))).await?;
    stage.ok("b", "a").await?;
    assert!(!stage.ack("b", "b", Outcome::failed()).await?.complete);
    let third = stage.ok("b", "c").await?;
    assert_eq!((third.complete, third.remaining), (true, Some(0)));
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::Policy));
    assert_eq!(refused(stage.try_ack("b", "d", Outcome::ok()).await?), RefusalCode::Conflict);
    assert_eq!(stage.names("b", Which::Resolved).await?, ["a", "b", "c"]);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// Where successes are counted, failures do not count.
pub async fn so_many_successes_are_enough<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(with(Policy::at_least(2, Counting::Successful))).await?;
    stage.ack("b", "a", Outcome::failed()).await?;
    stage.ok("b", "b").await?;
    assert!(!stage.ack("b", "c", Outcome::failed()).await?.complete);
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.ok("b", "d").await?.complete);
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::All));
    Ok(())
}

/// What cannot be reached any more ends when nothing is pending, and says so.
pub async fn what_cannot_be_reached_ends_unmet<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(with(Policy::at_least(3, Counting::Successful))).await?;
    for member in ["a", "b", "c"] {
        assert!(!stage.ack("b", member, Outcome::failed()).await?.complete);
    }
    assert!(stage.ok("b", "d").await?.complete);
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::Unmet));
    assert_eq!(stage.status("b").await?.state, BarrierState::Complete);
    Ok(())
}

/// Every group has to have what it wants.
pub async fn every_group_has_its_quota<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let quota = |wanted, counting| Quota { wanted, counting };
    let policy = Policy::groups([
        ("all", quota(Wanted::All, Counting::Resolved)),
        ("some", quota(Wanted::AtLeast(2), Counting::Successful)),
    ]);
    let asked = |of: &str| {
        Plan::builder(id(of))
            .group("all", ["a", "b"])
            .group("some", ["x", "y", "z"])
            .policy(policy.clone())
            .continue_with(DONE)
    };
    stage.create(asked("b")).await?;
    for member in ["x", "a", "b"] {
        assert!(!stage.ok("b", member).await?.complete, "{member}");
    }
    assert!(!stage.ack("b", "y", Outcome::failed()).await?.complete);
    assert!(stage.ok("b", "z").await?.complete);
    only(stage.deliver().await?);
    // In the other order, and with one of the second group left.
    stage.create(asked("c")).await?;
    let acked = stage.ack_all(&batch("c", ["z", "y", "a"])).await?;
    assert!(!acked.complete);
    assert!(stage.ack("c", "b", Outcome::failed()).await?.complete);
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::Policy));
    Ok(())
}

/// The first failure ends it, once, with what is missing.
pub async fn the_first_failure_ends_it<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(with(Policy::all().or_first_failure())).await?;
    assert!(!stage.ok("b", "a").await?.complete);
    let acks = ["b", "c"].map(|member| ack(member, Outcome::failed()));
    let acked = stage.ack_all(&AckBatch::new(id("b"), acks.to_vec())).await?;
    assert_eq!(acked.resolved(), 2, "the ones that came with it count");
    assert!(acked.complete || acked.closing);
    let message = only(stage.deliver().await?);
    assert_eq!(continuation(&message).reason, Some(Reason::FirstFailure));
    let status = stage.status("b").await?;
    assert_eq!((status.state, status.missing), (BarrierState::Complete, 1));
    assert_eq!(stage.names("b", Which::Missing).await?, ["d"]);
    assert_eq!(refused(stage.try_ack("b", "d", Outcome::failed()).await?), RefusalCode::Conflict);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// The same in the caller's transaction, where several transactions fail one after the other.
pub async fn the_first_failure_of_a_transaction_ends_it<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(with(Policy::all().or_first_failure())).await?;
    let failing = |member| AckBatch::new(id("b"), vec![ack(member, Outcome::failed())]);
    let mut transaction = stage.subject.begin().await?;
    taken(transaction.ack(&failing("a")).await?);
    transaction.rollback().await?;
    assert!(stage.deliver().await?.is_empty(), "what rolled back did not fail");
    assert_eq!(stage.status("b").await?.state, BarrierState::Open);
    for member in ["b", "c"] {
        let mut transaction = stage.subject.begin().await?;
        // The second may be late already.
        taken(transaction.ack(&failing(member)).await?);
        transaction.commit().await?;
    }
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::FirstFailure));
    let status = stage.status("b").await?;
    assert!(status.complete && status.pending == 0 && status.failed >= 1);
    Ok(())
}

/// A policy that is met while its last members come together is met once.
pub async fn a_batch_that_passes_a_quorum_completes_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
    stage.create(plan("b", &names).policy(Policy::at_least(20, Counting::Resolved))).await?;
    assert!(!stage.ack_all(&batch("b", &names[..19])).await?.complete);
    let acked = stage.ack_all(&batch("b", &names[19..40])).await?;
    assert!(acked.complete && acked.resolved() == 21);
    only(stage.deliver().await?);
    assert_eq!(stage.ack_all(&batch("b", &names[40..])).await?.refused(), 10);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}
