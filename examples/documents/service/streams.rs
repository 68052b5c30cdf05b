//! The streams between service and partner, and how the service reads them.

use std::time::Duration;

use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::{Context, stream};

use tokio_util::sync::CancellationToken;

use crate::Error;

/// What the service sends. The relay publishes a topic under this name and a dot.
pub(crate) const WORK: &str = "WORK";
/// What the partner answers.
pub(crate) const ANSWERS: &str = "ANSWERS";

/// How long a message stays with a reader that may have died. Make it longer than the longest
/// transaction; one that takes longer still is only done again for nothing.
const ACK_WAIT: Duration = Duration::from_secs(2);

/// Makes both streams; those that are there stay as they are.
pub(crate) async fn create(jetstream: &Context) -> Result<(), Error> {
    for name in [WORK, ANSWERS] {
        let config = stream::Config {
            name: name.to_owned(),
            subjects: vec![format!("{name}.>")],
            // For so long the stream drops a repetition, as one that a killed relay leaves.
            duplicate_window: Duration::from_secs(600),
            ..stream::Config::default()
        };
        jetstream.get_or_create_stream(config).await?;
    }
    Ok(())
}

/// A reader that goes on where the one before it was killed.
pub(crate) async fn consumer(
    jetstream: &Context,
    stream: &str,
    name: &str,
    subject: String,
) -> Result<PullConsumer, Error> {
    let config = pull::Config {
        durable_name: Some(name.to_owned()),
        filter_subject: subject,
        ack_wait: ACK_WAIT,
        ..pull::Config::default()
    };
    Ok(jetstream.create_consumer_on_stream(config, stream).await?)
}

/// What the end of a reader means: unless a stop was asked for, that there is nothing to read from any
/// more.
pub(crate) fn ended(stop: &CancellationToken, what: &str) -> Result<(), Error> {
    if stop.is_cancelled() {
        return Ok(());
    }
    Err(format!("reading {what}: NATS has removed the consumer").into())
}
