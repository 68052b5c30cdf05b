//! Events of a command, in the command's transaction.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::memory::{Memory, MemoryPublisher, MemoryStore, MemoryTransaction};
use sendoff_core::store::OutboxDesk;
use sendoff_core::time::Clock;
use sendoff_core::{ErrorKind, Relay};
use sendoff_formats::event::{
    Event, EventKind, EventQueue, OutboxSink, Raised, RecordError, Recorder, Sink, SinkError,
    binary,
};

async fn store() -> MemoryStore {
    let store = MemoryStore::new();
    store.migrate().await.unwrap();
    store
}

/// What a relay delivers of a store, as events.
async fn delivered(store: &MemoryStore) -> Vec<Event> {
    let publisher = Arc::new(MemoryPublisher::new());
    let store = Arc::new(store.clone());
    let relay = Relay::builder(store.clone(), publisher.clone()).build().unwrap();
    relay.run_once(store, std::future::pending()).await.unwrap();
    let deliveries = publisher.deliveries();
    let event = |message: &sendoff_core::Message| {
        binary::decode_message(message.headers(), message.body().clone()).unwrap()
    };
    deliveries.iter().map(|delivery| event(&delivery.message)).collect()
}

fn kind(name: &str) -> EventKind<u64> {
    EventKind::define(name).unwrap()
}

#[tokio::test]
async fn a_command_that_commits_has_its_events_in_their_order() {
    let store = store().await;
    let clock = Clock::manual();
    clock.advance(Duration::from_nanos(1_234_567_000));
    let recorder = Recorder::new(OutboxSink::new(), "/shop").unwrap().with_clock(clock.clone());
    let (placed, paid) = (kind("orders.placed"), kind("orders.paid"));
    let answer = recorder
        .emit(store.begin(), async |_, events| {
            placed.raise(events, Some("customer-7"), &1);
            paid.raise(events, Some("customer-7"), &2);
            Ok::<_, Infallible>("done")
        })
        .await;
    assert_eq!(answer.unwrap(), "done");
    let events = delivered(&store).await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["orders.placed", "orders.paid"]);
    for event in &events {
        assert_eq!(uuid::Uuid::parse_str(&event.id).unwrap().get_version_num(), 7);
        assert_eq!((event.source.as_str(), event.time), ("/shop", Some(clock.now())));
        assert_eq!(event.data_content_type.as_deref(), Some("application/json"));
        assert_eq!(event.subject.as_deref(), Some("customer-7"));
    }
    assert_ne!(events[0].id, events[1].id);
    assert_eq!((&events[0].data[..], &events[1].data[..]), (&b"1"[..], &b"2"[..]));
}

#[tokio::test]
async fn a_command_that_fails_has_none_and_gives_its_own_error() {
    let store = store().await;
    let recorder = Recorder::new(OutboxSink::new(), "/shop").unwrap();
    let placed = kind("orders.placed");
    let answer: Result<(), _> = recorder
        .emit(store.begin(), async |_, events| {
            placed.raise(events, None, &1);
            Err("no stock")
        })
        .await;
    assert!(matches!(answer, Err(RecordError::Command("no stock"))));
    assert_eq!(delivered(&store).await, []);
}

#[tokio::test]
async fn an_event_is_not_there_before_its_command_commits() {
    let store = store().await;
    let recorder = Recorder::new(OutboxSink::new(), "/shop").unwrap();
    let placed = kind("orders.placed");
    let mut transaction = store.begin();
    recorder
        .record(&mut transaction, async |_, events| {
            placed.raise(events, None, &1);
            Ok::<_, Infallible>(())
        })
        .await
        .unwrap();
    assert_eq!(delivered(&store).await.len(), 0);
    transaction.commit().await.unwrap();
    assert_eq!(delivered(&store).await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_encoded_or_is_invalid_fails_the_command_and_all_of_its_events() {
    let store = store().await;
    let recorder = Recorder::new(OutboxSink::new(), "/shop").unwrap();
    let (placed, ratio) =
        (kind("orders.placed"), EventKind::<f64>::define("orders.ratio").unwrap());
    let answer = recorder
        .emit(store.begin(), async |_, events| {
            placed.raise(events, None, &1);
            ratio.raise(events, None, &f64::NAN);
            Ok::<_, Infallible>(())
        })
        .await;
    assert!(matches!(&answer, Err(RecordError::Raise { kind, .. }) if kind == "orders.ratio"));
    let answer = recorder
        .emit(store.begin(), async |_, events| {
            placed.raise(events, None, &1);
            events.push(Raised { kind: "not a type".to_owned(), ..Raised::default() });
            Ok::<_, Infallible>(())
        })
        .await;
    assert!(matches!(answer, Err(RecordError::Sink(SinkError::Event(_)))));
    let long = "x".repeat(300);
    let answer = recorder
        .emit(store.begin(), async |_, events| {
            events.push(Raised { kind: long, ..Raised::default() });
            Ok::<_, Infallible>(())
        })
        .await;
    assert!(matches!(answer, Err(RecordError::Sink(SinkError::Message(_)))));
    assert_eq!(delivered(&store).await, []);
}

#[tokio::test]
async fn the_same_id_again_fails_its_command_with_all_of_its_events() {
    let store = store().await;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    fn ids() -> String {
        // The third is the first again.
        format!("id-{}", NEXT.fetch_add(1, Ordering::SeqCst) % 2)
    }
    let recorder = Recorder::new(OutboxSink::new(), "/shop").unwrap().with_ids(ids);
    let (placed, paid) = (kind("orders.placed"), kind("orders.paid"));
    let emit = async |count: usize| {
        recorder
            .emit(store.begin(), async |_, events| {
                paid.raise(events, None, &0);
                for _ in 1..count {
                    placed.raise(events, None, &0);
                }
                Ok::<_, Infallible>(())
            })
            .await
    };
    emit(1).await.unwrap();
    let error = emit(2).await.unwrap_err();
    let RecordError::Sink(SinkError::Store(error)) = error else { panic!("{error}") };
    assert_eq!(error.kind(), ErrorKind::Duplicate);
    assert_eq!(delivered(&store).await.len(), 1);
}

/// Counts how often it was called.
struct Counting(Arc<AtomicUsize>);

impl Sink<Memory, MemoryTransaction> for Counting {
    async fn write(
        &self,
        _: &mut MemoryTransaction,
        _: &[Event],
    ) -> Result<(), SinkError<sendoff_core::Error>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn a_command_that_raises_nothing_does_not_touch_the_sink() {
    let store = store().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let recorder = Recorder::new(Counting(Arc::clone(&calls)), "/shop").unwrap();
    let nothing = async |_: &mut MemoryTransaction, _: &mut EventQueue| Ok::<_, Infallible>(());
    recorder.emit(store.begin(), nothing).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    // A command can be spawned.
    let placed = kind("orders.placed");
    tokio::spawn(async move {
        let body = async |_: &mut MemoryTransaction, events: &mut EventQueue| {
            placed.raise(events, None, &1);
            placed.raise(events, None, &2);
            Ok::<_, Infallible>(())
        };
        recorder.emit(store.begin(), body).await.unwrap();
    })
    .await
    .unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn a_recorder_needs_a_source() {
    assert_eq!(Recorder::new(OutboxSink::new(), "").unwrap_err().kind(), ErrorKind::Invalid);
}
