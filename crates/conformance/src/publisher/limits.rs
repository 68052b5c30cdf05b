//! What a target can never take is told before it is sent.

use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, Result};

use super::stage::{confirmed, message, publish_all, refused, soon, with_body};
use super::subject::Subject;

/// A body over the target's limit, where it has one.
fn oversize<S: Subject>() -> Result<Option<Message>> {
    S::FACTS.body_bytes_max.map(|max| with_body("oversize", vec![b'x'; max + max / 2])).transpose()
}

pub async fn the_largest_body_passes_the_check_and_arrives<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    // Limits may be learned at the first publish.
    confirmed(soon("a publish", publisher.publish(&message("first")?)).await);
    let largest = with_body("largest", vec![b'x'; S::FACTS.body_bytes_max.unwrap_or(4 << 20)])?;
    assert!(publisher.limits().body_bytes_max >= largest.body().len());
    assert_eq!(publisher.check(&largest), Ok(()));
    confirmed(soon("a publish", publisher.publish(&largest)).await);
    assert_eq!(subject.arrived().await?.len(), 2);
    Ok(())
}

pub async fn an_oversize_message_is_told_before_the_publish<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    confirmed(soon("a publish", publisher.publish(&message("first")?)).await);
    if let Some(oversize) = oversize::<S>()? {
        assert!(publisher.limits().body_bytes_max < oversize.body().len());
        let error = refused("oversize", publisher.check(&oversize));
        assert_eq!(error.class(), PublishClass::Permanent, "{error}");
        assert!(!error.detail().contains("xxxx"), "the body is quoted: {error}");
    } else {
        assert_eq!(publisher.limits().body_bytes_max, usize::MAX);
    }
    assert_eq!(subject.arrived().await?.len(), 1);
    Ok(())
}

pub async fn an_oversize_message_is_refused_for_good_and_alone<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let publisher = subject.publisher().await?;
    let mut messages = vec![message("1")?, message("2")?];
    let with_oversize = oversize::<S>()?;
    messages.extend(with_oversize.clone());
    messages.extend([message("3")?, message("4")?]);
    // The first publishes of all: nothing is known of the target's limits yet.
    let outcomes = soon("the publishes", publish_all(&publisher, &messages)).await;
    for (message, outcome) in messages.iter().zip(outcomes) {
        if Some(message) == with_oversize.as_ref() {
            let error = refused("oversize", outcome);
            assert_eq!(error.class(), PublishClass::Permanent, "{error}");
        } else {
            confirmed(outcome);
        }
    }
    let arrived = subject.arrived().await?;
    assert_eq!(arrived.len(), 4);
    assert!(arrived.iter().all(|arrival| arrival.message.id() != "oversize"));
    Ok(())
}
