//! What the tests act with: a database of their own, a relay's lanes, and waits that end.

use std::future::Future;
use std::time::{Duration, Instant};

use sendoff_conformance::servers::fresh_database;
use sendoff_core::Message;
use sendoff_core::store::{
    Ask, Content, LaneLease, LaneLook, LeaseRequest, Look, OutboxDesk, OutboxStore, Outcome,
    RelayId, Row, Verdict,
};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

/// How long anything may take that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A new, empty database on the shared server.
pub(crate) async fn database() -> String {
    tokio::task::spawn_blocking(fresh_database).await.unwrap().unwrap()
}

/// The same database through another port.
pub(crate) fn through(url: &str, port: u16) -> String {
    let (_, path) = url.rsplit_once('/').unwrap();
    let user = url.split_once("://").unwrap().1.split_once('@').unwrap().0;
    format!("postgres://{user}@127.0.0.1:{port}/{path}")
}

/// A connection of a test's own.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn open(url: &str) -> PostgresStore {
    PostgresStore::new(url, PostgresOptions::default()).unwrap()
}

/// A migrated store on a database of its own, with its URL.
pub(crate) async fn migrated() -> (PostgresStore, String) {
    let url = database().await;
    let store = open(&url);
    store.migrate().await.unwrap();
    (store, url)
}

/// A message of the tests.
pub(crate) fn message(id: &str, key: &str) -> Message {
    Message::builder("test", "test.topic").id(id).key(key).body("body").build().unwrap()
}

/// A relay with every lane.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) id: RelayId,
    pub(crate) lanes: Vec<LaneLease>,
}

impl Owner {
    pub(crate) async fn of(store: &PostgresStore) -> Self {
        let id = RelayId::new();
        let request = LeaseRequest {
            relay: id.clone(),
            target: None,
            ttl: Duration::from_secs(600),
            keep: Vec::new(),
            release: Vec::new(),
            ask: Ask::Share,
        };
        let lanes = store.lease(&request).await.unwrap().lanes;
        Self { id, lanes }
    }

    pub(crate) fn look(&self) -> Look {
        Look {
            reading: sendoff_core::store::Reading::Lanes,
            lanes: self.lanes.iter().map(|l| LaneLook { lane: l.lane, after: 0 }).collect(),
            ready: true,
            waiting: true,
            rows_max: 1_000,
            lane_rows_max: 1_000,
            bytes_max: 64 << 20,
            ..Look::default()
        }
    }

    pub(crate) async fn rows(&self, store: &PostgresStore) -> Vec<Row> {
        store.look(&self.look()).await.unwrap().rows
    }

    pub(crate) fn verdict(&self, row: &Row, outcome: Outcome) -> Verdict {
        let lease = self.lanes.iter().find(|lease| lease.lane == row.lane).unwrap();
        Verdict { seq: row.seq, lane: row.lane, epoch: lease.epoch, key: row.key.clone(), outcome }
    }
}

pub(crate) fn content(row: &Row) -> &Message {
    match &row.content {
        Content::Message(message) => message,
        other => panic!("not a message: {other:?}"),
    }
}

pub(crate) fn published() -> Outcome {
    Outcome::Published { releases: false }
}

pub(crate) fn retry(error: &str) -> Outcome {
    Outcome::Retry {
        after: Duration::from_secs(600),
        error: error.to_owned(),
        counts: true,
        holds: true,
    }
}

/// Asks again until there is an answer, for [`PATIENCE`] at most.
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "it did not come: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
