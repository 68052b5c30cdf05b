//! What the relay tells its owner, and what readiness means.

use sendoff_core::Result;
use sendoff_core::memory::{Act, On};
use sendoff_core::publisher::PublishError;
use sendoff_core::relay::RelayGate;
use sendoff_core::store::Place;

use super::scene::{KINDS, Knobs, Scene};
use crate::store::Subject;
use crate::store::stage::{message, plain};

fn cause() -> std::io::Error {
    std::io::Error::other("what is behind it")
}

pub async fn a_permanent_failure_is_quarantined_and_reported_with_its_cause_and_the_rest_goes_on<
    S: Subject,
>() -> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let refuse = PublishError::permanent("no such place").caused_by(cause());
        scene.target.always(On::Id("1".to_owned()), Act::Refuse(refuse));
        let messages = [message("1").key("a").build()?, message("2").key("b").build()?];
        scene.send_all(&messages).await?;
        let relay = scene.run(kind, &Knobs::default()).await?;
        scene.until("it is told", || !relay.told_of("quarantined").is_empty()).await?;
        let standing = scene.stage.find("1").await?.expect("it is kept");
        assert_eq!(standing.place, Place::Quarantined, "{kind:?}: committed by then");
        scene.published(1).await?;
        let told = relay.told();
        assert_eq!(told.len(), 1, "{kind:?}: {told:?}");
        assert_eq!(told[0].what, "quarantined: permanent", "{kind:?}");
        assert_eq!(Some(told[0].seq), standing.seq, "{kind:?}");
        assert_eq!(told[0].id.as_deref(), Some("1"), "{kind:?}");
        assert_eq!(told[0].error, "no such place", "{kind:?}");
        assert_eq!(told[0].cause.as_deref(), Some("no such place"), "{kind:?}");
        assert_eq!(scene.target.ids(), ["2"], "{kind:?}");
        relay.ended().await;
    }
    Ok(())
}

pub async fn a_transient_failure_is_reported_each_time_and_never_quarantines<S: Subject>()
-> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let refuse = PublishError::failed("busy").caused_by(cause());
        scene.target.always(On::Any, Act::Refuse(refuse));
        scene.send(&["1"]).await?;
        let relay = scene.run(kind, &Knobs::default()).await?;
        scene.until("it was tried often", || relay.told_of("failed").len() >= 25).await?;
        assert!(relay.readiness.is_ready(), "{kind:?}");
        assert_eq!(scene.stage.store.stats().await?.quarantined, 0, "{kind:?}");
        let told = relay.told();
        assert_eq!(relay.told_of("failed").len(), told.len(), "{kind:?}: {told:?}");
        let one = &told[0];
        assert_eq!((one.id.as_deref(), one.error.as_str()), (Some("1"), "busy"), "{kind:?}");
        assert_eq!(one.cause.as_deref(), Some("what is behind it"), "{kind:?}");
        assert_eq!(Some(one.seq), scene.stage.find("1").await?.and_then(|one| one.seq));
        scene.target.clear();
        scene.published(1).await?;
        relay.ended().await;
    }
    Ok(())
}

pub async fn a_row_that_does_not_decode_is_quarantined_without_a_call<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let mut bad = plain("bad");
        bad.headers = r#"["no object"]"#.to_owned();
        scene.stage.subject.insert(bad).await?;
        scene.send(&["2"]).await?;
        let relay = scene.run(kind, &Knobs::default()).await?;
        scene.published(1).await?;
        scene.until("it is told", || !relay.told().is_empty()).await?;
        let told = relay.told();
        assert_eq!(told.len(), 1, "{kind:?}: {told:?}");
        assert_eq!(told[0].what, "quarantined: undecodable", "{kind:?}");
        assert_eq!(told[0].id, None, "{kind:?}");
        let cause = told[0].cause.clone().unwrap_or_default();
        assert!(cause.starts_with("decoding a message"), "{kind:?}: {cause}");
        assert_eq!(scene.target.tally().begun, 1, "{kind:?}: the good one only");
        relay.ended().await;
    }
    Ok(())
}

pub async fn ready_means_that_it_receives_and_speaks_for_the_database_only<S: Subject>()
-> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        let gate = RelayGate::new();
        let held = gate.exclusive().await;
        let relay = scene.run_gated(kind, &Knobs::default(), gate.clone()).await?;
        let readiness = relay.readiness.clone();
        scene.until("it receives", || readiness.is_ready()).await?;
        assert_eq!(relay.progress.tally().looks, 0, "{kind:?}: ready before its first pass");
        let down = PublishError::unreachable("no connection");
        scene.target.always(On::Any, Act::Refuse(down));
        scene.send(&["1"]).await?;
        drop(held);
        scene.until("the target was tried", || scene.target.tally().begun >= 2).await?;
        assert!(readiness.is_ready(), "{kind:?}: a target that is down leaves it ready");
        relay.ended().await;
        assert!(!readiness.is_ready(), "{kind:?}: it receives no more");
        let relay = scene.run(kind, &Knobs::default()).await?;
        let readiness = relay.readiness.clone();
        scene.until("it receives", || readiness.is_ready()).await?;
        relay.killed().await;
        assert!(!readiness.is_ready(), "{kind:?}: nor does one that was dropped");
    }
    Ok(())
}
