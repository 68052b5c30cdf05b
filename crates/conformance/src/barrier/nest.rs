//! A barrier as a member of another: when it ends, it acknowledges itself there.

use sendoff_core::Result;
use sendoff_core::barrier::{
    Change, Counting, MemberOutcome, OnDeadline, Outcome, PlanBuilder, Policy, RefusalCode, Which,
};

use super::stage::{DAY, HOUR, MINUTE, Stage, batch, continuation, name, plan, refused};
use super::subject::Subject;

fn child(of: &str, member: &str) -> PlanBuilder {
    plan(of, ["x", "y"]).member_of("parent", name(member))
}

async fn stage<S: Subject>() -> Result<Stage<S>> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("parent", ["one", "two"])).await?;
    Ok(stage)
}

/// The parent's one resolved member.
async fn resolved<S: Subject>(stage: &Stage<S>) -> Result<MemberOutcome> {
    let mut members = stage.members("parent", Which::Resolved).await?;
    assert_eq!(members.len(), 1);
    Ok(members.remove(0))
}

fn is_ok(member: &MemberOutcome) -> bool {
    member.outcome.as_ref().is_some_and(Outcome::is_ok)
}

/// A complete child is a member that went well, and the last of them completes the parent.
pub async fn a_complete_child_acknowledges_itself<S: Subject>() -> Result<()> {
    let stage = stage::<S>().await?;
    for member in ["one", "two"] {
        stage.create(child(member, member)).await?;
    }
    assert!(stage.ack_all(&batch("two", ["x", "y"])).await?.complete);
    let delivered = stage.deliver().await?;
    assert_eq!(delivered.len(), 1, "the child's own continuation");
    let member = resolved(&stage).await?;
    assert_eq!((member.member.to_string().as_str(), member.channel.as_str()), ("two", "barrier"));
    assert!(is_ok(&member));
    assert!(stage.ack_all(&batch("one", ["x", "y"])).await?.complete);
    let mut ended: Vec<String> =
        stage.deliver().await?.iter().map(|message| continuation(message).barrier).collect();
    ended.sort_unstable();
    assert_eq!(ended, ["one", "parent"]);
    assert!(stage.status("parent").await?.complete);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// Failed members of a child are told to the parent, whose member went well all the same.
pub async fn a_childs_failures_are_told<S: Subject>() -> Result<()> {
    let stage = stage::<S>().await?;
    stage.create(child("child", "one")).await?;
    stage.ack("child", "x", Outcome::failed()).await?;
    stage.ok("child", "y").await?;
    stage.deliver().await?;
    let member = resolved(&stage).await?;
    assert!(is_ok(&member));
    let error = member.outcome.as_ref().and_then(Outcome::error).unwrap_or_default();
    assert!(error.contains("1 members failed"), "{error}");
    Ok(())
}

/// A cancelled child is a failed member: the parent does not wait for what will never come.
pub async fn a_cancelled_child_resolves_its_parents_member<S: Subject>() -> Result<()> {
    let stage = stage::<S>().await?;
    stage.create(child("child", "one")).await?;
    stage.change("child", Change::Cancel).await?;
    assert!(stage.deliver().await?.is_empty());
    assert!(!is_ok(&resolved(&stage).await?));
    Ok(())
}

/// A child that its deadline closed is a failed member.
pub async fn a_childs_deadline_resolves_its_parents_member<S: Subject>() -> Result<()> {
    let stage = stage::<S>().await?;
    let deadline = child("child", "one").deadline(HOUR).on_deadline(OnDeadline::Continue);
    stage.create(deadline).await?;
    stage.ok("child", "x").await?;
    stage.subject.age(HOUR + MINUTE).await?;
    assert_eq!(stage.deliver().await?.len(), 1);
    let member = resolved(&stage).await?;
    assert!(!is_ok(&member));
    let error = member.outcome.as_ref().and_then(Outcome::error).unwrap_or_default();
    assert!(error.contains("deadline") && error.contains("1 are missing"), "{error}");
    Ok(())
}

/// An empty child completes at once, and so does what waits for it only.
pub async fn an_empty_child_completes_its_parent<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("parent", ["one"])).await?;
    let empty = plan("child", [""; 0]).member_of("parent", name("one"));
    assert!(stage.create(empty).await?.complete);
    assert_eq!(stage.deliver().await?.len(), 2);
    assert!(stage.status("parent").await?.complete);
    Ok(())
}

/// Three generations end one after the other.
pub async fn generations_end_one_after_the_other<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("top", ["m"])).await?;
    stage.create(plan("middle", ["m"]).member_of("top", name("m"))).await?;
    stage.create(plan("bottom", ["m"]).member_of("middle", name("m"))).await?;
    stage.ok("bottom", "m").await?;
    let ended: Vec<String> =
        stage.deliver().await?.iter().map(|message| continuation(message).barrier).collect();
    assert_eq!(ended.len(), 3, "{ended:?}");
    assert!(stage.status("top").await?.complete);
    Ok(())
}

/// A child is created where its parent waits for it, and nowhere else.
pub async fn a_child_needs_a_parent_that_waits_for_it<S: Subject>() -> Result<()> {
    let stage = stage::<S>().await?;
    let orphan = plan("child", ["x"]).member_of("nobody", name("one"));
    assert_eq!(refused(stage.try_create(orphan).await?), RefusalCode::NotFound);
    let unknown = stage.try_create(child("child", "three")).await?;
    assert_eq!(refused(unknown), RefusalCode::UnknownMember);
    stage.ok("parent", "one").await?;
    assert_eq!(refused(stage.try_create(child("child", "one")).await?), RefusalCode::Conflict);
    stage.create(child("child", "two")).await?;
    stage.ok("parent", "two").await?;
    let closed = stage.try_create(child("late", "two")).await?;
    assert_eq!(refused(closed), RefusalCode::Conflict);
    // The child whose member was acknowledged by somebody else ends all the same.
    stage.ack_all(&batch("child", ["x", "y"])).await?;
    assert_eq!(stage.deliver().await?.len(), 2);
    // A parent that has what it wants waits for nobody, also where a member of it is pending.
    let one = Policy::at_least(1, Counting::Resolved);
    stage.create(plan("met", ["one", "two"]).policy(one)).await?;
    stage.ok("met", "two").await?;
    let met = plan("late", ["x"]).member_of("met", name("one"));
    assert_eq!(refused(stage.try_create(met).await?), RefusalCode::Conflict);
    stage.create(plan("other", ["one"])).await?;
    stage.change("other", Change::Cancel).await?;
    let cancelled = plan("late", ["x"]).member_of("other", name("one"));
    assert_eq!(refused(stage.try_create(cancelled).await?), RefusalCode::Cancelled);
    Ok(())
}

/// A child goes no later than its parent, and its deadline lies before that.
pub async fn a_child_goes_no_later_than_its_parent<S: Subject>() -> Result<()> {
    let stage = stage::<S>().await?;
    stage.subject.age(4 * DAY).await?;
    stage.create(child("child", "one")).await?;
    let (parent, child_status) = (stage.status("parent").await?, stage.status("child").await?);
    assert!(child_status.expires_at <= parent.expires_at);
    let late = stage.try_create(child("late", "two").deadline(3 * DAY)).await?;
    assert_eq!(refused(late), RefusalCode::Invalid);
    stage.create(child("late", "two").deadline(2 * DAY)).await?;
    stage.subject.age(3 * DAY - HOUR + MINUTE).await?;
    let expired = stage.try_create(child("later", "two")).await?;
    assert_eq!(refused(expired), RefusalCode::Expired);
    Ok(())
}
