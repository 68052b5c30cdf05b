//! Many messages at once: each is answered as one that was published alone, and none leaves that
//! may not leave any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_brokers::nats::{NatsOptions, NatsPublisher};
use sendoff_core::publisher::{Answers, HandOver, PublishClass};
use sendoff_core::{Message, PublishError, Publisher};

use crate::server::Server;

/// What became of each ticket; `None` for what was not sent.
type Became = BTreeMap<u64, Option<Result<(), PublishError>>>;

#[derive(Debug)]
struct Ledger {
    may_leave: AtomicBool,
    became: Mutex<Became>,
}

impl Ledger {
    fn open() -> Arc<Self> {
        Arc::new(Self { may_leave: AtomicBool::new(true), became: Mutex::default() })
    }

    fn note(&self, ticket: u64, result: Option<Result<(), PublishError>>) {
        let before = self.became.lock().unwrap().insert(ticket, result);
        assert!(before.is_none(), "ticket {ticket} was answered twice");
    }

    /// Waits until so many are answered.
    async fn answered(&self, count: usize) -> Became {
        let all = async {
            while self.became.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all).await.unwrap();
        self.became.lock().unwrap().clone()
    }
}

impl Answers for Ledger {
    fn may_leave(&self) -> bool {
        self.may_leave.load(Ordering::SeqCst)
    }

    fn answer(&self, ticket: u64, result: Result<(), PublishError>) {
        self.note(ticket, Some(result));
    }

    fn not_sent(&self, ticket: u64) {
        self.note(ticket, None);
    }
}

fn message(topic: &str, id: u64, body_bytes: usize) -> Message {
    let body = vec![b'x'; body_bytes];
    Message::builder("shop", topic).id(id.to_string()).body(body).build().unwrap()
}

fn batch(tickets: std::ops::Range<u64>, body_bytes: usize, answers: &Arc<Ledger>) -> HandOver {
    let messages =
        tickets.map(|ticket| (ticket, Arc::new(message("placed", ticket, body_bytes)))).collect();
    HandOver { messages, answers: Arc::<Ledger>::clone(answers) }
}

/// A publisher that is connected: until then nothing is taken.
async fn connected(url: &str) -> NatsPublisher {
    let publisher = NatsPublisher::new(url, NatsOptions::default()).unwrap();
    let refused = publisher.hand_over(batch(1..2, 1, &Ledger::open()));
    assert_eq!(refused.unwrap_err().messages.len(), 1, "there is no connection yet");
    publisher.publish(&message("placed", 0, 1)).await.unwrap();
    publisher
}

#[tokio::test]
async fn thousands_at_once_arrive_in_order_and_each_is_answered() {
    let server = Server::start(&[]);
    server.create_stream("SUITE", &["SUITE.>"]).await;
    let publisher = connected(&server.url("SUITE")).await;
    let ledger = Ledger::open();
    for n in 0..5 {
        publisher.hand_over(batch(1 + n * 1_000..1 + (n + 1) * 1_000, 300, &ledger)).unwrap();
    }
    let became = ledger.answered(5_000).await;
    assert!(became.values().all(|result| *result == Some(Ok(()))));
    let ids: Vec<_> = server.arrived("SUITE").await.into_iter().map(|a| a.dedup_id).collect();
    let expected: Vec<String> = (0..=5_000).map(|id| format!("shop/{id}")).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn what_fails_is_told_under_its_own_ticket() {
    let server = Server::start(&["max_payload: 100000"]);
    server.create_stream("SUITE", &["SUITE.placed"]).await;
    let publisher = connected(&server.url("SUITE")).await;
    let ledger = Ledger::open();
    let messages = vec![
        (1, Arc::new(message("placed", 1, 1))),
        (2, Arc::new(message("shipped", 2, 1))),
        (3, Arc::new(message("placed", 3, 200_000))),
        (4, Arc::new(message("shipped", 4, 1))),
        (5, Arc::new(message("placed", 5, 1))),
    ];
    publisher.hand_over(HandOver { messages, answers: Arc::<Ledger>::clone(&ledger) }).unwrap();
    let became = ledger.answered(5).await;
    let class = |ticket: u64| match &became[&ticket] {
        Some(Err(error)) => Some(error.class()),
        _ => None,
    };
    assert_eq!((&became[&1], &became[&5]), (&Some(Ok(())), &Some(Ok(()))));
    assert_eq!((class(2), class(4)), (Some(PublishClass::Failed), Some(PublishClass::Failed)));
    assert_eq!(class(3), Some(PublishClass::Permanent));
}

#[tokio::test]
async fn what_may_not_leave_is_not_sent() {
    let server = Server::start(&[]);
    server.create_stream("SUITE", &["SUITE.>"]).await;
    let publisher = connected(&server.url("SUITE")).await;
    let late = Ledger::open();
    late.may_leave.store(false, Ordering::SeqCst);
    publisher.hand_over(batch(1..11, 1, &late)).unwrap();
    assert!(late.answered(10).await.values().all(Option::is_none));
    let ledger = Ledger::open();
    publisher.hand_over(batch(11..12, 1, &ledger)).unwrap();
    assert_eq!(ledger.answered(1).await[&11], Some(Ok(())), "the connection is as good as before");
    assert_eq!(server.arrived("SUITE").await.len(), 2);
}

#[tokio::test]
async fn a_reset_tells_everybody_and_nothing_leaves_later() {
    let server = Server::start(&[]);
    server.create_stream("SUITE", &["SUITE.>"]).await;
    let publisher = connected(&server.url("SUITE")).await;
    server.nats.pause().unwrap();
    let ledger = Ledger::open();
    publisher.hand_over(batch(1..401, 100_000, &ledger)).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    publisher.reset().await;
    let became = ledger.answered(400).await;
    for result in became.values() {
        let error = result.clone().unwrap().unwrap_err();
        assert!(matches!(error.class(), PublishClass::Lost | PublishClass::Unreachable), "{error}");
    }
    let refused = publisher.hand_over(batch(401..402, 1, &ledger));
    assert!(refused.is_err(), "there is no connection");
    server.nats.resume().unwrap();
    publisher.publish(&message("placed", 1, 100_000)).await.unwrap();
    let arrived = server.arrived("SUITE").await.len();
    assert!(arrived < 300, "{arrived} of 40 MB left a socket that nobody read");
}
