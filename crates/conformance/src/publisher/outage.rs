//! Targets that go away, come back, or say nothing.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, PublishError, Publisher, Result};
use tokio::task::JoinHandle;

use super::stage::{
    check_blames_the_target, check_confirmed, confirmed, message, numbered, publish_all, refused,
    settled, soon, with_body, within,
};
use super::subject::Breakable;

/// What a publish may take to fail when there is nobody to publish to.
const FAIL_FAST: Duration = Duration::from_secs(10);

pub async fn a_target_that_was_never_there_is_unreachable<S: Breakable>() -> Result<()> {
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    subject.kill().await?;
    let outcome = within(FAIL_FAST, "a publish to nobody", publisher.publish(&message("1")?)).await;
    let error = refused("nobody is there", outcome);
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    subject.start().await?;
    confirmed(soon("a publish", publisher.publish(&message("2")?)).await);
    let arrived = settled(&subject).await?;
    assert_eq!(arrived.len(), 1, "what failed as unreachable was kept and sent");
    Ok(())
}

pub async fn publishes_fail_fast_while_the_target_is_down<S: Breakable>() -> Result<()> {
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("before")?)).await);
    subject.kill().await?;
    // The end of the connection may be news to the first ones.
    soon("the end was noticed", async {
        loop {
            let error = refused("nobody is there", publisher.publish(&message("lost")?).await);
            check_blames_the_target(&error);
            if error.class() == PublishClass::Unreachable {
                return sendoff_core::Result::Ok(());
            }
        }
    })
    .await?;
    let messages = numbered(500)?;
    let outcomes =
        within(FAIL_FAST, "publishes to nobody", publish_all(&publisher, &messages)).await;
    for outcome in outcomes {
        let error = refused("nobody is there", outcome);
        assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    }
    subject.start().await?;
    confirmed(soon("a publish", publisher.publish(&message("after")?)).await);
    let arrived = settled(&subject).await?;
    let ids: Vec<&str> = arrived.iter().map(|arrival| arrival.message.id()).collect();
    assert_eq!(ids, ["before", "after"], "what failed as unreachable was kept and sent");
    Ok(())
}

pub async fn what_was_confirmed_before_a_kill_is_there_after_it<S: Breakable>() -> Result<()> {
    const ROUNDS: usize = 5;
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let messages = numbered(20_000)?;
    let mut outcomes = Vec::new();
    let mut cut_short = 0;
    for round in messages.chunks(messages.len() / ROUNDS) {
        confirmed(soon("a publish", publisher.publish(&round[0])).await);
        let crowd = begin(&publisher, round);
        // Not a wait for anything: the kill is to land somewhere in the crowd.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..60))).await;
        subject.kill().await?;
        let ended = soon("the publishes", outcomes_of(crowd)).await;
        cut_short += usize::from(ended.iter().any(Result::is_err));
        for error in ended.iter().filter_map(|outcome| outcome.as_ref().err()) {
            check_blames_the_target(error);
        }
        outcomes.extend(ended);
        subject.start().await?;
    }
    check_confirmed(&messages, &outcomes, &subject.arrived().await?);
    assert!(cut_short > 0, "no kill came before the end of its crowd");
    Ok(())
}

pub async fn what_is_in_flight_when_the_target_dies_fails_at_once<S: Breakable>() -> Result<()> {
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("first")?)).await);
    subject.pause().await?;
    let messages = numbered(500)?;
    let crowd = begin(&publisher, &messages);
    // So that they are in flight; one that is not yet fails as unreachable, which is as good.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(crowd.iter().all(|publish| !publish.is_finished()), "a paused target answered");
    subject.kill().await?;
    let outcomes = within(FAIL_FAST, "the publishes to a dead target", outcomes_of(crowd)).await;
    let mut lost = 0;
    for outcome in outcomes {
        let error = refused("nobody can have confirmed it", outcome);
        check_blames_the_target(&error);
        lost += usize::from(error.class() == PublishClass::Lost);
    }
    assert!(lost > 0, "a publish that was sent cannot know that it did not arrive");
    Ok(())
}

pub async fn a_silent_target_is_waited_for_no_longer_than_the_caller_wants<S: Breakable>()
-> Result<()> {
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("1")?)).await);
    subject.pause().await?;
    let second = message("2")?;
    let outcome =
        tokio::time::timeout(Duration::from_millis(300), publisher.publish(&second)).await;
    assert!(!matches!(outcome, Ok(Ok(()))), "a paused target confirmed");
    within(FAIL_FAST, "the reset", publisher.reset()).await;
    // A new connection gets no greeting: that is bounded, too.
    let third = message("3")?;
    let outcome = within(FAIL_FAST, "a publish to a silent target", async {
        tokio::time::timeout(FAIL_FAST / 2, publisher.publish(&third)).await
    })
    .await;
    assert!(!matches!(outcome, Ok(Ok(()))), "a paused target confirmed");
    publisher.reset().await;
    subject.resume().await?;
    confirmed(soon("a publish", publisher.publish(&message("4")?)).await);
    Ok(())
}

pub async fn a_slow_answer_is_waited_for<S: Breakable>() -> Result<()> {
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("first")?)).await);
    subject.pause().await?;
    let messages = numbered(100)?;
    let crowd = begin(&publisher, &messages);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(crowd.iter().all(|publish| !publish.is_finished()), "a paused target answered");
    subject.resume().await?;
    soon("the publishes", outcomes_of(crowd)).await.into_iter().for_each(confirmed);
    assert_eq!(subject.arrived().await?.len(), 101);
    Ok(())
}

pub async fn nothing_buffered_leaves_after_a_reset<S: Breakable>() -> Result<()> {
    /// Far more than the operating system keeps for a connection (some 10 MiB), which nobody can
    /// take back: that much has been handed over already.
    const MESSAGES: usize = 2_000;
    const BODY_BYTES: usize = 32 << 10;
    let mut subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("first")?)).await);
    subject.pause().await?;
    let messages: Vec<Message> = (0..MESSAGES)
        .map(|n| with_body(format!("{n:05}"), vec![b'x'; BODY_BYTES]))
        .collect::<Result<_>>()?;
    let crowd = begin(&publisher, &messages);
    tokio::time::sleep(Duration::from_millis(500)).await;
    for publish in &crowd {
        publish.abort();
    }
    within(FAIL_FAST, "the reset", publisher.reset()).await;
    subject.resume().await?;
    confirmed(soon("a publish", publisher.publish(&message("last")?)).await);
    let arrived = settled(&subject).await?;
    assert!(
        arrived.len() < MESSAGES / 2,
        "{} of {MESSAGES} messages left after the reset",
        arrived.len()
    );
    Ok(())
}

fn begin(
    publisher: &Arc<dyn Publisher>,
    messages: &[Message],
) -> Vec<JoinHandle<Result<(), PublishError>>> {
    messages
        .iter()
        .cloned()
        .map(|message| {
            let publisher = Arc::clone(publisher);
            tokio::spawn(async move { publisher.publish(&message).await })
        })
        .collect()
}

async fn outcomes_of(
    crowd: Vec<JoinHandle<Result<(), PublishError>>>,
) -> Vec<Result<(), PublishError>> {
    let mut outcomes = Vec::with_capacity(crowd.len());
    for publish in crowd {
        outcomes.push(publish.await.unwrap_or_else(|error| panic!("a publish panicked: {error}")));
    }
    outcomes
}
