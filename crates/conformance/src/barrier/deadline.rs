//! Deadlines: they mark, or they close with what is missing.

use sendoff_core::barrier::{
    BarrierState, Errand, ErrandAct, OnDeadline, Outcome, Reason, RefusalCode, Which,
};
use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, Result};

use super::stage::{HOUR, MINUTE, Stage, continuation, id, only, plan, refused};
use super::subject::Subject;

/// At the deadline what is pending is given up, and the continuation comes with that reason.
pub async fn a_deadline_closes_with_what_is_missing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let asked = plan("b", ["a", "b", "c", "d"]).deadline(HOUR).on_deadline(OnDeadline::Continue);
    stage.create(asked).await?;
    stage.ok("b", "c").await?;
    stage.ack("b", "b", Outcome::failed()).await?;
    stage.subject.age(HOUR - MINUTE).await?;
    assert!(stage.deliver().await?.is_empty(), "not before");
    stage.subject.age(2 * MINUTE).await?;
    assert!(stage.status("b").await?.overdue);
    let message = only(stage.deliver().await?);
    let continued = continuation(&message);
    assert_eq!(continued.reason, Some(Reason::Deadline));
    let Some(status) = stage.hydrate(&continued).await? else { panic!("it is closed") };
    assert_eq!((status.state, status.reason), (BarrierState::Deadline, Some(Reason::Deadline)));
    assert!(status.complete && !status.overdue);
    assert_eq!(stage.counts("b").await?, [4, 2, 0, 1, 2]);
    assert_eq!(stage.names("b", Which::Missing).await?, ["a", "d"]);
    let given_up = stage.members("b", Which::Missing).await?;
    assert!(given_up.iter().all(|one| one.at.is_none() && one.outcome.is_none()), "{given_up:?}");
    assert_eq!(stage.names("b", Which::Resolved).await?, ["b", "c"]);
    assert!(stage.names("b", Which::Pending).await?.is_empty());
    assert!(stage.deliver().await?.is_empty(), "one");
    // What comes now is late; what came before is a duplicate.
    assert_eq!(refused(stage.try_ack("b", "a", Outcome::ok()).await?), RefusalCode::Conflict);
    let again = stage.ok("b", "b").await?;
    assert!(again.duplicate && again.conflict && again.complete);
    assert_eq!(stage.counts("b").await?, [4, 2, 0, 1, 2]);
    Ok(())
}

/// A deadline alone marks.
pub async fn a_deadline_alone_marks_the_barrier_overdue<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("b", ["a"]).deadline(HOUR)).await?;
    assert!(!stage.status("b").await?.overdue);
    stage.subject.age(HOUR + MINUTE).await?;
    let status = stage.status("b").await?;
    assert!(status.overdue && !status.complete);
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.ok("b", "a").await?.complete, "it goes on");
    assert!(!stage.status("b").await?.overdue, "what is complete is not overdue");
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::All));
    Ok(())
}

/// A deadline that comes after the end does nothing.
pub async fn a_deadline_after_the_end_does_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let asked = |of| plan(of, ["a"]).deadline(HOUR).on_deadline(OnDeadline::Continue);
    stage.create(asked("done")).await?;
    stage.create(asked("cancelled")).await?;
    stage.ok("done", "a").await?;
    stage.change("cancelled", sendoff_core::barrier::Change::Cancel).await?;
    only(stage.deliver().await?);
    stage.subject.age(2 * HOUR).await?;
    assert!(stage.deliver().await?.is_empty());
    assert_eq!(stage.status("done").await?.reason, Some(Reason::All));
    assert_eq!(stage.status("cancelled").await?.state, BarrierState::Cancelled);
    Ok(())
}

/// A list that was never sealed is closed by its deadline too, and says so.
pub async fn a_deadline_closes_a_list_that_was_never_sealed<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let asked = plan("b", ["a"]).unsealed().deadline(HOUR).on_deadline(OnDeadline::Continue);
    stage.create(asked).await?;
    stage.ok("b", "a").await?;
    assert!(stage.deliver().await?.is_empty());
    stage.subject.age(HOUR + MINUTE).await?;
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::Deadline));
    let status = stage.status("b").await?;
    assert!(status.complete && !status.sealed);
    Ok(())
}

/// An errand is trusted with nothing: one that is early, repeated, or of another barrier changes
/// nothing.
pub async fn an_errand_is_trusted_with_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(plan("b", ["a"]).deadline(HOUR).on_deadline(OnDeadline::Continue)).await?;
    let incarnation = stage.status("b").await?.incarnation;
    let errand = |barrier: &str, incarnation: &str, epoch, act| Errand {
        tenant: String::new(),
        barrier: barrier.to_owned(),
        incarnation: incarnation.to_owned(),
        epoch,
        act,
    };
    let early = errand("b", &incarnation, 1, ErrandAct::Deadline);
    assert!(stage.store.run_errand(&early).await?);
    for act in [ErrandAct::FirstFailure, ErrandAct::Ascend] {
        assert!(stage.store.run_errand(&errand("b", &incarnation, 1, act)).await?);
    }
    stage.subject.age(HOUR + MINUTE).await?;
    for wrong in [
        errand("b", "another", 1, ErrandAct::Deadline),
        errand("b", &incarnation, 2, ErrandAct::Deadline),
        errand("none", &incarnation, 1, ErrandAct::Deadline),
    ] {
        assert!(stage.store.run_errand(&wrong).await?);
    }
    assert_eq!(stage.counts("b").await?, [1, 0, 1, 0, 0]);
    only(stage.deliver().await?);
    assert!(stage.store.run_errand(&early).await?, "it did not matter that it came again");
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// A message to the product's own topic that is no errand can never be one.
pub async fn a_malformed_errand_goes_to_quarantine<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let bodies = ["", "nonsense", "{}", r#"{"barrier":"b"}"#];
    let named = r#"{"barrier":"","incarnation":"i","epoch":1,"act":"deadline"}"#;
    for body in bodies.into_iter().chain([named]) {
        let message = Message::builder("suite", Errand::TOPIC).reserved().body(body).build()?;
        let Err(error) = stage.store.attend(&message).await else { panic!("{body} is none") };
        assert_eq!(error.class(), PublishClass::Permanent, "{body}");
    }
    let message = Message::builder("suite", "$sendoff.other").reserved().build()?;
    let Err(error) = stage.store.attend(&message).await else { panic!("there is none") };
    assert_eq!(error.class(), PublishClass::Permanent);
    assert!(stage.store.barrier_status(&id("b")).await?.is_none());
    Ok(())
}
