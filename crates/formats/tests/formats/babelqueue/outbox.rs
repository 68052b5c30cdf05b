//! The outbox of the family: what the tests of its SDKs check, by their numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sendoff_formats::babelqueue::Envelope;
use sendoff_formats::babelqueue::outbox::{
    DEFAULT_DRAIN_CEILING, InMemoryOutboxStore, Outbox, OutboxRelay, OutboxStore, OutboxTransport,
    RelayOptions, RelayTally, Sleeper, TransportError,
};
use sendoff_formats::babelqueue::transport::InMemoryTransport;
use sendoff_formats::json::Json;

/// Refuses what it is told to, and notes what it took.
#[derive(Clone, Default)]
struct Broker {
    taken: Arc<Mutex<Vec<(String, Bytes)>>>,
    refusals: Arc<Mutex<VecDeque<bool>>>,
    refuses: Option<Bytes>,
}

impl Broker {
    fn taken(&self) -> Vec<(String, Bytes)> {
        self.taken.lock().unwrap().clone()
    }
}

impl OutboxTransport for Broker {
    async fn publish(&mut self, queue: &str, body: &Bytes) -> Result<(), TransportError> {
        let refused = self.refusals.lock().unwrap().pop_front().unwrap_or(false);
        if refused || self.refuses.as_ref() == Some(body) {
            return Err("broker refused".into());
        }
        self.taken.lock().unwrap().push((queue.to_owned(), body.clone()));
        Ok(())
    }
}

/// Notes how long it was asked to sleep.
#[derive(Clone, Default)]
struct Sleeps(Arc<Mutex<Vec<Duration>>>);

impl Sleeps {
    fn ms(&self) -> Vec<u128> {
        self.0.lock().unwrap().iter().map(Duration::as_millis).collect()
    }
}

impl Sleeper for Sleeps {
    async fn sleep(&mut self, wait: Duration) {
        self.0.lock().unwrap().push(wait);
    }
}

fn envelope(number: i64) -> Envelope {
    let data = Json::parse(format!(r#"{{"n":{number}}}"#).as_bytes()).unwrap();
    Envelope::make("urn:babel:orders:created", data, "orders", None).unwrap()
}

async fn filled(count: i64) -> (InMemoryOutboxStore, Vec<Envelope>) {
    let store = InMemoryOutboxStore::new();
    let mut outbox = Outbox::new(store.clone());
    let envelopes: Vec<_> = (1..=count).map(envelope).collect();
    for envelope in &envelopes {
        outbox.write(envelope).await.unwrap();
    }
    (store, envelopes)
}

fn tally(published: usize, failed: usize) -> RelayTally {
    RelayTally { published, failed }
}

#[tokio::test]
async fn a01_write_stores_the_encoded_bytes_and_captures_the_queue() {
    let mut store = InMemoryOutboxStore::new();
    let one = envelope(1);
    let id = Outbox::new(&mut store).write(&one).await.unwrap();
    let records = store.fetch_unpublished(10).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0].id, &records[0].body[..]), (&id, &one.encode()[..]));
    assert_eq!((records[0].queue.as_str(), records[0].attempts), ("orders", 0));
    assert_eq!(id, "ob-1");
    assert_ne!(id, one.id());
}

#[tokio::test]
async fn a02_the_queue_falls_back_to_default() {
    let mut store = InMemoryOutboxStore::new();
    for queue in ["", "  "] {
        let body = format!(r#"{{"job":"urn:a","meta":{{"queue":"{queue}"}}}}"#);
        let blank = Envelope::decode(body.as_bytes()).unwrap();
        Outbox::new(&mut store).write(&blank).await.unwrap();
    }
    let records = store.fetch_unpublished(10).await.unwrap();
    assert!(records.iter().all(|record| record.queue == "default"), "{records:?}");
}

#[tokio::test]
async fn a03_flush_publishes_and_marks() {
    let (store, _) = filled(1).await;
    let mut relay = OutboxRelay::new(InMemoryTransport::new(), store.clone());
    let done = relay.flush().await.unwrap();
    assert_eq!((done, done.attempted()), (tally(1, 0), 1));
    assert_eq!(store.pending_count(), 0);
}

#[tokio::test]
async fn a04_the_published_bytes_are_the_stored_ones() {
    let (store, envelopes) = filled(1).await;
    let broker = Broker::default();
    OutboxRelay::new(broker.clone(), store).flush().await.unwrap();
    let taken = broker.taken();
    assert_eq!(taken[0].0, "orders");
    assert_eq!(taken[0].1, envelopes[0].encode());
    assert_eq!(Envelope::decode(&taken[0].1).unwrap().trace_id(), envelopes[0].trace_id());
    // Also where they are not what we would have written ourselves.
    let mut store = InMemoryOutboxStore::new();
    let odd = br#" { "urn": "x", "n": 1.00 , "n": 2 } "#;
    store.save(odd, "odd").await.unwrap();
    store.save(b"\xff no json", "odd").await.unwrap();
    OutboxRelay::new(broker.clone(), store).flush().await.unwrap();
    assert_eq!(
        (&broker.taken()[1].1[..], &broker.taken()[2].1[..]),
        (&odd[..], &b"\xff no json"[..])
    );
}

#[tokio::test]
async fn a05_a_failing_row_stays_and_those_behind_it_go_out() {
    let (store, envelopes) = filled(3).await;
    let broker = Broker { refuses: Some(envelopes[0].encode().into()), ..Broker::default() };
    let mut relay = OutboxRelay::new(broker.clone(), store.clone()).with_sleeper(Sleeps::default());
    assert_eq!(relay.flush().await.unwrap(), tally(2, 1));
    assert_eq!((store.attempts_of("ob-1"), store.pending_count()), (1, 1));
    assert!(store.last_error_of("ob-1").contains("broker refused"));
    let taken: Vec<_> = broker.taken().into_iter().map(|(_, body)| body).collect();
    assert_eq!(taken, [envelopes[1].encode(), envelopes[2].encode()]);
}

#[tokio::test]
async fn a06_drain_retries_across_passes() {
    let (store, _) = filled(2).await;
    let broker = Broker::default();
    broker.refusals.lock().unwrap().push_back(true);
    let mut relay = OutboxRelay::new(broker, store.clone()).with_sleeper(Sleeps::default());
    assert_eq!(relay.drain(0).await.unwrap(), tally(2, 1));
    assert_eq!(store.pending_count(), 0);
}

#[tokio::test]
async fn a07_drain_stops_when_only_failing_rows_remain() {
    let (store, envelopes) = filled(1).await;
    let broker = Broker { refuses: Some(envelopes[0].encode().into()), ..Broker::default() };
    let sleeps = Sleeps::default();
    let mut relay = OutboxRelay::new(broker, store).with_sleeper(sleeps.clone());
    assert_eq!(relay.drain(0).await.unwrap(), tally(0, 1));
    assert_eq!(sleeps.ms(), [50]);
}

#[tokio::test]
async fn a08_the_backoff_grows_by_steps_up_to_its_cap() {
    for (step, cap, expected) in
        [(100, 250, vec![100, 200, 250, 250]), (10, 35, vec![10, 20, 30, 35, 35])]
    {
        let (store, envelopes) = filled(1).await;
        let broker = Broker { refuses: Some(envelopes[0].encode().into()), ..Broker::default() };
        let sleeps = Sleeps::default();
        let options = RelayOptions {
            backoff_step: Duration::from_millis(step),
            backoff_cap: Duration::from_millis(cap),
            ..RelayOptions::default()
        };
        let relay = OutboxRelay::with_options(broker, store.clone(), options);
        let mut relay = relay.with_sleeper(sleeps.clone());
        for _ in &expected {
            relay.flush().await.unwrap();
        }
        assert_eq!(store.attempts_of("ob-1") as usize, expected.len());
        assert_eq!(sleeps.ms(), expected);
    }
}

#[tokio::test]
async fn a09_fetch_gives_the_oldest_first_and_keeps_to_its_limit() {
    let (mut store, envelopes) = filled(3).await;
    let records = store.fetch_unpublished(2).await.unwrap();
    let ids: Vec<_> = records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, ["ob-1", "ob-2"]);
    assert_eq!(records[1].body, envelopes[1].encode());
    assert!(store.fetch_unpublished(0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a10_drain_goes_through_all_batches() {
    let (store, envelopes) = filled(5).await;
    let broker = Broker::default();
    let options = RelayOptions { batch: 2, ..RelayOptions::default() };
    let mut relay = OutboxRelay::with_options(broker.clone(), store.clone(), options);
    assert_eq!(relay.drain(0).await.unwrap(), tally(5, 0));
    assert_eq!(store.pending_count(), 0);
    let taken: Vec<_> = broker.taken().into_iter().map(|(_, body)| body).collect();
    assert_eq!(taken, envelopes.iter().map(Envelope::encode).collect::<Vec<_>>());
}

#[tokio::test]
async fn a11_an_empty_outbox_is_zero() {
    let mut relay = OutboxRelay::new(Broker::default(), InMemoryOutboxStore::new());
    assert_eq!(relay.flush().await.unwrap(), tally(0, 0));
    assert_eq!(relay.drain(0).await.unwrap().attempted(), 0);
}

#[tokio::test]
async fn a12_good_rows_record_no_failure_and_a_bad_one_the_brokers_words() {
    let (store, envelopes) = filled(3).await;
    let broker = Broker { refuses: Some(envelopes[1].encode().into()), ..Broker::default() };
    let mut relay = OutboxRelay::new(broker, store.clone()).with_sleeper(Sleeps::default());
    relay.flush().await.unwrap();
    assert_eq!(store.last_error_of("ob-2"), "broker refused");
    for good in ["ob-1", "ob-3"] {
        assert_eq!((store.attempts_of(good), store.last_error_of(good)), (0, String::new()));
    }
}

#[tokio::test]
async fn zero_means_the_default_everywhere() {
    assert_eq!(DEFAULT_DRAIN_CEILING, 10_000);
    let relay = OutboxRelay::new(Broker::default(), InMemoryOutboxStore::new());
    assert_eq!(relay.backoff(0), Duration::from_millis(50));
    assert_eq!(relay.backoff(1), Duration::from_millis(100));
    assert_eq!(relay.backoff(u32::MAX), Duration::from_secs(5));
    let (store, _) = filled(101).await;
    let mut relay = OutboxRelay::new(Broker::default(), store.clone());
    assert_eq!(relay.flush().await.unwrap().published, 100, "a batch");
    // A ceiling that is given is kept.
    let (store, _) = filled(5).await;
    let options = RelayOptions { batch: 1, ..RelayOptions::default() };
    let mut relay = OutboxRelay::with_options(Broker::default(), store.clone(), options);
    assert_eq!(relay.drain(3).await.unwrap().published, 3);
    assert_eq!(store.pending_count(), 2);
}

#[tokio::test]
async fn unknown_ids_and_no_ids_change_nothing() {
    let (mut store, _) = filled(1).await;
    store.mark_published(&[]).await.unwrap();
    store.mark_published(&["ob-9".to_owned()]).await.unwrap();
    store.mark_failed("ob-9", "x").await.unwrap();
    assert_eq!((store.pending_count(), store.attempts_of("ob-9")), (1, 0));
    assert_eq!(store.last_error_of("ob-9"), "");
}

#[derive(Debug)]
struct Down;

impl std::fmt::Display for Down {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the database is down")
    }
}

impl std::error::Error for Down {}

/// A store that cannot note failures.
struct Failing(InMemoryOutboxStore);

impl OutboxStore for Failing {
    type Error = Down;
    async fn save(&mut self, _: &[u8], _: &str) -> Result<String, Down> {
        Err(Down)
    }
    async fn fetch_unpublished(
        &mut self,
        limit: usize,
    ) -> Result<Vec<sendoff_formats::babelqueue::outbox::OutboxRecord>, Down> {
        self.0.fetch_unpublished(limit).await.map_err(|never| match never {})
    }
    async fn mark_published(&mut self, ids: &[String]) -> Result<(), Down> {
        self.0.mark_published(ids).await.map_err(|never| match never {})
    }
    async fn mark_failed(&mut self, _: &str, _: &str) -> Result<(), Down> {
        Err(Down)
    }
}

#[tokio::test]
async fn a_store_that_fails_ends_the_pass_and_what_was_published_is_marked() {
    let (store, envelopes) = filled(3).await;
    let broker = Broker { refuses: Some(envelopes[1].encode().into()), ..Broker::default() };
    let mut relay = OutboxRelay::new(broker.clone(), Failing(store.clone()));
    assert!(relay.flush().await.is_err());
    assert_eq!((broker.taken().len(), store.pending_count()), (1, 2));
    assert!(relay.drain(0).await.is_err());
}

#[tokio::test]
async fn a_crash_between_publish_and_mark_publishes_again() {
    let (mut store, _) = filled(1).await;
    let mut broker = Broker::default();
    let record = store.fetch_unpublished(1).await.unwrap().remove(0);
    broker.publish(&record.queue, &record.body).await.unwrap();
    // The relay that did this is gone; another one begins.
    OutboxRelay::new(broker.clone(), store.clone()).drain(0).await.unwrap();
    let taken = broker.taken();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0], taken[1]);
}
