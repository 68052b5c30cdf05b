//! The gate: an exclusive holder never runs beside a relay's work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::memory::{Act, On};
use sendoff_core::relay::{Gate, GateHold, RelayGate};
use sendoff_core::{Error, ErrorKind, Result};

use super::scene::{KINDS, Knobs, SOON, Scene};
use crate::store::Subject;
use crate::store::stage::message;

async fn exclusively(gate: &RelayGate) -> sendoff_core::relay::GateExclusive {
    let held = tokio::time::timeout(SOON, gate.exclusive()).await;
    held.expect("a busy relay lets an exclusive holder in")
}

/// So many messages, each of a key of its own.
async fn send<S: Subject>(scene: &Scene<S>, from: u32, count: u32) -> Result<()> {
    let ids: Vec<String> = (from..from + count).map(|n| n.to_string()).collect();
    let messages = ids.iter().map(|id| message(id).key(id.as_str()).build());
    scene.send_all(&messages.collect::<Result<Vec<_>>>()?).await
}

pub async fn nothing_is_claimed_in_flight_or_unsettled_while_somebody_holds_the_gate<S: Subject>()
-> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        scene.target.always(On::Any, Act::Delay(Duration::from_millis(3)));
        let gate = RelayGate::new();
        send(&scene, 0, 300).await?;
        let relay =
            scene.run_gated(kind, &Knobs { batch: 5, ..Knobs::default() }, gate.clone()).await?;
        for round in 1..=4_u32 {
            let some = usize::try_from(round).expect("small");
            scene.until("it is at work", || scene.target.deliveries().len() >= some).await?;
            let held = exclusively(&gate).await;
            let before = (scene.target.tally(), relay.progress.tally());
            assert_eq!(before.0.in_flight, 0, "{kind:?}");
            let arrived = scene.target.deliveries().len() as u64;
            let published = scene.stage.store.stats().await?.published;
            assert_eq!(arrived, published, "{kind:?}: some of them are not settled");
            send(&scene, round * 1_000, 20).await?;
            tokio::time::sleep(Duration::from_millis(120)).await;
            let after = (scene.target.tally(), relay.progress.tally());
            assert_eq!(before.0.begun, after.0.begun, "{kind:?}: something was published");
            assert_eq!(before.1.looks, after.1.looks, "{kind:?}: something was claimed");
            drop(held);
        }
        scene.published(380).await?;
        relay.ended().await;
        assert_eq!(scene.target.tally().repeated, 0, "{kind:?}");
    }
    Ok(())
}

pub async fn a_wait_for_the_gate_that_the_stop_ends_claims_and_reports_nothing<S: Subject>()
-> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let gate = RelayGate::new();
        let _held = exclusively(&gate).await;
        scene.send(&["1"]).await?;
        let relay = scene.run_gated(kind, &Knobs::default(), gate.clone()).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (told, readiness) = (Arc::clone(&relay.told), relay.readiness.clone());
        assert!(readiness.is_ready(), "{kind:?}: it receives, and nothing has failed");
        let (tally, took) = relay.ended().await;
        assert!(took < SOON, "{kind:?}: {took:?}");
        assert_eq!((tally.looks, scene.target.tally().begun), (0, 0), "{kind:?}");
        assert_eq!(*told.lock().expect("no panic"), [], "{kind:?}");
    }
    Ok(())
}

pub async fn a_drain_that_waits_for_the_gate_claims_and_reports_nothing<S: Subject>() -> Result<()>
{
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let gate = RelayGate::new();
        let _held = exclusively(&gate).await;
        scene.send(&["1"]).await?;
        let drain = Duration::from_millis(300);
        let relay =
            scene.run_gated(kind, &Knobs { drain, ..Knobs::default() }, gate.clone()).await?;
        let told = Arc::clone(&relay.told);
        let (tally, took) = relay.ended().await;
        assert!(took >= drain && took < SOON, "{kind:?}: it waited for the drain's time: {took:?}");
        assert_eq!((tally.looks, scene.target.tally().begun), (0, 0), "{kind:?}");
        assert_eq!(*told.lock().expect("no panic"), [], "{kind:?}");
    }
    Ok(())
}

/// Fails three times, then admits everybody.
#[derive(Debug, Default)]
struct Failing(AtomicU32);

#[async_trait]
impl Gate for Failing {
    async fn shared(&self) -> Result<GateHold> {
        if self.0.fetch_add(1, Ordering::SeqCst) < 3 {
            return Err(Error::new(ErrorKind::Unexpected, "asking the gate").detail("it is stuck"));
        }
        Ok(GateHold::new(|| {}))
    }
}

pub async fn a_gate_that_fails_is_reported_and_leaves_the_relay_ready<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        scene.send(&["1"]).await?;
        let relay = scene.run_gated(kind, &Knobs::default(), Failing::default()).await?;
        scene.until("it was told", || !relay.told_of("gate").is_empty()).await?;
        assert!(relay.readiness.is_ready(), "{kind:?}: readiness speaks for the database");
        scene.published(1).await?;
        let told = relay.told_of("gate");
        assert_eq!(told.len(), 3, "{kind:?}: {told:?}");
        assert!(told[0].error.contains("it is stuck"), "{kind:?}: {told:?}");
        relay.ended().await;
    }
    Ok(())
}

/// Ours, without a word on who waits.
#[derive(Debug)]
struct Mute(RelayGate);

#[async_trait]
impl Gate for Mute {
    async fn shared(&self) -> Result<GateHold> {
        self.0.shared().await
    }
}

pub async fn a_gate_that_cannot_tell_who_waits_is_given_back_all_the_same<S: Subject>() -> Result<()>
{
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let gate = RelayGate::new();
        scene.send(&["1"]).await?;
        let relay = scene.run_gated(kind, &Knobs::default(), Mute(gate.clone())).await?;
        scene.published(1).await?;
        drop(exclusively(&gate).await);
        scene.send(&["2"]).await?;
        scene.published(2).await?;
        relay.ended().await;
    }
    Ok(())
}
