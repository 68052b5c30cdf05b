//! Whole relays over the store: what a failed message holds under each policy, what the next policy
//! makes of it, and what each class of failure means.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::publisher::PublishClass;
use sendoff_core::relay::{Backoff, Hold, Progress, RelaySettings, Report, Tally};
use sendoff_core::store::Place;
use sendoff_core::{Error, PublishError, Relay, Result};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::stage::{LONG, Stage, message};
use super::subject::Subject;

/// Longer than a case takes, also by a clock that is turned, so that no lease lapses.
const LEASE: Duration = Duration::from_secs(80_000);

/// A relay that runs on a handle of its own.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Tally>,
    progress: Progress,
    standing_by: Arc<Mutex<u32>>,
}

impl Running {
    async fn begin<S: Subject>(
        stage: &Stage<S>,
        target: &MemoryPublisher,
        settings: RelaySettings,
    ) -> Result<Self> {
        let standing_by: Arc<Mutex<u32>> = Arc::default();
        let heard = Arc::clone(&standing_by);
        let relay = Relay::builder(stage.subject.open().await?, Arc::new(target.clone()))
            .settings(settings)
            .report(move |report| {
                if let Report::StandingBy { .. } = report {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
            })
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let progress = relay.progress();
        let task = tokio::spawn(relay.run(async move { drop(stopped.await) }));
        Ok(Self { stop: Some(stop), task, progress, standing_by })
    }

    fn stands_by(&self) -> bool {
        *self.standing_by.lock().unwrap_or_else(PoisonError::into_inner) == 1
    }

    async fn stop(mut self) -> Result<Tally> {
        drop(self.stop.take());
        self.task.await.map_err(|_| Error::invalid("stopping a relay", "it panicked"))
    }
}

fn settings(hold: Hold) -> RelaySettings {
    let wait = Duration::from_millis(20);
    RelaySettings {
        lease: LEASE,
        publish_timeout: Duration::from_secs(20),
        poll: Duration::from_millis(20),
        backoff: Backoff { first: wait, max: wait * 4 },
        hold,
        ..RelaySettings::default()
    }
}

fn fails(class: PublishClass) -> Act {
    Act::Refuse(PublishError::new(class, "as the case says"))
}

fn numbers(from: u32, to: u32) -> Vec<String> {
    (from..=to).map(|n| n.to_string()).collect()
}

impl<S: Subject> Stage<S> {
    /// Sends these numbers, in turn to three keys and none, one transaction each.
    async fn send_mixed(&self, from: u32, to: u32) -> Result<()> {
        for n in from..=to {
            let message = message(&n.to_string());
            let message = match n % 4 {
                0 => message,
                key => message.key(format!("k{key}")),
            };
            self.send(&[message.build()?]).await?;
        }
        Ok(())
    }

    async fn arrived(&self, target: &MemoryPublisher, count: usize) -> Result<()> {
        let what = format!("{count} arrived: {:?}", target.ids());
        self.eventually(&what, || async { Ok((target.ids().len() >= count).then_some(())) }).await
    }

    async fn drained(&self) -> Result<()> {
        self.eventually("everything is published", || async {
            let stats = self.store.stats().await?;
            Ok((stats.pending + stats.held == 0).then_some(()))
        })
        .await
    }

    async fn failed(&self, id: &str, times: u32) -> Result<()> {
        self.eventually("it has failed", || async {
            let found = self.find(id).await?;
            Ok(found.filter(|found| found.attempts >= times).map(drop))
        })
        .await
    }
}

/// Under `all` messages leave in the order of all sends, one at a time, through failures of any class
/// that passes; what can never be taken is passed over. A second relay publishes nothing, says so, and
/// goes on in the same order once the first has stopped.
pub async fn under_all_everything_leaves_in_order_and_a_second_relay_stands_by<S: Subject>()
-> Result<()> {
    let stage = Stage::<S>::new().await?;
    let target = MemoryPublisher::new();
    for (id, class) in [
        ("2", PublishClass::Failed),
        ("3", PublishClass::Failed),
        ("7", PublishClass::Unreachable),
        ("9", PublishClass::Permanent),
        ("13", PublishClass::Lost),
        ("22", PublishClass::Failed),
    ] {
        target.next(2, On::Id(id.to_owned()), fails(class));
    }
    stage.send_mixed(1, 10).await?;
    let first = Running::begin(&stage, &target, settings(Hold::All)).await?;
    stage.arrived(&target, 1).await?;
    let second = Running::begin(&stage, &target, settings(Hold::All)).await?;
    stage.eventually("it says so", || async { Ok(second.stands_by().then_some(())) }).await?;
    stage.send_mixed(11, 20).await?;
    stage.drained().await?;
    assert_eq!(second.progress.tally().begun, 0, "a second relay publishes nothing");
    let tally = first.stop().await?;
    assert_eq!((tally.settled, tally.quarantined), (19, 1));
    stage.send_mixed(21, 30).await?;
    // It would ask again after a third of its lease, which is long here.
    second.stop().await?;
    let second = Running::begin(&stage, &target, settings(Hold::All)).await?;
    stage.drained().await?;
    let mut expected = numbers(1, 30);
    expected.retain(|id| id != "9");
    assert_eq!(target.ids(), expected);
    let tally = target.tally();
    assert_eq!((tally.in_flight_peak, tally.repeated), (1, 0));
    assert!(second.stop().await?.settled > 0);
    Ok(())
}

/// Under `none` a message that fails holds nobody: its key's others go, from either of two relays, and
/// nothing is ever held.
pub async fn under_none_a_failing_message_stands_in_nobodys_way<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let target = MemoryPublisher::new();
    target.always(On::Id("1".to_owned()), fails(PublishClass::Failed));
    target.always(On::Id("2".to_owned()), fails(PublishClass::Permanent));
    stage.send_mixed(1, 20).await?;
    let first = Running::begin(&stage, &target, settings(Hold::None)).await?;
    let second = Running::begin(&stage, &target, settings(Hold::None)).await?;
    stage.arrived(&target, 18).await?;
    stage.failed("1", 3).await?;
    stage.send_mixed(21, 30).await?;
    stage.arrived(&target, 28).await?;
    let stats = stage.store.stats().await?;
    assert_eq!((stats.held, stats.quarantined), (0, 1));
    target.clear();
    stage.drained().await?;
    assert_eq!(target.ids().last().map(String::as_str), Some("1"));
    let (one, other) = (first.stop().await?, second.stop().await?);
    assert_eq!((one.held + other.held, one.settled + other.settled), (0, 29));
    Ok(())
}

/// What relays under each policy leave, relays under each other one take on: nothing is lost, nothing
/// stays behind, and while a key is held its order is kept.
pub async fn what_one_policy_left_the_next_one_goes_on_with<S: Subject>() -> Result<()> {
    for before in [Hold::Key, Hold::All, Hold::None] {
        for after in [Hold::Key, Hold::All, Hold::None] {
            let stage = Stage::<S>::new().await?;
            let target = MemoryPublisher::new();
            target.always(On::Id("1".to_owned()), fails(PublishClass::Failed));
            stage.send_mixed(1, 12).await?;
            let relay = Running::begin(&stage, &target, settings(before)).await?;
            stage.failed("1", 2).await?;
            relay.stop().await?;
            stage.send_mixed(13, 16).await?;
            let failed = stage.find("1").await?.map_or(0, |found| found.attempts);
            let relay = Running::begin(&stage, &target, settings(after)).await?;
            stage.failed("1", failed + 1).await?;
            if after == Hold::None {
                stage.arrived(&target, 15).await?;
            }
            target.clear();
            stage.drained().await?;
            relay.stop().await?;
            let mut ids = target.ids();
            if before != Hold::None && after != Hold::None {
                let of_key: Vec<u32> =
                    ids.iter().filter_map(|id| id.parse().ok()).filter(|n| n % 4 == 1).collect();
                assert_eq!(of_key, [1, 5, 9, 13], "{before} then {after}: {ids:?}");
            }
            ids.sort_unstable_by_key(|id| id.parse::<u32>().unwrap_or(0));
            assert_eq!(ids, numbers(1, 16), "{before} then {after}");
        }
    }
    Ok(())
}

/// While the target cannot be reached nobody's attempts are used up, and nothing goes to quarantine.
pub async fn a_target_that_is_unreachable_uses_up_nobodys_attempts<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let target = MemoryPublisher::new();
    target.always(On::Any, fails(PublishClass::Unreachable));
    stage.send_mixed(1, 8).await?;
    let once = RelaySettings { attempts_max: Some(1), ..settings(Hold::Key) };
    let relay = Running::begin(&stage, &target, once).await?;
    stage
        .eventually("it was tried", || async { Ok((target.tally().begun > 10).then_some(())) })
        .await?;
    for id in numbers(1, 8) {
        let found = stage.find(&id).await?;
        let seen = found.map(|found| (found.place, found.attempts));
        assert_eq!(seen, Some((Place::Ready, 0)), "nothing is written of it");
    }
    target.clear();
    stage.drained().await?;
    assert_eq!(relay.stop().await?.failed, 0);
    Ok(())
}

/// A target that asks to wait is not asked before that, and nobody's attempts are used up.
pub async fn a_target_that_asks_to_wait_is_waited_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let target = MemoryPublisher::new();
    let wait = Duration::from_millis(700);
    target.next(1, On::Any, fails(PublishClass::Throttled { wait }));
    stage.send_mixed(1, 1).await?;
    let begun = Instant::now();
    let once = RelaySettings { attempts_max: Some(1), ..settings(Hold::Key) };
    let relay = Running::begin(&stage, &target, once).await?;
    stage.drained().await?;
    assert!(begun.elapsed() >= wait, "{:?}", begun.elapsed());
    assert_eq!(target.tally().begun, 2);
    assert_eq!(relay.stop().await?.failed, 0);
    Ok(())
}

/// What the target can never take stands in quarantine at the first answer, with the reason.
pub async fn what_can_never_be_taken_goes_to_quarantine_at_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let target = MemoryPublisher::new();
    target.always(On::Id("1".to_owned()), fails(PublishClass::Permanent));
    stage.send_mixed(1, 8).await?;
    let relay = Running::begin(&stage, &target, settings(Hold::Key)).await?;
    stage.arrived(&target, 6).await?;
    let quarantined = stage
        .eventually("it stands in quarantine", || async {
            Ok(stage.store.quarantined(0, 10).await?.pop())
        })
        .await?;
    assert_eq!((quarantined.id.as_str(), quarantined.reason.as_str()), ("1", "permanent"));
    assert_eq!(stage.place("5").await?, Some(Place::Held), "its key's next one");
    assert_eq!(target.tally().begun, 7);
    relay.stop().await?;
    Ok(())
}

/// A message whose outcome is unknown keeps its lane: the relay stops without giving it back, so that
/// nobody publishes it beside what may still be on its way.
pub async fn a_message_of_unknown_outcome_keeps_its_lane<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let target = MemoryPublisher::new();
    target.always(On::Any, Act::TakeAndHang);
    stage.send_mixed(1, 1).await?;
    let short = Duration::from_millis(150);
    let impatient = RelaySettings { publish_timeout: short, ..settings(Hold::Key) };
    let relay = Running::begin(&stage, &target, impatient).await?;
    let unknown = relay.progress.clone();
    stage
        .eventually("no answer came", || async { Ok((unknown.tally().unknown > 0).then_some(())) })
        .await?;
    relay.stop().await?;
    let mut heir = stage.relay().await?;
    let lanes = heir.lease(LONG).await?.lanes.len();
    assert_eq!(lanes, usize::from(S::FACTS.lanes) - 1);
    assert_eq!(stage.place("1").await?, Some(Place::Ready), "and it is there to be tried again");
    Ok(())
}
