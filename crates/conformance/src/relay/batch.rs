//! Batches on demand: `flush` and `drain`, and their tallies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::Result;
use sendoff_core::memory::{Act, On};
use sendoff_core::publisher::PublishError;
use sendoff_core::relay::{BatchRelay, BatchSettings, Flushed};
use sendoff_core::store::Place;

use super::scene::{SOON, Scene};
use crate::store::Subject;

fn settings(batch: usize) -> BatchSettings {
    BatchSettings { batch, backoff_step: Duration::from_millis(1), ..BatchSettings::default() }
}

async fn relay<S: Subject>(scene: &Scene<S>, settings: BatchSettings) -> Result<BatchRelay> {
    let store = scene.stage.subject.open().await?.claims();
    BatchRelay::new(store, Arc::new(scene.target.clone()), settings)
}

fn done(published: u64, failed: u64) -> Flushed {
    Flushed { published, failed, quarantined: 0 }
}

fn refuse<S: Subject>(scene: &Scene<S>, id: &str, times: u32) {
    let refuse = Act::Refuse(PublishError::failed("broker refused"));
    scene.target.next(times, On::Id(id.to_owned()), refuse);
}

pub async fn a_flush_publishes_one_batch_oldest_first_and_tells_how_it_went<S: Subject>()
-> Result<()> {
    let scene = Scene::<S>::new().await?;
    let relay = relay(&scene, settings(2)).await?;
    assert_eq!(relay.flush().await?, done(0, 0), "nothing is there");
    scene.send(&["1", "2", "3"]).await?;
    let flushed = relay.flush().await?;
    assert_eq!((flushed, flushed.attempted()), (done(2, 0), 2));
    assert_eq!(scene.target.ids(), ["1", "2"]);
    assert_eq!(scene.stage.place("2").await?, Some(Place::Gone));
    assert_eq!(scene.stage.place("3").await?, Some(Place::Ready));
    assert_eq!(relay.flush().await?, done(1, 0));
    Ok(())
}

pub async fn a_row_that_fails_is_marked_and_stops_nothing_behind_it<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let relay = relay(&scene, settings(10)).await?;
    scene.send(&["1", "2", "3"]).await?;
    refuse(&scene, "2", 1);
    let flushed = relay.flush().await?;
    assert_eq!((flushed, flushed.attempted()), (done(2, 1), 3));
    assert_eq!(scene.target.ids(), ["1", "3"]);
    let two = scene.stage.find("2").await?.expect("it is pending");
    assert_eq!((two.place, two.attempts), (Place::Ready, 1));
    assert_eq!(two.last_error.as_deref(), Some("broker refused"));
    assert_eq!(relay.flush().await?, done(1, 0));
    assert_eq!(scene.target.ids(), ["1", "3", "2"]);
    Ok(())
}

pub async fn a_drain_flushes_until_a_pass_publishes_nothing<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let relay = relay(&scene, settings(2)).await?;
    scene.send(&["1", "2", "3", "4", "5"]).await?;
    assert_eq!(relay.drain(1).await?, done(2, 0), "as many passes as were asked for");
    assert_eq!(relay.drain(0).await?, done(3, 0), "as many as there are");
    scene.send(&["6", "7"]).await?;
    refuse(&scene, "6", 1);
    assert_eq!(relay.drain(0).await?, done(2, 1), "what failed is tried again by the next pass");
    scene.send(&["8"]).await?;
    refuse(&scene, "8", u32::MAX);
    assert_eq!(relay.drain(0).await?, done(0, 1), "one pass, where only failing rows are left");
    Ok(())
}

pub async fn the_wait_after_a_failure_grows_in_steps_up_to_its_bound<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let settings = BatchSettings {
        backoff_step: Duration::from_millis(100),
        backoff_max: Duration::from_millis(250),
        ..BatchSettings::default()
    };
    let relay = relay(&scene, settings).await?;
    scene.send(&["1"]).await?;
    refuse(&scene, "1", u32::MAX);
    for (attempts, millis) in [(1, 100), (2, 200), (3, 250), (4, 250)] {
        let begun = Instant::now();
        assert_eq!(relay.flush().await?, done(0, 1));
        let (took, wait) = (begun.elapsed(), Duration::from_millis(millis));
        assert!(took >= wait && took < wait + SOON, "attempt {attempts} waited {took:?}");
        assert_eq!(scene.stage.find("1").await?.map(|one| one.attempts), Some(attempts));
    }
    Ok(())
}

pub async fn a_row_is_parked_after_so_many_attempts_when_asked_and_not_before<S: Subject>()
-> Result<()> {
    let scene = Scene::<S>::new().await?;
    scene.send(&["1"]).await?;
    refuse(&scene, "1", u32::MAX);
    let patient = relay(&scene, settings(10)).await?;
    for _ in 0..6 {
        assert_eq!(patient.flush().await?, done(0, 1));
    }
    assert_eq!(scene.stage.place("1").await?, Some(Place::Ready), "nobody asked");
    let strict = BatchSettings { attempts_max: Some(8), ..settings(10) };
    let strict = relay(&scene, strict).await?;
    assert_eq!(strict.flush().await?, done(0, 1), "the seventh");
    assert_eq!(strict.flush().await?, Flushed { published: 0, failed: 1, quarantined: 1 });
    assert_eq!(scene.stage.place("1").await?, Some(Place::Quarantined));
    let reason = &scene.stage.store.quarantined(0, 10).await?[0].reason;
    assert_eq!(reason, "attempts");
    assert_eq!(strict.flush().await?, done(0, 0), "it is not claimed again");
    Ok(())
}
