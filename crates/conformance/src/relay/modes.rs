//! The kinds of relays, each by itself and beside the other.

use std::sync::{Arc, Mutex};

use sendoff_core::memory::{Act, On};
use sendoff_core::publisher::PublishError;
use sendoff_core::relay::{Relay, RowLockRelay};
use sendoff_core::{Message, Result};
use tokio::sync::oneshot;

use super::scene::{KINDS, Kind, Knobs, Scene, lanes, row_locks};
use crate::store::Subject;
use crate::store::stage::message;

pub async fn a_closure_takes_the_place_of_a_publisher<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        scene.send(&["1", "2", "3"]).await?;
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&calls);
        let handler = move |message: Arc<Message>| {
            let mut calls = heard.lock().expect("no panic");
            let first = calls.len() == 1;
            calls.push(message.id().to_owned());
            async move { if first { Err(PublishError::failed("not yet")) } else { Ok(()) } }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let store = scene.stage.subject.open().await?;
        let knobs = Knobs::default();
        let running = match kind {
            Kind::Lanes => {
                let receiver = Relay::receiver(store).settings(lanes(&knobs)).build()?;
                tokio::spawn(receiver.receive(handler, stopped))
            }
            Kind::RowLocks => {
                let relay = RowLockRelay::receiver(store.claims());
                let relay = relay.settings(row_locks(&knobs)).build()?;
                tokio::spawn(relay.receive(handler, stopped))
            }
        };
        scene.published(3).await?;
        drop(stop);
        assert_eq!(running.await.expect("it does not panic").settled, 3, "{kind:?}");
        assert_eq!(*calls.lock().expect("no panic"), ["1", "2", "2", "3"], "{kind:?}: in order");
    }
    Ok(())
}

pub async fn one_relay_with_row_locks_publishes_in_seq_order_and_a_failure_holds_the_rest_back<
    S: Subject,
>() -> Result<()> {
    for batch in [1, 7] {
        let scene = Scene::<S>::new().await?;
        let ids: Vec<String> = (0..30).map(|n| format!("{n:02}")).collect();
        let messages = ids.iter().map(|id| message(id).key(id.as_str()).build());
        scene.send_all(&messages.collect::<Result<Vec<_>>>()?).await?;
        let refuse = Act::Refuse(PublishError::failed("not now"));
        scene.target.next(2, On::Id("11".to_owned()), refuse);
        let relay = scene.run(Kind::RowLocks, &Knobs { batch, ..Knobs::default() }).await?;
        scene.published(30).await?;
        assert_eq!(scene.target.ids(), ids, "batches of {batch}");
        let failed: Vec<_> = relay.told_of("failed").into_iter().map(|told| told.id).collect();
        assert_eq!(failed, [Some("11".to_owned()), Some("11".to_owned())], "batches of {batch}");
        relay.ended().await;
    }
    Ok(())
}

pub async fn several_relays_with_row_locks_share_the_rows<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let ids: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let messages = ids.iter().map(|id| message(id).build()).collect::<Result<Vec<_>>>()?;
    scene.send_all(&messages).await?;
    let pause = Act::Delay(std::time::Duration::from_millis(5));
    scene.target.always(On::Any, pause);
    let one = scene.run(Kind::RowLocks, &Knobs::default()).await?;
    let other = scene.run(Kind::RowLocks, &Knobs { batch: 3, ..Knobs::default() }).await?;
    scene.published(60).await?;
    let tally = scene.target.tally();
    assert_eq!((scene.target.ids().len(), tally.repeated), (60, 0), "each was claimed by one");
    let (one, other) = (one.ended().await.0.settled, other.ended().await.0.settled);
    assert_eq!(one + other, 60);
    if !S::FACTS.one_writer {
        assert!(one > 0 && other > 0, "one of them did nothing: {one} and {other}");
    }
    Ok(())
}

pub async fn a_relay_with_lanes_and_one_with_row_locks_never_publish_the_same_row<S: Subject>()
-> Result<()> {
    let scene = Scene::<S>::new().await?;
    let pause = Act::Delay(std::time::Duration::from_millis(1));
    scene.target.always(On::Any, pause);
    let mut sent = 0_u64;
    let mut more = async |count: u64| {
        let ids: Vec<String> = (sent..sent + count).map(|n| n.to_string()).collect();
        sent += count;
        let messages = ids.iter().map(|id| message(id).key(format!("k{}", id.len())).build());
        scene.send_all(&messages.collect::<Result<Vec<_>>>()?).await?;
        Ok::<u64, sendoff_core::Error>(sent)
    };
    // Whoever stands by asks again after a third of a lease.
    let knobs = Knobs {
        lease: std::time::Duration::from_secs(3),
        publish_timeout: std::time::Duration::from_secs(1),
        batch: 3,
        ..Knobs::default()
    };
    let locks = scene.run(Kind::RowLocks, &knobs).await?;
    more(60).await?;
    let relay = scene.run(Kind::Lanes, &knobs).await?;
    for _ in 0..10 {
        more(10).await?;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    scene.published(160).await?;
    locks.ended().await;
    let all = more(20).await?;
    scene.published(all).await?;
    let locks = scene.run(Kind::RowLocks, &knobs).await?;
    let all = more(20).await?;
    scene.published(all).await?;
    relay.ended().await;
    let all = more(20).await?;
    scene.published(all).await?;
    locks.ended().await;
    let tally = scene.target.tally();
    assert_eq!((scene.target.ids().len() as u64, tally.repeated), (all, 0));
    Ok(())
}
