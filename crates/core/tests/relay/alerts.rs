//! A relay tells that a backlog is too old or too large, and that it is over, each time once.

use std::time::Duration;

use sendoff_core::PublishError;
use sendoff_core::memory::{Act, On};
use sendoff_core::relay::{AlertSettings, RelaySettings};

use crate::scene::{Scene, message, quick, until};

fn alerting(alerts: AlertSettings) -> RelaySettings {
    let every = Duration::from_millis(100);
    RelaySettings { alerts: AlertSettings { every, ..alerts }, ..quick() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_is_too_old_is_told_once_and_so_is_its_end() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Refuse(PublishError::unreachable("it is down")));
    let age = Some(Duration::from_millis(300));
    let relay = scene.relay(alerting(AlertSettings { age, ..AlertSettings::default() }));
    scene.send(&[message(1, None)]).await;
    until("it is told", async || relay.heard("Lagging")).await;
    // Several counts later it was still told once.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(relay.count("Lagging"), 1);
    assert_eq!(relay.count("Recovered"), 0);
    scene.target.clear();
    scene.delivered(1).await;
    until("its end is told", async || relay.heard("Recovered")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((relay.count("Lagging"), relay.count("Recovered")), (1, 1));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_in_quarantine_are_told_at_the_start_of_a_relay_too() {
    let scene = Scene::new();
    let never = PublishError::permanent("never");
    scene.target.next(1, On::Id("1".to_owned()), Act::Refuse(never));
    let first = scene.relay(quick());
    scene.send(&[message(1, None)]).await;
    until("it is set aside", async || first.heard("quarantined")).await;
    first.stop().await;
    let quarantined = Some(1);
    let second = scene.relay(alerting(AlertSettings { quarantined, ..AlertSettings::default() }));
    until("it is told", async || second.heard("Growing { alert: Quarantined, count: 1")).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_without_bounds_counts_nothing_and_tells_nothing() {
    let scene = Scene::new();
    scene.target.always(On::Any, Act::Refuse(PublishError::unreachable("it is down")));
    let relay = scene.relay(quick());
    scene.send(&(1..=100).map(|n| message(n, None)).collect::<Vec<_>>()).await;
    until("the target is down", async || relay.heard("down")).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(relay.count("Lagging") + relay.count("Growing"), 0);
    assert_eq!(relay.progress.tally().targets_down, 1);
    scene.target.clear();
    scene.delivered(100).await;
    until("the target is up", async || relay.progress.tally().targets_down == 0).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_message_waited_for_is_in_the_lag_and_not_in_the_publish() {
    let scene = Scene::new();
    let waited = Duration::from_millis(600);
    scene.send(&[message(1, None)]).await;
    tokio::time::sleep(waited).await;
    let relay = scene.relay(quick());
    scene.delivered(1).await;
    scene.settled().await;
    let lag = relay.timings.lag(sendoff_core::store::AgeFrom::Creation);
    assert_eq!((lag.count, relay.timings.publish().count), (1, 1));
    assert!(lag.sum >= waited, "{:?}", lag.sum);
    assert!(relay.timings.publish().sum < waited, "{:?}", relay.timings.publish().sum);
    relay.stop().await;
}
