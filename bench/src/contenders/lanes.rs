//! The product's design, through the product itself, with its default settings.
//!
//! Its table is the one that the migrations make, with all of its indexes and triggers. Connecting
//! and leasing the lanes are within the measured time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sendoff_core::publisher::HandOver;
use sendoff_core::{Message, PublishError, Publisher};

use crate::contenders::Drained;
use crate::failure::Result;
use crate::ground::Ground;
use crate::product::{self, RunningRelay, Setup};
use crate::target::Target;

/// Its table.
pub(crate) const TABLE: &str = "sendoff.outbox";
/// What is emptied before a fill.
pub(crate) const TABLES: &str = "sendoff.outbox, sendoff.message_key";

/// Runs a relay until `messages` are settled or `until` has come, then stops it.
///
/// # Errors
/// The first thing that the relay reports.
pub(crate) async fn drain(
    ground: &Ground,
    target: &Target,
    messages: u64,
    until: Instant,
) -> Result<Drained> {
    // Short beside a run, long beside a look at some counters.
    const GLANCE: Duration = Duration::from_micros(500);
    let publisher: Arc<dyn Publisher> = match target {
        Target::Nowhere => Arc::new(Nowhere),
        Target::Stream(stream) => Arc::new(product::publisher(&stream.address)?),
    };
    let relay = RunningRelay::start(ground, publisher, Setup::default())?;
    let drained = loop {
        let (settled, end) = (relay.tally().settled, Instant::now());
        if settled >= messages || end >= until {
            break Drained { settled, end };
        }
        tokio::time::sleep(GLANCE).await;
    };
    relay.stop().await?;
    Ok(drained)
}

/// A target that confirms at once, so that the database alone is measured.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Publisher for Nowhere {
    fn address(&self) -> &str {
        "nowhere:"
    }

    async fn publish(&self, _message: &Message) -> std::result::Result<(), PublishError> {
        Ok(())
    }

    fn hand_over(&self, batch: HandOver) -> std::result::Result<(), HandOver> {
        for (ticket, _) in batch.messages {
            batch.answers.answer(ticket, Ok(()));
        }
        Ok(())
    }
}
