//! Futures that are dropped, connections that are reset, publishers that are closed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use sendoff_core::Result;
use sendoff_core::publisher::PublishClass;

use super::stage::{
    check_blames_the_target, check_confirmed, confirmed, message, numbered, publish_all, refused,
    settled, soon,
};
use super::subject::Subject;

pub async fn a_reset_before_the_first_publish_is_harmless<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    soon("the reset", publisher.reset()).await;
    confirmed(soon("a publish", publisher.publish(&message("1")?)).await);
    assert_eq!(subject.arrived().await?.len(), 1);
    Ok(())
}

pub async fn publishing_goes_on_after_a_reset<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    for id in ["1", "2", "3"] {
        confirmed(soon("a publish", publisher.publish(&message(id)?)).await);
        soon("the reset", publisher.reset()).await;
    }
    assert_eq!(subject.arrived().await?.len(), 3);
    Ok(())
}

pub async fn a_reset_in_the_middle_leaves_no_confirmation_without_a_message<S: Subject>()
-> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let messages = numbered(2_000)?;
    let resets = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            publisher.reset().await;
        }
    };
    let (outcomes, ()) =
        soon("the publishes and resets", join(publish_all(&publisher, &messages), resets)).await;
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        check_blames_the_target(error);
    }
    check_confirmed(&messages, &outcomes, &settled(&subject).await?);
    // And all of it arrives when it is published again.
    let outcomes = soon("the publishes", publish_all(&publisher, &messages)).await;
    outcomes.iter().cloned().for_each(confirmed);
    check_confirmed(&messages, &outcomes, &subject.arrived().await?);
    Ok(())
}

pub async fn publishes_that_are_dropped_disturb_no_other<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let messages = numbered(1_000)?;
    let (kept, dropped): (Vec<_>, Vec<_>) =
        messages.iter().cloned().enumerate().partition(|(n, _)| n % 2 == 0);
    let kept: Vec<_> = kept.into_iter().map(|(_, message)| message).collect();
    let dropping: Vec<_> = dropped
        .into_iter()
        .map(|(_, message)| {
            let publisher = Arc::clone(&publisher);
            tokio::spawn(async move { publisher.publish(&message).await })
        })
        .collect();
    let (outcomes, ()) = soon(
        "the publishes",
        join(publish_all(&publisher, &kept), async {
            for task in &dropping {
                tokio::task::yield_now().await;
                task.abort();
            }
        }),
    )
    .await;
    outcomes.iter().cloned().for_each(confirmed);
    let arrived = settled(&subject).await?;
    check_confirmed(
        &kept,
        &outcomes,
        &arrived.iter().filter(|a| kept.contains(&a.message)).cloned().collect::<Vec<_>>(),
    );
    assert!(arrived.iter().all(|arrival| messages.contains(&arrival.message)));
    Ok(())
}

pub async fn nothing_is_published_after_the_close<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("1")?)).await);
    soon("the close", publisher.close()).await;
    let late = message("2")?;
    let error = refused("closed", soon("a publish", publisher.publish(&late)).await);
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    soon("the reset", publisher.reset()).await;
    assert!(soon("a publish", publisher.publish(&late)).await.is_err(), "a reset opened it again");
    soon("the second close", publisher.close()).await;
    assert_eq!(settled(&subject).await?.len(), 1);
    Ok(())
}

pub async fn a_close_leaves_no_confirmation_without_a_message<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let messages = numbered(1_000)?;
    let closing = async {
        tokio::task::yield_now().await;
        publisher.close().await;
    };
    let (outcomes, ()) =
        soon("the publishes and the close", join(publish_all(&publisher, &messages), closing))
            .await;
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        check_blames_the_target(error);
    }
    check_confirmed(&messages, &outcomes, &settled(&subject).await?);
    Ok(())
}

pub async fn another_publisher_goes_on_where_one_was_closed_or_dropped<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let first = subject.publisher().await?;
    confirmed(soon("a publish", first.publish(&message("1")?)).await);
    soon("the close", first.close()).await;
    let second = subject.publisher().await?;
    confirmed(soon("a publish", second.publish(&message("2")?)).await);
    drop(second);
    let third = subject.publisher().await?;
    confirmed(soon("a publish", third.publish(&message("3")?)).await);
    let arrived = subject.arrived().await?;
    let ids: Vec<&str> = arrived.iter().map(|arrival| arrival.message.id()).collect();
    assert_eq!(ids, ["1", "2", "3"]);
    Ok(())
}
