//! Policies: for the whole relay, and for some topics.

use std::time::Duration;

use sendoff_core::Message;
use sendoff_core::PublishError;
use sendoff_core::memory::{Act, On, PlainRow};
use sendoff_core::relay::{Backoff, Hold, Override, RelaySettings};
use sendoff_core::store::{OutboxDesk, Place};

use crate::scene::{Scene, message, quick, until};

fn to(topic: &str, id: &str) -> Message {
    Message::builder("test", topic).id(id).key("k").body("body").build().expect("valid")
}

fn over(topics: &str) -> Override {
    Override::of(topics.parse().expect("a pattern"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_topic_has_the_policy_of_the_first_override_that_matches() {
    let scene = Scene::new();
    scene.target.always(On::Topic("metrics.cpu".into()), Act::Refuse(PublishError::failed("no")));
    scene.target.always(On::Topic("orders.placed".into()), Act::Refuse(PublishError::failed("no")));
    scene.send(&[to("metrics.cpu", "1"), to("other", "2"), to("orders.placed", "3")]).await;
    scene.send(&[to("other", "4")]).await;
    let settings = RelaySettings {
        overrides: vec![
            Override { hold: Some(Hold::None), attempts_max: Some(Some(2)), ..over("metrics.>") },
            Override { attempts_max: Some(Some(3)), ..over("orders.*") },
            Override { attempts_max: Some(Some(1)), ..over(">") },
        ],
        ..quick()
    };
    let relay = scene.relay(settings);
    scene.delivered(1).await;
    until("both are set aside", async || {
        scene.store.stats().await.expect("stats").quarantined == 2
    })
    .await;
    assert_eq!(scene.target.ids(), ["2"], "1 holds nobody, 3 holds its key");
    until("the follower is held", async || scene.store.stats().await.expect("stats").held == 1)
        .await;
    let quarantined = scene.store.quarantined(0, 10).await.expect("read");
    let seen: Vec<(&str, u32, u64)> =
        quarantined.iter().map(|one| (one.id.as_str(), one.attempts, one.holds)).collect();
    // The attempt that was the last one is not counted among those that are tried again.
    assert_eq!(seen, [("1", 1, 0), ("3", 2, 1)]);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_can_have_a_timeout_and_a_backoff_of_its_own() {
    let scene = Scene::new();
    scene.target.always(On::Topic("slow".into()), Act::Delay(Duration::from_millis(400)));
    scene.target.next(1, On::Topic("patient".into()), Act::Refuse(PublishError::failed("no")));
    let wait = Duration::from_secs(60);
    let settings = RelaySettings {
        // With the relay's own timeout the slow one would never arrive.
        publish_timeout: Duration::from_millis(100),
        lease: Duration::from_secs(2),
        overrides: vec![
            Override { publish_timeout: Some(Duration::from_secs(1)), ..over("slow") },
            Override { backoff: Some(Backoff { first: wait, max: wait }), ..over("patient") },
        ],
        ..quick()
    };
    scene.send(&[to("slow", "1"), message(2, None), message(3, None)]).await;
    scene.send(&[Message::builder("test", "patient").id("4").build().expect("valid")]).await;
    let relay = scene.relay(settings);
    scene.delivered(3).await;
    assert_eq!(scene.target.ids().last().map(String::as_str), Some("1"));
    until("its retry is far", async || {
        let found = scene.store.find("4", None).await.expect("found");
        found[0].place == Place::Retrying && found[0].retry_at > found[0].sent_at
    })
    .await;
    assert_eq!(relay.stop().await.unknown, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_decode_has_the_relays_own_policy() {
    let bad = |id: &str| PlainRow {
        id: id.into(),
        source: "test".into(),
        topic: "metrics".into(),
        key: Some("k".into()),
        headers: "[]".into(),
        ..PlainRow::default()
    };
    for (hold, held) in [(Hold::Key, 1), (Hold::All, 0), (Hold::None, 0)] {
        let scene = Scene::new();
        scene.store.insert(bad("1")).await.expect("inserted");
        scene.send(&[message(2, Some("k")), message(3, None)]).await;
        let relay = scene.relay(RelaySettings { hold, ..quick() });
        scene.delivered(2 - held).await;
        until("it is set aside", async || relay.heard("quarantined 1 undecodable")).await;
        until("the follower is where it belongs", async || {
            let stats = scene.store.stats().await.expect("stats");
            (stats.held, stats.pending) == (held as u64, 0)
        })
        .await;
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_under_all_whose_lease_another_took_gives_everything_up_and_stands_by() {
    let scene = Scene::new();
    let strict = RelaySettings { hold: Hold::All, ..quick() };
    let first = scene.relay(strict.clone());
    scene.send(&[message(1, None)]).await;
    scene.delivered(1).await;
    let second = scene.relay(strict);
    until("it says that it stands by", async || second.heard("StandingBy")).await;
    // A crash: nothing is given back, and the lease has to lapse.
    first.kill().await;
    scene.send(&[message(2, Some("k"))]).await;
    scene.delivered(2).await;
    assert!(second.progress.tally().begun == 1);
    second.stop().await;
}
