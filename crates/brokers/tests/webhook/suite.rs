//! The suite of every publisher on webhooks, against a server for each case.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_conformance::publisher::{Arrival, Breakable, Facts, Subject};
use sendoff_core::{Publisher, Result};

use crate::receiver::{Receiver, publisher};

struct Webhook(Receiver);

#[async_trait]
impl Subject for Webhook {
    const FACTS: Facts = Facts { deduplicates: false, body_bytes_max: None, exclusive: false };

    async fn empty() -> Result<Self> {
        Ok(Self(Receiver::start()))
    }

    async fn publisher(&self) -> Result<Arc<dyn Publisher>> {
        Ok(Arc::new(publisher(&self.0.url("/hooks?token=hush"))))
    }

    async fn arrived(&self) -> Result<Vec<Arrival>> {
        Ok(self.0.arrivals())
    }
}

#[async_trait]
impl Breakable for Webhook {
    async fn kill(&mut self) -> Result<()> {
        self.0.kill();
        Ok(())
    }

    async fn start(&mut self) -> Result<()> {
        self.0.restart();
        Ok(())
    }

    async fn pause(&mut self) -> Result<()> {
        self.0.pause();
        Ok(())
    }

    async fn resume(&mut self) -> Result<()> {
        self.0.resume();
        Ok(())
    }
}

mod webhook {
    use super::Webhook;
    sendoff_conformance::publisher_suite!(Webhook);

    mod down {
        use super::Webhook;
        sendoff_conformance::publisher_outage_suite!(Webhook);
    }
}
