//! A partner, simulated: a process of its own that reads documents from NATS and answers each, by the
//! document's number, over NATS or HTTP, twice, wrongly, or not at all, as partners do.
//!
//! `DATABASE_URL` names the database with its book, `NATS_URL` the NATS. It runs until SIGTERM. Killed,
//! it is given again what it has not acknowledged, and answers that again.

mod answer;
mod manners;

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, AckKind};
use futures_util::StreamExt;
use sqlx::PgPool;
use tokio::signal::unix::{SignalKind, signal};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// So many documents are read at once.
const AT_ONCE: usize = 8;
/// How soon it tries again where it could not answer.
const AGAIN: Duration = Duration::from_millis(300);

/// What it answers with.
struct Partner {
    jetstream: jetstream::Context,
    /// What it has done with each document, whether or not its answer arrives.
    book: PgPool,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let nats = async_nats::connect(std::env::var("NATS_URL")?).await?;
    let partner = Partner {
        jetstream: jetstream::new(nats),
        book: PgPool::connect(&std::env::var("DATABASE_URL")?).await?,
    };
    let config = pull::Config {
        durable_name: Some("partner".to_owned()),
        filter_subject: "WORK.documents.sent".to_owned(),
        ack_wait: Duration::from_secs(2),
        ..pull::Config::default()
    };
    let consumer = partner.jetstream.create_consumer_on_stream(config, "WORK").await?;
    let documents = consumer.stream().max_messages_per_batch(2 * AT_ONCE).messages().await?;
    let mut terminate = signal(SignalKind::terminate())?;
    documents
        .take_until(terminate.recv())
        .for_each_concurrent(AT_ONCE, |delivered| async {
            let done = match delivered {
                Ok(document) => partner.deal_with(&document).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = done {
                eprintln!("partner: {error}");
            }
        })
        .await;
    // What was acknowledged last is still on its way.
    partner.jetstream.client().flush().await?;
    Ok(())
}

impl Partner {
    /// Answers a document, or is given it again.
    async fn deal_with(&self, document: &jetstream::Message) -> Result<(), Error> {
        match self.answer(&document.payload).await {
            Ok(()) => document.ack().await,
            Err(error) => {
                document.ack_with(AckKind::Nak(Some(AGAIN))).await?;
                Err(error)
            }
        }
    }
}
