//! Batches: each acknowledgement for itself, unless it is all or nothing.

use sendoff_core::Result;
use sendoff_core::barrier::{
    AckBatch, MemberAnswer, OUTCOME_BYTES_MAX, Outcome, RefusalCode, Which,
};

use super::stage::{Stage, ack, batch, id, only, plan, refused};
use super::subject::Subject;

fn words(answers: &[MemberAnswer]) -> Vec<&'static str> {
    answers
        .iter()
        .map(|answer| match answer {
            MemberAnswer::Resolved => "resolved",
            MemberAnswer::Duplicate { conflict: false, .. } => "duplicate",
            MemberAnswer::Duplicate { conflict: true, .. } => "conflict",
            MemberAnswer::Refused(refusal) => refusal.code().as_str(),
        })
        .collect()
}

/// What is refused is refused for itself, and the others count.
pub async fn a_batch_answers_for_each_member<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c", "d"]).await?;
    stage.ok("b", "d").await?;
    let large = Outcome::ok().with_error("x".repeat(OUTCOME_BYTES_MAX));
    let acks = vec![
        ack("c", Outcome::failed()),
        ack("nobody", Outcome::ok()),
        ack("a", Outcome::ok()),
        ack("b", large),
        ack("d", Outcome::ok()),
        ack("D", Outcome::ok()),
    ];
    let acked = stage.ack_all(&AckBatch::new(id("b"), acks)).await?;
    let expected =
        ["resolved", "unknown_member", "resolved", "too_large", "duplicate", "unknown_member"];
    assert_eq!(words(&acked.answers), expected);
    assert_eq!((acked.resolved(), acked.duplicates(), acked.refused()), (2, 1, 3));
    let MemberAnswer::Refused(refusal) = &acked.answers[5] else { panic!("refused") };
    assert_eq!(refusal.near().len(), 1);
    assert!(!acked.complete);
    assert_eq!(stage.counts("b").await?, [4, 3, 1, 1, 0]);
    assert!(stage.ack_all(&batch("b", ["b"])).await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// The first of a name counts, within a batch too.
pub async fn a_member_twice_in_a_batch_is_a_duplicate_of_the_first<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    let acks = vec![
        ack("a", Outcome::failed().with_error("first")),
        ack("b", Outcome::ok()),
        ack("a", Outcome::ok()),
        ack("a", Outcome::failed().with_error("first")),
    ];
    let acked = stage.ack_all(&AckBatch::new(id("b"), acks).by("lines")).await?;
    assert_eq!(words(&acked.answers), ["resolved", "resolved", "conflict", "duplicate"]);
    let MemberAnswer::Duplicate { winner, .. } = &acked.answers[2] else { panic!("a duplicate") };
    assert_eq!((winner.error.as_deref(), winner.channel.as_str()), (Some("first"), "lines"));
    assert!(acked.complete);
    assert_eq!(stage.counts("b").await?, [2, 2, 0, 1, 0]);
    only(stage.deliver().await?);
    Ok(())
}

/// One refusal refuses them all, and nothing is changed.
pub async fn all_or_nothing_is_all_or_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    let unknown = batch("b", ["a", "nobody", "b", "c"]).all_or_nothing();
    let answer = stage.store.ack_members(&unknown).await?;
    assert_eq!(refused(answer), RefusalCode::UnknownMember);
    let large = Outcome::ok().with_error("x".repeat(OUTCOME_BYTES_MAX));
    let large = AckBatch::new(id("b"), vec![ack("a", Outcome::ok()), ack("b", large)]);
    let answer = stage.store.ack_members(&large.all_or_nothing()).await?;
    assert_eq!(refused(answer), RefusalCode::TooLarge);
    assert_eq!(stage.counts("b").await?, [3, 0, 3, 0, 0]);
    stage.ok("b", "a").await?;
    let acked = stage.ack_all(&batch("b", ["a", "b", "c", "b"]).all_or_nothing()).await?;
    assert_eq!(words(&acked.answers), ["duplicate", "resolved", "resolved", "duplicate"]);
    assert!(acked.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// A batch of nothing says how the barrier stands.
pub async fn an_empty_batch_changes_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    let acked = stage.ack_all(&batch("b", [""; 0])).await?;
    assert!(acked.answers.is_empty() && !acked.complete);
    stage.ok("b", "a").await?;
    assert!(stage.ack_all(&batch("b", [""; 0])).await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// An acknowledgement that names an epoch counts at that epoch only.
pub async fn a_batch_for_another_epoch_is_refused<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    let answer = stage.store.ack_members(&batch("b", ["a"]).at_epoch(2)).await?;
    assert_eq!(refused(answer), RefusalCode::Conflict);
    assert!(stage.ack_all(&batch("b", ["a"]).at_epoch(1)).await?.complete);
    Ok(())
}

/// Thousands of members in one batch, in another order than their names, with large outcomes.
pub async fn a_batch_of_thousands_is_applied_whole<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let names: Vec<String> = (0..5_000).map(|n| format!("m{}", (n * 7_919) % 5_000)).collect();
    stage.create(plan("b", &names)).await?;
    let acks = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let outcome = if n % 10 == 0 { Outcome::failed() } else { Outcome::ok() };
            ack(name, outcome.with_error("x".repeat(n % 500)))
        })
        .collect();
    let acked = stage.ack_all(&AckBatch::new(id("b"), acks)).await?;
    assert_eq!((acked.resolved(), acked.complete), (5_000, true));
    assert_eq!(stage.counts("b").await?, [5_000, 5_000, 0, 500, 0]);
    assert_eq!(stage.names("b", Which::Failed).await?.len(), 500);
    only(stage.deliver().await?);
    Ok(())
}
