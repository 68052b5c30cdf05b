//! Whole relays with several targets: one that is down, slow or paused holds up its own messages only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::memory::{Act, Delivery, MemoryPublisher, On};
use sendoff_core::publisher::{PublishClass, PublishError};
use sendoff_core::relay::{Backoff, Progress, Relay, RelaySettings, Routes, Tally};
use sendoff_core::store::{OutboxStore, PauseScope, Place};
use sendoff_core::{Error, Message, Result};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::stage::{SOURCE, Stage};
use super::subject::Subject;

/// Two targets, and relays between a store and them.
struct Scene<S> {
    stage: Stage<S>,
    mail: MemoryPublisher,
    events: MemoryPublisher,
}

struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Tally>,
    progress: Progress,
}

impl Running {
    async fn stop(mut self) -> Result<Tally> {
        drop(self.stop.take());
        self.task.await.map_err(|error| Error::invalid("stopping a relay", error.to_string()))
    }
}

/// A window of 200 rows, so that a thousand fill any share of it.
fn small() -> RelaySettings {
    RelaySettings {
        lease: Duration::from_secs(60),
        poll: Duration::from_millis(20),
        in_flight_max: 100,
        window_rows: 200,
        backoff: Backoff { first: Duration::from_millis(20), max: Duration::from_millis(80) },
        ..RelaySettings::default()
    }
}

impl<S: Subject> Scene<S> {
    async fn new() -> Result<Self> {
        let stage = Stage::new().await?;
        Ok(Self { stage, mail: MemoryPublisher::new(), events: MemoryPublisher::new() })
    }

    async fn relay(&self, settings: RelaySettings) -> Result<Running> {
        let store: Arc<dyn OutboxStore> = self.stage.subject.open().await?;
        let routes = Routes::builder()
            .target("mail", Arc::new(self.mail.clone()))
            .target("events", Arc::new(self.events.clone()))
            .rule("mail.>".parse()?, "mail")
            .rule("events.>".parse()?, "events")
            .build()?;
        let relay = Relay::routed(store, routes).settings(settings).build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let progress = relay.progress();
        let task = tokio::spawn(relay.run(async move { drop(stopped.await) }));
        Ok(Running { stop: Some(stop), task, progress })
    }

    /// Sends so many to each target, in turns, with `keys` keys for each.
    async fn send_in_turns(&self, count: usize, keys: usize) -> Result<()> {
        let messages: Vec<Message> = (0..count)
            .flat_map(|n| ["mail", "events"].map(|target| (n, target)))
            .map(|(n, target)| {
                let key = format!("{target}-{}", n % keys);
                message(&format!("{target}-{n:05}"), &format!("{target}.sent"), Some(&key))
            })
            .collect::<Result<_>>()?;
        for page in messages.chunks(1_000) {
            self.stage.store.send_all(page).await?;
        }
        Ok(())
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !holds().await? {
            assert!(begun.elapsed() < Duration::from_secs(100), "it did not come: {what}");
            self.stage.subject.pass(Duration::from_millis(5)).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn arrived(&self, target: &MemoryPublisher, count: usize) -> Result<()> {
        self.until("so many arrive", async || Ok(target.deliveries().len() >= count)).await
    }

    async fn drained(&self) -> Result<()> {
        self.until("nothing is left", async || {
            let stats = self.stage.store.stats().await?;
            Ok(stats.pending + stats.held + stats.paused == 0)
        })
        .await
    }
}

fn message(id: &str, topic: &str, key: Option<&str>) -> Result<Message> {
    let builder = Message::builder(SOURCE, topic).id(id).body("body");
    match key {
        Some(key) => builder.key(key).build(),
        None => builder.build(),
    }
}

/// Panics unless the first deliveries of each key came in the order of their ids.
fn assert_key_order(deliveries: &[Delivery]) {
    let mut last: BTreeMap<&str, &str> = BTreeMap::new();
    for delivery in deliveries.iter().filter(|delivery| !delivery.repeated) {
        let Some(key) = delivery.message.key() else { continue };
        let id = delivery.message.id();
        let before = last.insert(key, id);
        assert!(before.is_none_or(|before| before < id), "{id} of {key} came after {before:?}");
    }
}

fn down() -> Act {
    Act::Refuse(PublishError::unreachable("nobody is there"))
}

/// A target that is down keeps its messages; the other one's go on at once, whatever stands in between.
pub async fn a_target_that_is_down_holds_up_nobody_else<S: Subject>() -> Result<()> {
    const EACH: usize = 1_500;
    let scene = Scene::<S>::new().await?;
    scene.mail.always(On::Any, down());
    scene.send_in_turns(EACH, 500).await?;
    let relay = scene.relay(small()).await?;
    scene.arrived(&scene.events, EACH).await?;
    assert!(scene.mail.deliveries().is_empty());
    scene
        .until("the rest is set aside", async || {
            let stats = scene.stage.store.stats().await?;
            Ok(stats.postponed + stats.held >= EACH as u64 - 8 && stats.retrying <= 8)
        })
        .await?;
    let parked = relay.progress.tally().parked;
    for _ in 0..20 {
        scene.stage.subject.pass(Duration::from_millis(10)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let since = relay.progress.tally().parked - parked;
    assert!(since <= 16, "{since} rows were parked again");
    scene.mail.clear();
    scene.arrived(&scene.mail, EACH).await?;
    scene.drained().await?;
    assert_key_order(&scene.mail.deliveries());
    assert_key_order(&scene.events.deliveries());
    assert_eq!((scene.mail.tally().repeated, scene.events.tally().repeated), (0, 0));
    let tally = relay.stop().await?;
    assert_eq!((tally.failed, tally.quarantined, tally.settled), (0, 0, 2 * EACH as u64));
    Ok(())
}

/// A target that answers slowly has its share of the window, and no more.
pub async fn a_target_that_is_slow_holds_up_nobody_else<S: Subject>() -> Result<()> {
    const EACH: usize = 600;
    let scene = Scene::<S>::new().await?;
    scene.mail.always(On::Any, Act::Hang);
    scene.send_in_turns(EACH, EACH).await?;
    let settings = RelaySettings {
        lease: Duration::from_secs(600),
        publish_timeout: Duration::from_secs(300),
        ..small()
    };
    let relay = scene.relay(settings).await?;
    scene.arrived(&scene.events, EACH).await?;
    assert!(scene.mail.deliveries().is_empty());
    scene.mail.clear();
    scene.mail.let_go();
    scene.arrived(&scene.mail, EACH).await?;
    scene.drained().await?;
    assert_eq!(scene.mail.tally().repeated, 0);
    relay.stop().await?;
    Ok(())
}

/// A target that asks to wait is not asked before; the other one goes on.
pub async fn a_target_that_throttles_holds_up_nobody_else<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let wait = Duration::from_secs(2);
    let throttled = PublishError::new(PublishClass::Throttled { wait }, "not so fast");
    scene.mail.next(1, On::Any, Act::Refuse(throttled));
    scene.stage.store.send_all(&[message("mail-0", "mail.sent", None)?]).await?;
    let relay = scene.relay(small()).await?;
    scene.until("it was asked", async || Ok(scene.mail.tally().begun > 0)).await?;
    let asked = Instant::now();
    scene.send_in_turns(100, 10).await?;
    scene.arrived(&scene.events, 100).await?;
    assert!(asked.elapsed() >= wait || scene.mail.tally().begun == 1, "it was asked too early");
    scene.arrived(&scene.mail, 101).await?;
    assert!(asked.elapsed() >= wait.mul_f64(0.9), "it was asked too early");
    assert_eq!(relay.stop().await?.failed, 0);
    Ok(())
}

/// What no route takes is set aside with that reason, and its key waits behind it.
pub async fn a_message_that_no_route_takes_is_quarantined<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let messages = [
        message("1", "unknown.topic", Some("k"))?,
        message("2", "mail.sent", Some("k"))?,
        message("3", "mail.sent", Some("other"))?,
    ];
    scene.stage.store.send_all(&messages).await?;
    let relay = scene.relay(small()).await?;
    scene.arrived(&scene.mail, 1).await?;
    scene
        .until("it is set aside", async || Ok(scene.stage.store.stats().await?.quarantined == 1))
        .await?;
    let set_aside = scene.stage.store.quarantined(0, 10).await?;
    assert_eq!((set_aside[0].id.as_str(), set_aside[0].reason.as_str()), ("1", "no_route"));
    assert!(set_aside[0].error.contains("unknown.topic"), "{}", set_aside[0].error);
    assert_eq!(scene.mail.ids(), ["3"]);
    scene
        .until("its key waits", async || Ok(scene.stage.place("2").await? == Some(Place::Held)))
        .await?;
    relay.stop().await?;
    Ok(())
}

/// One key, two targets, and one of them down: nothing of the key passes what waits before it.
pub async fn a_key_keeps_its_order_across_targets<S: Subject>() -> Result<()> {
    const COUNT: usize = 60;
    let scene = Scene::<S>::new().await?;
    scene.mail.always(On::Any, down());
    let messages: Vec<Message> = (0..COUNT)
        .map(|n| {
            let topic = if n % 3 == 2 { "mail.sent" } else { "events.sent" };
            message(&format!("{n:05}"), topic, Some("k"))
        })
        .collect::<Result<_>>()?;
    scene.stage.store.send_all(&messages).await?;
    let relay = scene.relay(small()).await?;
    scene.arrived(&scene.events, 2).await?;
    scene
        .until("the third is tried, again and again", async || Ok(scene.mail.tally().begun > 5))
        .await?;
    assert_eq!(scene.events.ids(), ["00000", "00001"], "what follows the third waits for it");
    scene.mail.clear();
    scene.drained().await?;
    relay.stop().await?;
    assert_key_order(&scene.mail.deliveries());
    assert_key_order(&scene.events.deliveries());
    let arrived = scene.mail.deliveries().len() + scene.events.deliveries().len();
    assert_eq!(arrived, COUNT);
    Ok(())
}

/// Pauses by topic, key and target, before and while two relays run, park what they are for and
/// nothing else; a resume brings it back in order.
pub async fn pauses_of_each_kind_reach_every_relay<S: Subject>() -> Result<()> {
    let scene = Scene::<S>::new().await?;
    let store = Arc::clone(&scene.stage.store);
    let scopes = [
        PauseScope::Topic("mail.late.>".parse()?),
        PauseScope::key("stopped")?,
        PauseScope::target("events")?,
    ];
    store.pause(&scopes[0], "before they run").await?;
    let messages = |round: usize| -> Result<Vec<Message>> {
        (0..20)
            .flat_map(|n| {
                let id = round * 1_000 + n;
                [
                    message(&format!("a-{id:05}"), "mail.late.x", Some("late")),
                    message(&format!("b-{id:05}"), "mail.x", Some("stopped")),
                    message(&format!("c-{id:05}"), "events.x", Some(&format!("e-{}", n % 3))),
                    message(&format!("d-{id:05}"), "mail.x", Some("free")),
                ]
            })
            .collect()
    };
    store.send_all(&messages(0)?).await?;
    let relays = [scene.relay(small()).await?, scene.relay(small()).await?];
    scene.arrived(&scene.mail, 40).await?;
    scene.arrived(&scene.events, 20).await?;
    assert!(scene.mail.ids().iter().all(|id| !id.starts_with('a')), "it was paused before");
    for scope in &scopes[1..] {
        store.pause(scope, "while they run").await?;
    }
    // Each relay knows by then: a pause is seen after a poll interval.
    tokio::time::sleep(Duration::from_millis(500)).await;
    store.send_all(&messages(1)?).await?;
    scene.arrived(&scene.mail, 60).await?;
    scene
        .until("all of it is set aside", async || {
            let stats = store.stats().await?;
            Ok(stats.paused + stats.held == 80 && stats.pending == 0)
        })
        .await?;
    assert_eq!(scene.events.deliveries().len(), 20);
    let standings = store.pauses().await?;
    let waiting: u64 = standings.iter().map(|one| one.parked + one.held).sum();
    assert_eq!(waiting, 80, "{standings:?}");
    for scope in &scopes {
        assert_eq!(store.resume(Some(scope)).await?, 1);
    }
    scene.arrived(&scene.mail, 120).await?;
    scene.arrived(&scene.events, 40).await?;
    scene.drained().await?;
    assert_key_order(&scene.mail.deliveries());
    assert_key_order(&scene.events.deliveries());
    for relay in relays {
        assert_eq!(relay.stop().await?.failed, 0);
    }
    Ok(())
}

/// A backlog of many rows is paused and resumed; what is not paused goes on beside it.
pub async fn a_paused_backlog_holds_up_nothing_and_comes_back_whole<S: Subject>() -> Result<()> {
    const ROWS: usize = 50_000;
    let scene = Scene::<S>::new().await?;
    let store = Arc::clone(&scene.stage.store);
    let backlog: Vec<Message> = (0..ROWS)
        .map(|n| message(&format!("m-{n:06}"), "mail.x", Some(&format!("k-{}", n % 20_000))))
        .collect::<Result<_>>()?;
    for page in backlog.chunks(5_000) {
        store.send_all(page).await?;
    }
    let scope = PauseScope::target("mail")?;
    store.pause(&scope, "").await?;
    let relay = scene
        .relay(RelaySettings { poll: Duration::from_millis(20), ..RelaySettings::default() })
        .await?;
    store.send_all(&[message("event", "events.x", None)?]).await?;
    scene.arrived(&scene.events, 1).await?;
    scene
        .until("all of it is set aside", async || {
            let stats = store.stats().await?;
            Ok(stats.paused + stats.held == ROWS as u64)
        })
        .await?;
    let sent = Instant::now();
    store.send_all(&[message("another", "events.x", None)?]).await?;
    scene.arrived(&scene.events, 2).await?;
    let took = sent.elapsed();
    assert!(took < Duration::from_secs(5), "a new message took {took:?} beside the backlog");
    assert!(scene.mail.deliveries().is_empty());
    store.resume(Some(&scope)).await?;
    scene.arrived(&scene.mail, ROWS).await?;
    scene.drained().await?;
    relay.stop().await?;
    assert_key_order(&scene.mail.deliveries());
    assert_eq!((scene.mail.deliveries().len(), scene.mail.tally().repeated), (ROWS, 0));
    Ok(())
}
