//! What the cases have in common: messages, crowds of publishes, and bounds.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, PublishError, Publisher, Result};

use super::subject::{Arrival, Subject};

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits, and panics where it takes for ever.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(PATIENCE, what, future).await
}

pub(super) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(bound, future)
        .await
        .unwrap_or_else(|_| panic!("{what} took longer than {bound:?}"))
}

pub(super) fn message(id: impl Into<String>) -> Result<Message> {
    with_body(id, "{}")
}

pub(super) fn with_body(id: impl Into<String>, body: impl Into<Bytes>) -> Result<Message> {
    Message::builder("suite", "orders.placed").id(id).body(body).build()
}

pub(super) fn numbered(count: usize) -> Result<Vec<Message>> {
    (0..count).map(|n| message(format!("{n:05}"))).collect()
}

/// Publishes all at once, each in a task of its own, and waits for every outcome.
pub(super) async fn publish_all(
    publisher: &Arc<dyn Publisher>,
    messages: &[Message],
) -> Vec<Result<(), PublishError>> {
    let tasks = messages.iter().cloned().map(|message| {
        let publisher = Arc::clone(publisher);
        tokio::spawn(async move { publisher.publish(&message).await })
    });
    join_all(tasks)
        .await
        .into_iter()
        .map(|task| task.unwrap_or_else(|error| panic!("a publish panicked: {error}")))
        .collect()
}

pub(super) fn confirmed<T: std::fmt::Debug>(outcome: Result<T, PublishError>) -> T {
    outcome.unwrap_or_else(|error| panic!("not confirmed: {:?}: {error}", error.class()))
}

pub(super) fn refused<T, E>(what: &str, outcome: Result<T, E>) -> E {
    match outcome {
        Ok(_) => panic!("{what}, and yet it was taken"),
        Err(error) => error,
    }
}

/// Checks that everything confirmed is there, byte for byte, and that nothing is there that was
/// not sent.
pub(super) fn check_confirmed(
    messages: &[Message],
    outcomes: &[Result<(), PublishError>],
    arrived: &[Arrival],
) {
    for (message, outcome) in messages.iter().zip(outcomes) {
        if outcome.is_ok() {
            assert!(
                arrived.iter().any(|arrival| arrival.message == *message),
                "{} was confirmed and is not there ({} are)",
                message.id(),
                arrived.len()
            );
        }
    }
    for arrival in arrived {
        assert!(messages.contains(&arrival.message), "{} was never sent", arrival.message.id());
    }
}

/// Checks that an outage failed a publish, and did not blame the message.
pub(super) fn check_blames_the_target(error: &PublishError) {
    assert!(
        matches!(
            error.class(),
            PublishClass::Unreachable | PublishClass::Lost | PublishClass::TimedOut
        ),
        "{:?}: {error}",
        error.class()
    );
    assert!(!error.detail().is_empty());
}

/// Waits until what has arrived stays the same over several looks.
pub(super) async fn settled<S: Subject>(subject: &S) -> Result<Vec<Arrival>> {
    const LOOKS: usize = 4;
    const BETWEEN: Duration = Duration::from_millis(150);
    soon("the target came to rest", async {
        let mut last = subject.arrived().await?;
        let mut same = 0;
        while same < LOOKS {
            tokio::time::sleep(BETWEEN).await;
            let now = subject.arrived().await?;
            same = if now.len() == last.len() { same + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    })
    .await
}
