//! The drain: what is committed while the producers stop leaves before the process does.

use std::time::Duration;

use sendoff_core::Result;
use sendoff_core::lane::Lane;
use sendoff_core::memory::{Act, On};
use sendoff_core::publisher::PublishError;
use sendoff_core::store::Place;

use super::scene::{KINDS, Kind, Knobs, Running, SOON, Scene};
use crate::store::Subject;
use crate::store::stage::message;

/// A relay that was asked to stop while its first message is in flight; more has been committed since.
async fn stopping<S: Subject>(kind: Kind, drain: Duration) -> Result<(Scene<S>, Running)> {
    let (scene, relay) = stopping_with_one_in_flight(kind, drain).await?;
    scene.send(&["2", "3"]).await?;
    Ok((scene, relay))
}

async fn stopping_with_one_in_flight<S: Subject>(
    kind: Kind,
    drain: Duration,
) -> Result<(Scene<S>, Running)> {
    let scene = Scene::<S>::new().await?;
    scene.target.next(1, On::Any, Act::Hang);
    scene.send(&["1"]).await?;
    let mut relay = scene.run(kind, &Knobs { drain, in_flight_max: 1, ..Knobs::default() }).await?;
    scene.until("one in flight", || scene.target.tally().in_flight == 1).await?;
    relay.ask();
    // Whatever the relay was doing, it has seen the stop.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok((scene, relay))
}

pub async fn without_a_drain_nothing_is_claimed_after_a_stop<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let (scene, relay) = stopping::<S>(kind, Duration::ZERO).await?;
        scene.target.let_go();
        relay.ended().await;
        assert_eq!(scene.target.ids(), ["1"], "{kind:?}");
        assert_eq!(scene.stage.store.stats().await?.pending, 2, "{kind:?}");
    }
    Ok(())
}

pub async fn a_drain_publishes_what_was_committed_meanwhile_and_ends_when_nothing_is_left<
    S: Subject,
>() -> Result<()> {
    for kind in KINDS {
        let (scene, relay) = stopping::<S>(kind, SOON * 2).await?;
        scene.target.let_go();
        let (_, took) = relay.ended().await;
        assert_eq!(scene.target.ids(), ["1", "2", "3"], "{kind:?}");
        assert_eq!(scene.stage.store.stats().await?.pending, 0, "{kind:?}");
        assert!(took < SOON, "{kind:?}: it went on for {took:?} with nothing to do");
    }
    Ok(())
}

pub async fn a_drain_ends_when_a_row_fails<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let (scene, relay) = stopping_with_one_in_flight::<S>(kind, SOON * 2).await?;
        // Two keys of one lane, so that 2 is published before 3.
        let lane = Lane::of("b", S::FACTS.lanes);
        let mut keys = (0..10_000).map(|n| n.to_string());
        let other = keys.find(|key| Lane::of(key, S::FACTS.lanes) == lane);
        let other = other.expect("there are more keys than lanes");
        let messages = [message("2").key("b").build()?, message("3").key(other).build()?];
        scene.send_all(&messages).await?;
        let refuse = Act::Refuse(PublishError::failed("not now"));
        scene.target.always(On::Id("2".to_owned()), refuse);
        scene.target.let_go();
        let (_, took) = relay.ended().await;
        assert_eq!(scene.target.ids(), ["1"], "{kind:?}: it went on after a failure");
        assert!(took < SOON, "{kind:?}: it went on for {took:?} after a failure");
        assert_eq!(scene.stage.find("2").await?.map(|two| two.attempts), Some(1), "{kind:?}");
    }
    Ok(())
}

pub async fn a_drain_bounds_claims_only<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let (scene, relay) = stopping::<S>(kind, Duration::from_secs(2)).await?;
        scene.target.always(On::Id("2".to_owned()), Act::Delay(Duration::from_secs(3)));
        scene.target.let_go();
        relay.ended().await;
        assert_eq!(scene.target.ids(), ["1", "2"], "{kind:?}: 2 was claimed in time, 3 was not");
        assert_eq!(scene.stage.place("2").await?, Some(Place::Gone), "{kind:?}");
        assert_eq!(scene.stage.place("3").await?, Some(Place::Ready), "{kind:?}");
    }
    Ok(())
}
