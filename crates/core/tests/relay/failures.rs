//! What each class of failure does, and what it does not do to others.

use std::time::Duration;

use sendoff_core::memory::{Act, On, PlainRow};
use sendoff_core::publisher::{PublishClass, PublisherLimits};
use sendoff_core::relay::RelaySettings;
use sendoff_core::store::{OutboxDesk, Place};
use sendoff_core::{Message, PublishError, memory::MemoryPublisher};

use crate::scene::{Scene, assert_key_order, message, quick, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_down_uses_up_nobodys_attempts_and_leaves_the_relay_ready() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Refuse(PublishError::unreachable("no connection")));
    scene.send(&(1..=50).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    let relay = scene.relay(RelaySettings { attempts_max: Some(1), ..quick() });
    until("it was noticed", async || relay.heard("down")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(relay.readiness.is_ready(), "readiness speaks for the database only");
    let begun = scene.target.tally().begun;
    assert!(begun < 100, "a target that is down is tried seldom: {begun}");
    scene.target.clear();
    scene.delivered(50).await;
    scene.settled().await;
    assert!(relay.heard("up"));
    assert_key_order(&scene.target.deliveries());
    let stats = scene.store.stats().await.expect("stats");
    assert_eq!((stats.quarantined, stats.published), (0, 50));
    assert_eq!(relay.stop().await.failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_never_answers_is_left_and_nothing_is_lost() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::TakeAndHang);
    scene.send(&(1..=5).map(|n| message(n, None)).collect::<Vec<_>>()).await;
    let relay = scene.relay(quick());
    until("the connection was discarded", async || scene.target.tally().resets > 0).await;
    scene.target.clear();
    scene.settled().await;
    let mut ids: Vec<String> = scene.target.ids();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "every delivery of a message has the same id");
    let tally = relay.stop().await;
    assert!(tally.unknown > 0);
    assert_eq!(tally.settled, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_topic_that_hangs_does_not_stop_the_others() {
    let scene = Scene::new();
    scene.target.always(On::Topic("slow".into()), Act::Hang);
    let slow = Message::builder("test", "slow").id("0").build().expect("valid");
    scene.send(&[slow]).await;
    let relay = scene.relay(quick());
    let sending = async {
        for n in 1..=300 {
            scene.send(&[message(n, Some("k"))]).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    sending.await;
    scene.delivered(300).await;
    until("the slow one counts its attempts", async || {
        scene.store.find("0", None).await.expect("found")[0].attempts > 0
    })
    .await;
    assert_key_order(&scene.target.deliveries());
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_ends_every_connection_is_found_out() {
    let scene = Scene::new();
    let lost = PublishError::new(PublishClass::Lost, "the connection ended");
    scene.target.always(On::Id("7".into()), Act::Refuse(lost));
    scene.send(&(1..=40).map(|n| message(n, None)).collect::<Vec<_>>()).await;
    let relay = scene.relay(RelaySettings { attempts_max: Some(1), ..quick() });
    scene.delivered(39).await;
    until("it stands in quarantine", async || {
        scene.store.stats().await.expect("stats").quarantined == 1
    })
    .await;
    assert!(relay.heard("quarantined 7 attempts"));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_does_not_decode_is_quarantined_unsent_and_the_rest_goes_on() {
    let scene = Scene::new();
    let bad = PlainRow {
        id: "bad".into(),
        source: "test".into(),
        topic: "topic".into(),
        headers: r#"["no object"]"#.into(),
        ..PlainRow::default()
    };
    scene.store.insert(bad).await.expect("inserted");
    scene.send(&[message(2, None)]).await;
    let relay = scene.relay(quick());
    scene.delivered(1).await;
    until("it is set aside", async || relay.heard("quarantined 1 undecodable")).await;
    assert_eq!(scene.target.tally().begun, 1, "the target was asked for the good one only");
    let standing = scene.store.find("bad", None).await.expect("found");
    assert_eq!(standing[0].place, Place::Quarantined);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_target_could_never_take_is_told_before_it_is_sent() {
    let mut scene = Scene::new();
    let limits = PublisherLimits { in_flight_max: 100, body_bytes_max: 10 };
    scene.target = MemoryPublisher::with(limits, false);
    let big = Message::builder("test", "topic").id("1").body(vec![0; 11]).build().expect("valid");
    scene.send(&[big, message(2, None)]).await;
    let relay = scene.relay(quick());
    scene.delivered(1).await;
    until("it is set aside", async || relay.heard("quarantined 1 too_large")).await;
    assert_eq!(scene.target.tally().begun, 1);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_end_in_quarantine_only_where_a_limit_was_asked_for() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Refuse(PublishError::failed("no")));
    scene.send(&[message(1, None)]).await;
    let relay = scene.relay(quick());
    until("it was tried often", async || relay.progress.tally().failed >= 8).await;
    assert_eq!(scene.store.stats().await.expect("stats").quarantined, 0);
    relay.stop().await;
    let relay = scene.relay(RelaySettings { attempts_max: Some(3), ..quick() });
    until("it is set aside", async || relay.heard("quarantined 1 attempts")).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_failing_rows_at_the_head_do_not_hold_up_a_good_one() {
    let scene = Scene::new();
    scene.target.always(On::Topic("bad".into()), Act::Refuse(PublishError::failed("no")));
    let mut messages: Vec<Message> = (1..=500)
        .map(|n| {
            let bad = Message::builder("test", "bad").id(n.to_string()).key(format!("k{n}"));
            bad.build().expect("valid")
        })
        .collect();
    messages.push(message(501, Some("good")));
    scene.send(&messages).await;
    let relay = scene.relay(RelaySettings { window_rows: 20, in_flight_max: 10, ..quick() });
    scene.delivered(1).await;
    assert_eq!(scene.target.ids(), ["501"]);
    relay.stop().await;
}
