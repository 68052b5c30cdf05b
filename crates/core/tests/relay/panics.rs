//! Code that users write panics: the relay goes on and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::publisher::PublisherLimits;
use sendoff_core::relay::RelaySettings;
use sendoff_core::store::{OutboxDesk, Place};
use sendoff_core::{Message, PublishError, Publisher, Relay};

use crate::scene::{Scene, assert_key_order, message, quick, until};

/// A publisher of a user's own with faults in it: each of these calls panics so often.
#[derive(Debug)]
struct Faulty {
    inner: MemoryPublisher,
    limits: AtomicU32,
    /// Of the message `1`.
    check: AtomicU32,
    reset: AtomicU32,
}

impl Faulty {
    fn new(inner: &MemoryPublisher, limits: u32, check: u32, reset: u32) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            limits: AtomicU32::new(limits),
            check: AtomicU32::new(check),
            reset: AtomicU32::new(reset),
        })
    }
}

fn panic_while_any(left: &AtomicU32) {
    let more = |left: u32| left.checked_sub(1);
    if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok() {
        panic!("on purpose");
    }
}

#[async_trait]
impl Publisher for Faulty {
    fn address(&self) -> &str {
        "faulty:"
    }

    fn limits(&self) -> PublisherLimits {
        panic_while_any(&self.limits);
        self.inner.limits()
    }

    fn check(&self, message: &Message) -> Result<(), PublishError> {
        if message.id() == "1" {
            panic_while_any(&self.check);
        }
        self.inner.check(message)
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        self.inner.publish(message).await
    }

    async fn reset(&self) {
        panic_while_any(&self.reset);
        self.inner.reset().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_panics_is_a_failed_attempt_of_its_message_alone() {
    let scene = Scene::new();
    let target = Faulty::new(&scene.target, 0, 3, 0);
    let relay = scene.relay_between(Arc::new(scene.store.another()), target, quick());
    scene.send(&[message(1, Some("k")), message(2, Some("k")), message(3, None)]).await;
    scene.delivered(3).await;
    scene.settled().await;
    let ids = scene.target.ids();
    assert_eq!(ids, ["3", "1", "2"], "its key waits for it, the others do not");
    assert!(relay.heard("failed 1"));
    // A look that finds the message again asks again, and changes nothing.
    assert!((1..=3).contains(&relay.progress.tally().failed));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_always_panics_ends_in_quarantine_where_attempts_are_bounded() {
    let scene = Scene::new();
    let target = Faulty::new(&scene.target, 0, u32::MAX, 0);
    let settings = RelaySettings { attempts_max: Some(3), ..quick() };
    let relay = scene.relay_between(Arc::new(scene.store.another()), target, settings);
    scene.send(&[message(1, Some("k")), message(2, None)]).await;
    until("it is set aside", async || relay.heard("quarantined")).await;
    let found = scene.store.find("1", None).await.expect("found");
    assert_eq!(found[0].place, Place::Quarantined);
    assert!(relay.progress.tally().failed >= 2, "it was tried again before");
    let error = found[0].last_error.clone().expect("it says why");
    assert!(error.contains("panicked"), "{error}");
    assert_eq!(scene.target.ids(), ["2"]);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_panics_over_its_limits_is_down_until_it_does_not() {
    let scene = Scene::new();
    // Enough for several tries, and not for long.
    let target = Faulty::new(&scene.target, 12, 0, 0);
    let relay = scene.relay_between(Arc::new(scene.store.another()), target.clone(), quick());
    scene.send(&(1..=20).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    until("it is told", async || relay.heard("down")).await;
    scene.delivered(20).await;
    scene.settled().await;
    assert_eq!(target.limits.load(Ordering::SeqCst), 0);
    assert!(relay.heard("up") && !relay.heard("failed"), "nobody's attempts are used up");
    assert_key_order(&scene.target.deliveries());
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_panics_is_no_failure_of_the_store() {
    let scene = Scene::new();
    scene.target.next(1, On::Id("1".into()), Act::Hang);
    let target = Faulty::new(&scene.target, 0, 0, 1);
    let relay = scene.relay_between(Arc::new(scene.store.another()), target.clone(), quick());
    scene.send(&[message(1, Some("k")), message(2, Some("k"))]).await;
    scene.delivered(2).await;
    scene.settled().await;
    assert_eq!(target.reset.load(Ordering::SeqCst), 0, "it was reset");
    assert!(!relay.heard("store"));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_hook_that_panics_does_not_end_the_relay() {
    let scene = Scene::new();
    scene.target.next(1, On::Id("1".into()), Act::Refuse(PublishError::failed("not yet")));
    scene.send(&[message(1, Some("k")), message(2, Some("k"))]).await;
    let relay = Relay::builder(Arc::new(scene.store.another()), Arc::new(scene.target.clone()))
        .settings(quick())
        .report(|_| panic!("on purpose"))
        .build()
        .expect("the settings are in range");
    let stop = tokio::time::sleep(Duration::from_secs(20));
    let once = relay.run_once(Arc::new(scene.store.another()), stop).await.expect("it drains");
    assert_eq!(once.tally.settled, 2);
    assert_eq!(scene.target.ids(), ["1", "2"]);
}
