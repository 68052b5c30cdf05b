//! G6: several relays share the lanes; one that stalls cannot settle what another owns by then.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::Message;
use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::relay::RelaySettings;
use sendoff_core::store::{OutboxDesk, Place};
use sendoff_core::{PublishError, Publisher};

use crate::scene::{Scene, assert_key_order, message, quick, until};

#[tokio::test(flavor = "multi_thread")]
async fn relays_rebalance_while_they_run_and_repeat_nothing() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Delay(Duration::from_millis(1)));
    let settings = RelaySettings { lease: Duration::from_secs(5), ..quick() };
    let settings = RelaySettings { in_flight_max: 20, window_rows: 200, ..settings };
    let messages: Vec<Message> =
        (0..4_000).map(|n| message(n, Some(&format!("k{}", n % 200)))).collect();
    scene.send(&messages[..1_000]).await;
    let first = scene.relay(settings.clone());
    scene.delivered(300).await;
    let second = scene.relay(settings.clone());
    scene.send(&messages[1_000..]).await;
    until("the second has its share", async || second.progress.tally().lanes_owned == 32).await;
    assert_eq!(first.progress.tally().lanes_owned, 32);
    scene.delivered(2_000).await;
    let third = scene.relay(settings);
    first.stop().await;
    scene.delivered(4_000).await;
    scene.settled().await;
    assert_key_order(&scene.target.deliveries());
    let tally = scene.target.tally();
    assert_eq!((tally.repeated, tally.key_overlaps), (0, 0), "clean rebalances repeat nothing");
    assert_eq!(second.stop().await.fenced + third.stop().await.fenced, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_relays_lanes_are_taken_over_when_the_lease_lapses() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Hang);
    scene.send(&(1..=10).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    let first = scene.relay(quick());
    until("something is in flight", async || first.progress.tally().in_flight > 0).await;
    first.kill().await;
    scene.target.clear();
    let begun = std::time::Instant::now();
    let second = scene.relay(quick());
    scene.delivered(10).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_key_order(&scene.target.deliveries());
    second.stop().await;
}

/// A relay whose publish answers only after its lanes were taken over.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_wakes_up_late_settles_no_failure_of_what_another_owns() {
    let scene = Scene::new();
    let stale_target = MemoryPublisher::new();
    stale_target.always(On::Any, Act::Hang);
    scene.send(&(1..=10).map(|n| message(n, Some("k"))).collect::<Vec<_>>()).await;
    let stale_store = Arc::new(crate::trouble::Faulty::new(scene.store.another()));
    let stale = scene.relay_between(
        stale_store.clone(),
        Arc::new(stale_target.clone()) as Arc<dyn Publisher>,
        quick(),
    );
    until("it has something in flight", async || stale.progress.tally().in_flight > 0).await;
    // From now on it hears nothing of the database, as a process that was stopped.
    stale_store.stall(true);
    scene.target.always(On::Any, Act::Refuse(PublishError::failed("not yet")));
    let next = scene.relay(quick());
    until("the next one owns the row", async || next.progress.tally().failed >= 2).await;
    let before = scene.store.find("1", None).await.expect("found")[0].attempts;
    stale_target.clear();
    stale_target.always(On::Any, Act::Refuse(PublishError::permanent("never")));
    stale_store.stall(false);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let standing = scene.store.find("1", None).await.expect("found");
    assert_ne!(standing[0].place, Place::Quarantined, "a stale relay set it aside");
    assert!(standing[0].attempts >= before);
    scene.target.clear();
    scene.delivered(10).await;
    assert_key_order(&scene.target.deliveries());
    stale.kill().await;
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_settles_what_is_in_flight_and_gives_the_lanes_back() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Delay(Duration::from_millis(100)));
    scene.send(&(1..=30).map(|n| message(n, None)).collect::<Vec<_>>()).await;
    let settings = RelaySettings { lease: Duration::from_secs(60), in_flight_max: 10, ..quick() };
    let relay = scene.relay(settings.clone());
    until("some are in flight", async || relay.progress.tally().in_flight == 10).await;
    let readiness = relay.readiness.clone();
    let tally = relay.stop().await;
    assert!(!readiness.is_ready());
    assert_eq!(tally.confirmed, tally.settled, "what was confirmed is settled");
    assert_eq!(scene.target.tally().in_flight, 0);
    let stats = scene.store.stats().await.expect("stats");
    assert_eq!((stats.lanes_leased, stats.relays), (0, 0));
    assert_eq!(stats.pending + stats.published, 30);
    // The next one does not wait for the lease of a minute.
    let next = scene.relay(settings);
    scene.delivered(30).await;
    scene.settled().await;
    assert_eq!(scene.target.tally().repeated, 0);
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_with_an_unknown_outcome_is_not_given_back_before_its_lease_ends() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::TakeAndHang);
    scene.send(&[message(1, Some("k"))]).await;
    let relay = scene.relay(RelaySettings { lease: Duration::from_secs(30), ..quick() });
    until("its outcome is unknown", async || relay.progress.tally().unknown > 0).await;
    relay.stop().await;
    assert_eq!(scene.store.stats().await.expect("stats").lanes_leased, 1);
}
