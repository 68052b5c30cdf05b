//! A database that fails: the relay is not ready, loses nothing and goes on by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::memory::{Act, MemoryStore, On};
use sendoff_core::relay::{Backoff, RelaySettings};
use sendoff_core::store::{
    Backlog, LeaseGrant, LeaseRequest, Look, OutboxDesk, OutboxStore, RelayId, Settled, Sight,
    Verdict,
};
use sendoff_core::{Error, ErrorKind, Message, PublishError, Result};

use crate::scene::{Scene, assert_key_order, message, quick, until};

/// A store whose connection can fail or stand still.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: MemoryStore,
    down: AtomicBool,
    stalled: AtomicBool,
    /// The next settlement that lets a key go is written, and its answer is lost.
    loses_answer: AtomicBool,
}

impl Faulty {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self {
            inner,
            down: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            loses_answer: AtomicBool::new(false),
        }
    }

    pub(crate) fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn stall(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    async fn pass(&self) -> Result<()> {
        while self.stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if self.down.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unreachable, "asking the store"));
        }
        Ok(())
    }
}

#[async_trait]
impl OutboxStore for Faulty {
    fn address(&self) -> &str {
        self.inner.address()
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        self.pass().await?;
        self.inner.lease(request).await
    }

    async fn look(&self, look: &Look) -> Result<Sight> {
        self.pass().await?;
        self.inner.look(look).await
    }

    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
        self.pass().await?;
        let settled = self.inner.settle(relay, verdicts).await?;
        if settled.released > 0 && self.loses_answer.swap(false, Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unreachable, "settling"));
        }
        Ok(settled)
    }

    async fn backlog(&self, count_max: u32) -> Result<Backlog> {
        self.pass().await?;
        self.inner.backlog(count_max).await
    }

    async fn news(&self) -> Result<()> {
        self.pass().await?;
        self.inner.news().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        self.pass().await?;
        self.inner.sweep(rows_max).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_makes_the_relay_unready_until_it_is_back() {
    let scene = Scene::new();
    let store = std::sync::Arc::new(Faulty::new(scene.store.another()));
    let target = std::sync::Arc::new(scene.target.clone());
    let relay = scene.relay_between(store.clone(), target, quick());
    scene.send(&[message(1, Some("k"))]).await;
    scene.delivered(1).await;
    assert!(relay.readiness.is_ready());
    store.down(true);
    until("it is not ready", async || !relay.readiness.is_ready()).await;
    assert!(relay.heard("store"));
    scene.send(&(2..=100).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    // Longer than the lease: it has to take its lanes again.
    tokio::time::sleep(Duration::from_millis(900)).await;
    store.down(false);
    scene.delivered(100).await;
    until("it is ready again", async || relay.readiness.is_ready()).await;
    assert_key_order(&scene.target.deliveries());
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_confirmed_while_the_database_was_away_is_settled_once_it_is_back() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Delay(Duration::from_millis(150)));
    let store = std::sync::Arc::new(Faulty::new(scene.store.another()));
    let target = std::sync::Arc::new(scene.target.clone());
    let settings = RelaySettings { lease: Duration::from_secs(30), ..quick() };
    let relay = scene.relay_between(store.clone(), target, settings);
    scene.send(&(1..=50).map(|n| message(n, None)).collect::<Vec<_>>()).await;
    until("all are in flight", async || relay.progress.tally().in_flight == 50).await;
    store.down(true);
    scene.delivered(50).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(scene.store.stats().await.expect("stats").published, 0);
    store.down(false);
    scene.settled().await;
    assert_eq!(scene.target.tally().repeated, 0, "nothing is published again");
    assert_eq!(scene.store.stats().await.expect("stats").published, 50);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_let_go_by_a_settlement_whose_answer_was_lost_keeps_its_order() {
    let scene = Scene::new();
    scene.target.next(1, On::Id("1".into()), Act::Refuse(PublishError::failed("not yet")));
    let store = std::sync::Arc::new(Faulty::new(scene.store.another()));
    store.loses_answer.store(true, Ordering::SeqCst);
    let target = std::sync::Arc::new(scene.target.clone());
    // Long enough for the floor to move past the message that is held.
    let wait = Duration::from_secs(3);
    let settings = RelaySettings { backoff: Backoff { first: wait, max: wait }, ..quick() };
    let relay = scene.relay_between(store.clone(), target, settings);
    scene.send(&[message(1, Some("k")), message(2, Some("k"))]).await;
    let mut other = 100;
    while store.loses_answer.load(Ordering::SeqCst) {
        scene.send(&[message(other, None)]).await;
        other += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The settlement is written, and the relay does not know.
    scene.send(&[message(3, Some("k"))]).await;
    scene.delivered(3 + other - 100).await;
    assert_key_order(&scene.target.deliveries());
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_bytes_in_memory_stay_within_their_bounds() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Delay(Duration::from_millis(2)));
    let body = vec![7; 100_000];
    let messages: Vec<Message> = (0..400)
        .map(|n| {
            let builder = Message::builder("test", "topic").id(n.to_string()).body(body.clone());
            builder.build().expect("valid")
        })
        .collect();
    scene.send(&messages).await;
    let settings =
        RelaySettings { window_rows: 64, in_flight_max: 16, window_bytes: 1_000_000, ..quick() };
    let relay = scene.relay(settings);
    let mut most = (0, 0);
    while scene.target.deliveries().len() < 400 {
        let tally = relay.progress.tally();
        most = (most.0.max(tally.window_rows), most.1.max(tally.window_bytes));
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    assert!(most.0 <= 64, "{} rows", most.0);
    // The bound, and one row of each of the two looks that may be over it.
    assert!(most.1 <= 1_000_000 + 2 * 100_100, "{} bytes", most.1);
    assert!(scene.target.tally().in_flight_peak <= 16);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_relay_asks_the_store_seldom() {
    let scene = Scene::new();
    let relay = scene.relay(RelaySettings { poll: Duration::from_millis(200), ..quick() });
    until("it runs", async || relay.progress.tally().looks > 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = relay.progress.tally().looks;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let looks = relay.progress.tally().looks - before;
    assert!((5..=20).contains(&looks), "{looks} looks in 2 s with a poll of 200 ms");
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_relay_is_as_safe_as_a_crash() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Delay(Duration::from_millis(1)));
    scene
        .send(&(0..500).map(|n| message(n, Some(&format!("k{}", n % 5)))).collect::<Vec<_>>())
        .await;
    for _ in 0..5 {
        let relay = scene.relay(quick());
        let count = scene.target.deliveries().len();
        until("it delivers", async || scene.target.deliveries().len() > count + 20).await;
        relay.kill().await;
    }
    let relay = scene.relay(quick());
    scene.settled().await;
    assert_key_order(&scene.target.deliveries());
    let mut ids = scene.target.ids();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 500);
    relay.stop().await;
}
