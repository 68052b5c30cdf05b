//! Timeouts: of one handler, of a claim as a whole, and of a stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::memory::{Act, On};
use sendoff_core::publisher::{PublishError, Publisher};
use sendoff_core::store::Place;
use sendoff_core::{Message, Result};

use super::scene::{KINDS, Kind, Knobs, Never, SOON, Scene};
use crate::store::Subject;

pub async fn a_hung_handler_is_ended_at_its_timeout_and_its_row_is_tried_again<S: Subject>()
-> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        scene.target.next(1, On::Any, Act::Hang);
        scene.send(&["1", "2"]).await?;
        // A claim lasts twice as long, which a busy machine may need to mark what failed.
        let knobs = Knobs { publish_timeout: Duration::from_millis(500), ..Knobs::default() };
        let relay = scene.run(kind, &knobs).await?;
        scene.published(2).await?;
        let (tally, _) = relay.ended().await;
        assert_eq!(scene.target.ids(), ["1", "2"], "{kind:?}");
        assert!(scene.target.tally().resets > 0, "{kind:?}: what is buffered must not leave later");
        assert_eq!(scene.target.tally().begun, 3, "{kind:?}");
        assert_eq!(tally.settled, 2, "{kind:?}");
    }
    Ok(())
}

/// Blocks its thread for long at the first call, and says that all is well.
#[derive(Debug, Default)]
struct Blocking(AtomicU32);

#[async_trait]
impl Publisher for Blocking {
    fn address(&self) -> &str {
        "blocking:"
    }

    async fn publish(&self, _: &Message) -> Result<(), PublishError> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(900));
        }
        Ok(())
    }
}

pub async fn a_handler_that_ignores_its_deadline_has_its_row_rolled_back<S: Subject>() -> Result<()>
{
    let scene = Scene::<S>::new().await?;
    scene.send(&["1"]).await?;
    let target = Arc::new(Blocking::default());
    let knobs = Knobs { publish_timeout: Duration::from_millis(300), ..Knobs::default() };
    let relay = scene.run_to(Kind::RowLocks, &knobs, target.clone(), None::<Never>).await?;
    scene.published(1).await?;
    assert_eq!(target.0.load(Ordering::SeqCst), 2, "its first answer came after the claim's end");
    let told = relay.told_of("failed");
    assert!(told.first().is_some_and(|told| told.id.as_deref() == Some("1")), "{told:?}");
    assert_eq!(relay.ended().await.0.settled, 1);
    Ok(())
}

pub async fn what_is_in_flight_at_a_stop_is_settled<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        scene.target.next(1, On::Any, Act::TakeAndHang);
        scene.send(&["1", "2"]).await?;
        let mut relay = scene.run(kind, &Knobs::default()).await?;
        scene.until("one in flight", || scene.target.tally().in_flight == 1).await?;
        relay.ask();
        tokio::time::sleep(Duration::from_millis(50)).await;
        scene.target.let_go();
        relay.ended().await;
        assert_eq!(scene.target.ids(), ["1"], "{kind:?}");
        assert_eq!(scene.stage.place("1").await?, Some(Place::Gone), "{kind:?}");
        assert_eq!(scene.stage.place("2").await?, Some(Place::Ready), "{kind:?}");
    }
    Ok(())
}

pub async fn a_handler_that_outlasts_the_stop_is_cancelled<S: Subject>() -> Result<()> {
    for kind in KINDS {
        let scene = Scene::<S>::new().await?;
        scene.target.always(On::Any, Act::Hang);
        scene.send(&["1"]).await?;
        let cancel_after = Duration::from_millis(300);
        let knobs = Knobs { cancel_after, publish_timeout: SOON * 10, ..Knobs::default() };
        let relay = scene.run(kind, &knobs).await?;
        scene.until("one in flight", || scene.target.tally().in_flight == 1).await?;
        let (_, took) = relay.ended().await;
        assert!(took >= cancel_after && took < SOON, "{kind:?}: {took:?}");
        assert_eq!(scene.target.tally().in_flight, 0, "{kind:?}");
        assert_eq!(scene.stage.place("1").await?, Some(Place::Ready), "{kind:?}");
    }
    Ok(())
}
