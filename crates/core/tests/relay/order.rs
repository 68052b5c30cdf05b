//! G3: messages of one key are first delivered in the order of their sends.

use std::time::Duration;

use sendoff_core::memory::{Act, On};
use sendoff_core::relay::RelaySettings;
use sendoff_core::store::{OutboxDesk, Which};
use sendoff_core::time::Clock;
use sendoff_core::{Message, Outbox, PublishError};

use crate::scene::{Scene, assert_key_order, message, quick, until};

#[tokio::test(flavor = "multi_thread")]
async fn every_key_keeps_its_order_with_many_in_flight() {
    let scene = Scene::new();
    scene.target.always(On::Key("k3".into()), Act::Delay(Duration::from_millis(2)));
    scene.target.always(On::Any, Act::Delay(Duration::from_micros(300)));
    let messages: Vec<Message> =
        (0..3_000).map(|n| message(n, Some(&format!("k{}", n % 37)))).collect();
    for batch in messages.chunks(100) {
        scene.send(batch).await;
    }
    let relay = scene.relay(quick());
    scene.delivered(3_000).await;
    scene.settled().await;
    assert_key_order(&scene.target.deliveries());
    let tally = scene.target.tally();
    assert_eq!((tally.key_overlaps, tally.repeated), (0, 0));
    assert!(tally.in_flight_peak > 10, "publishes overlap: {}", tally.in_flight_peak);
    assert_eq!(relay.stop().await.settled, 3_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_fails_holds_its_own_key_only() {
    let scene = Scene::new();
    scene.target.next(3, On::Id("1".into()), Act::Refuse(PublishError::failed("not yet")));
    scene.send(&(1..=20).map(|n| message(n, Some(["a", "b"][n % 2]))).collect::<Vec<_>>()).await;
    let relay = scene.relay(quick());
    scene.delivered(20).await;
    scene.settled().await;
    let deliveries = scene.target.deliveries();
    assert_key_order(&deliveries);
    let at = |id: &str| deliveries.iter().position(|d| d.message.id() == id).expect("arrived");
    assert!(at("20") < at("1"), "the other key did not wait");
    assert!(relay.heard("failed 1"));
    assert_eq!(relay.stop().await.failed, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_sent_after_their_relay_died_are_held_by_the_next_one() {
    let scene = Scene::new();
    scene.target.always(On::Id("1".into()), Act::Refuse(PublishError::failed("not yet")));
    let settings = RelaySettings {
        backoff: sendoff_core::relay::Backoff {
            first: Duration::from_secs(2),
            max: Duration::from_secs(2),
        },
        ..quick()
    };
    scene.send(&[message(1, Some("k")), message(2, Some("k"))]).await;
    let first = scene.relay(settings.clone());
    until("the failure is settled", async || {
        scene.store.stats().await.expect("stats").retrying == 1
    })
    .await;
    first.kill().await;
    scene.send(&[message(3, Some("k")), message(4, Some("other"))]).await;
    let second = scene.relay(settings);
    until("the other key went", async || !scene.target.deliveries().is_empty()).await;
    until("the follower is held", async || scene.store.stats().await.expect("stats").held == 2)
        .await;
    scene.target.clear();
    scene.delivered(4).await;
    assert_key_order(&scene.target.deliveries());
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_message_goes_before_what_it_held() {
    let scene = Scene::new();
    scene.target.next(1, On::Id("1".into()), Act::Refuse(PublishError::permanent("never")));
    scene.send(&(1..=5).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    let relay = scene.relay(quick());
    until("it is set aside", async || {
        let stats = scene.store.stats().await.expect("stats");
        stats.quarantined == 1 && stats.held == 4
    })
    .await;
    assert!(relay.heard("quarantined"));
    // Sends that come while the key is let go must not overtake what was held.
    scene.store.requeue(&Which::All).await.expect("requeued");
    for n in 6..30 {
        scene.send(&[message(n, Some("k"))]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    scene.delivered(29).await;
    assert_key_order(&scene.target.deliveries());
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_message_lets_its_followers_go_in_order() {
    let scene = Scene::new();
    scene.target.next(1, On::Id("1".into()), Act::Refuse(PublishError::permanent("never")));
    scene.send(&(1..=50).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    let relay = scene.relay(quick());
    until("it is set aside", async || scene.store.stats().await.expect("stats").held == 49).await;
    scene.store.discard(&Which::All).await.expect("discarded");
    for n in 51..80 {
        scene.send(&[message(n, Some("k"))]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    scene.delivered(78).await;
    assert_key_order(&scene.target.deliveries());
    scene.settled().await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_commits_late_is_delivered_at_the_next_look() {
    let scene = Scene::new();
    let settings = RelaySettings { poll: Duration::from_millis(100), ..quick() };
    let relay = scene.relay(settings);
    let outbox = Outbox::new("test");
    let mut late = scene.store.begin();
    outbox.send(&mut late, &message(1, None)).await.expect("sent");
    // Thousands pass it by.
    let many: Vec<Message> = (2..2_000).map(|n| message(n, None)).collect();
    scene.send(&many).await;
    scene.delivered(1_998).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let begun = std::time::Instant::now();
    scene.wake.commit(late).await.expect("committed");
    scene.delivered(1_999).await;
    assert!(
        begun.elapsed() < Duration::from_millis(1_000),
        "not left to the look from 0, which comes every 3 s: {:?}",
        begun.elapsed()
    );
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_message_waits_for_its_time_and_holds_nobody_before() {
    let scene = Scene::new();
    let due_at = Clock::system().now() + Duration::from_millis(700);
    let later = Message::builder("test", "topic").id("9").key("k").due_at(due_at);
    scene.send(&[later.build().expect("valid"), message(1, Some("k"))]).await;
    let relay = scene.relay(quick());
    scene.delivered(1).await;
    assert_eq!(scene.target.ids(), ["1"]);
    scene.delivered(2).await;
    assert!(Clock::system().now() >= due_at);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_falls_due_in_a_backlog_joins_behind_what_was_sent_before() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Delay(Duration::from_micros(200)));
    let due_at = Clock::system().now();
    let due = Message::builder("test", "topic").id("5000").key("k").due_at(due_at);
    let mut messages = vec![due.build().expect("valid")];
    messages.extend((1..400).map(|n| message(n, Some("k"))));
    scene.send(&messages).await;
    let settings = RelaySettings { window_rows: 50, in_flight_max: 10, ..quick() };
    let relay = scene.relay(settings);
    scene.delivered(400).await;
    assert_key_order(&scene.target.deliveries());
    relay.stop().await;
}
