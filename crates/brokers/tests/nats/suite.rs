//! The suite of every publisher on NATS JetStream, against a private server for each case.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_brokers::nats::{NatsOptions, NatsPublisher};
use sendoff_conformance::publisher::{Arrival, Breakable, Facts, Subject};
use sendoff_core::{Publisher, Result};

use crate::server::Server;

struct JetStream(Server);

#[async_trait]
impl Subject for JetStream {
    const FACTS: Facts =
        Facts { deduplicates: true, body_bytes_max: Some(2 << 20), exclusive: false };

    async fn empty() -> Result<Self> {
        // A little more than two mebibytes, for the headers.
        let server = Server::start(&["max_payload: 2200000"]);
        server.create_stream("SUITE", &["SUITE.>"]).await;
        Ok(Self(server))
    }

    async fn publisher(&self) -> Result<Arc<dyn Publisher>> {
        let url = self.0.url("SUITE");
        Ok(Arc::new(NatsPublisher::new(&url, NatsOptions::default())?))
    }

    async fn arrived(&self) -> Result<Vec<Arrival>> {
        Ok(self.0.arrived("SUITE").await)
    }
}

#[async_trait]
impl Breakable for JetStream {
    async fn kill(&mut self) -> Result<()> {
        self.0.nats.kill().unwrap();
        Ok(())
    }

    async fn start(&mut self) -> Result<()> {
        self.0.nats.restart().unwrap();
        Ok(())
    }

    async fn pause(&mut self) -> Result<()> {
        self.0.nats.pause().unwrap();
        Ok(())
    }

    async fn resume(&mut self) -> Result<()> {
        self.0.nats.resume().unwrap();
        Ok(())
    }
}

mod jetstream {
    use super::JetStream;
    sendoff_conformance::publisher_suite!(JetStream);

    mod down {
        use super::JetStream;
        sendoff_conformance::publisher_outage_suite!(JetStream);
    }
}
