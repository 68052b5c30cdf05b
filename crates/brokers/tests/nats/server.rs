//! A private server, its streams, and what is in them, for the tests of the NATS publisher. Reads
//! with plain consumers on connections of its own.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt;
use sendoff_brokers::nats::{read_delivery, subject_of};
use sendoff_conformance::publisher::Arrival;
use sendoff_conformance::servers::{Nats, NatsConfig};

pub(crate) struct Server {
    pub(crate) nats: Nats,
}

impl Server {
    /// A server with further lines in its configuration.
    pub(crate) fn start(lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Self { nats: Nats::start_with(NatsConfig { lines }).unwrap() }
    }

    pub(crate) fn url(&self, stream: &str) -> String {
        format!("{}/{stream}", self.nats.url())
    }

    pub(crate) fn url_as(&self, user: &str, password: &str, stream: &str) -> String {
        format!("nats://{user}:{password}@127.0.0.1:{}/{stream}", self.nats.port())
    }

    pub(crate) async fn client_as(&self, user: &str, password: &str) -> async_nats::Client {
        async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
            .connect(self.nats.url())
            .await
            .unwrap()
    }

    pub(crate) async fn client(&self) -> async_nats::Client {
        async_nats::connect(self.nats.url()).await.unwrap()
    }

    pub(crate) async fn context(&self) -> Context {
        jetstream::new(self.client().await)
    }

    pub(crate) async fn create_stream(&self, name: &str, subjects: &[&str]) {
        self.create_stream_with(config(name, subjects)).await;
    }

    pub(crate) async fn create_stream_with(&self, config: Config) {
        self.context().await.create_stream(config).await.unwrap();
    }

    /// Every message of a stream, in its order, with the id by which the server tells repetitions.
    pub(crate) async fn arrived(&self, stream: &str) -> Vec<Arrival> {
        let stream = self.context().await.get_stream(stream).await.unwrap();
        // More may come while this reads: those are for the next look.
        let mut left = stream.cached_info().state.messages;
        let mut arrived = Vec::new();
        let consumer = stream
            .create_consumer(pull::Config {
                deliver_policy: DeliverPolicy::All,
                ack_policy: AckPolicy::None,
                inactive_threshold: Duration::from_secs(30),
                ..pull::Config::default()
            })
            .await
            .unwrap();
        while left > 0 {
            let mut batch = consumer.fetch().max_messages(500).messages().await.unwrap();
            while let Some(delivery) = batch.next().await {
                arrived.push(arrival(&delivery.unwrap()));
                left = left.saturating_sub(1);
            }
        }
        arrived
    }
}

pub(crate) fn config(name: &str, subjects: &[&str]) -> Config {
    Config {
        name: name.to_owned(),
        subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        storage: StorageType::File,
        ..Config::default()
    }
}

fn arrival(delivery: &async_nats::Message) -> Arrival {
    let message = read_delivery(delivery).unwrap();
    assert_eq!(delivery.subject.as_str(), subject_of("SUITE", message.topic()));
    let headers = delivery.headers.as_ref().unwrap();
    let dedup_id = headers.get("Nats-Msg-Id").unwrap().as_str().to_owned();
    Arrival { dedup_id, message }
}
