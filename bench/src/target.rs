//! Where messages go: a JetStream stream, or nowhere.
//!
//! The peers publish here with async-nats as its documentation says: all of a batch is sent, then
//! all acknowledgements are awaited. The product publishes through its own publisher, to the same
//! stream.

use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::message::PublishMessage;

use crate::contenders::PeerRow;
use crate::failure::{Doing, Result};

/// Where messages go.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// Nowhere: the database alone is measured.
    Nowhere,
    /// A stream.
    Stream(Box<StreamTarget>),
}

/// A stream, with the peers' connection to it.
#[derive(Debug, Clone)]
pub(crate) struct StreamTarget {
    /// The product's address of it.
    pub(crate) address: String,
    context: Context,
    prefix: String,
}

impl StreamTarget {
    /// A stream at `address` that takes subjects under `prefix`, over the peers' own connection.
    ///
    /// # Errors
    /// Those of the broker.
    pub(crate) async fn connect(url: &str, address: String, prefix: &str) -> Result<Self> {
        let client = async_nats::connect(url).await.doing("connecting to NATS")?;
        Ok(Self {
            address,
            context: ContextBuilder::new().build(client),
            prefix: prefix.to_owned(),
        })
    }
}

impl Target {
    /// Publishes rows, all in flight at once, and returns when the last one is confirmed.
    ///
    /// # Errors
    /// The first publish that the stream did not confirm.
    pub(crate) async fn publish_all(&self, rows: Vec<PeerRow>) -> Result<()> {
        const DOING: &str = "publishing to JetStream";
        let Self::Stream(stream) = self else {
            return Ok(());
        };
        let mut acks = Vec::with_capacity(rows.len());
        for row in rows {
            let subject = format!("{}.{}", stream.prefix, row.topic);
            let ack = stream.context.send_publish(subject, as_publish(row));
            acks.push(ack.await.doing(DOING)?);
        }
        for ack in acks {
            ack.await.doing(DOING)?;
        }
        Ok(())
    }
}

/// The same delivery as the product's, header by header, so that NATS has the same work.
fn as_publish(row: PeerRow) -> PublishMessage {
    let mut publish = PublishMessage::build()
        .message_id(format!("{}/{}", row.source, row.id))
        .header("Sendoff-Id", row.id)
        .header("Sendoff-Source", row.source)
        .header("Sendoff-Topic", row.topic);
    if let Some(key) = row.key {
        publish = publish.header("Sendoff-Key", key);
    }
    for (name, value) in row.headers {
        publish = publish.header(name.as_str(), value);
    }
    publish.payload(row.body)
}
