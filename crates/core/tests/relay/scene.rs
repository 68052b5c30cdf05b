//! A store, a publisher, and relays between them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::memory::{Delivery, MemoryPublisher, MemoryStore};
use sendoff_core::relay::{Backoff, Progress, Readiness, RelaySettings, Report, Tally, Timings};
use sendoff_core::store::{OutboxDesk, OutboxStore};
use sendoff_core::{Message, Publisher, Relay, Wake};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing in these tests takes longer than this unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Scene {
    pub(crate) store: MemoryStore,
    pub(crate) target: MemoryPublisher,
    pub(crate) wake: Wake,
}

/// A relay that runs.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Tally>,
    pub(crate) progress: Progress,
    pub(crate) readiness: Readiness,
    pub(crate) timings: Timings,
    pub(crate) reports: Arc<Mutex<Vec<String>>>,
}

/// Short times, so that what has to wait for a lease or a retry does not wait long.
pub(crate) fn quick() -> RelaySettings {
    RelaySettings {
        lease: Duration::from_millis(600),
        publish_timeout: Duration::from_millis(250),
        poll: Duration::from_millis(20),
        backoff: Backoff { first: Duration::from_millis(20), max: Duration::from_millis(80) },
        cancel_after: Duration::from_secs(2),
        ..RelaySettings::default()
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { store: MemoryStore::new(), target: MemoryPublisher::new(), wake: Wake::new() }
    }

    pub(crate) async fn send(&self, messages: &[Message]) {
        self.store.send_all(messages).await.expect("the store takes it");
        self.wake.wake();
    }

    pub(crate) fn relay(&self, settings: RelaySettings) -> Running {
        self.relay_between(Arc::new(self.store.another()), Arc::new(self.target.clone()), settings)
    }

    pub(crate) fn relay_between(
        &self,
        store: Arc<dyn OutboxStore>,
        target: Arc<dyn Publisher>,
        settings: RelaySettings,
    ) -> Running {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&reports);
        let relay = Relay::builder(store, target)
            .settings(settings)
            .wake(self.wake.clone())
            .report(move |report| heard.lock().expect("no panic").push(word(report)))
            .build()
            .expect("the settings are in range");
        let (stop, stopped) = oneshot::channel::<()>();
        let (progress, readiness) = (relay.progress(), relay.readiness());
        let timings = relay.timings();
        let task = tokio::spawn(relay.run(async move { drop(stopped.await) }));
        Running { stop: Some(stop), task, progress, readiness, timings, reports }
    }

    pub(crate) async fn delivered(&self, count: usize) {
        tokio::time::timeout(LONG, self.target.delivered(count)).await.unwrap_or_else(|_| {
            panic!("{} of {count} arrived", self.target.deliveries().len());
        });
    }

    /// Waits until the store has nothing pending.
    pub(crate) async fn settled(&self) {
        until("the store is drained", async || {
            let stats = self.store.stats().await.expect("stats");
            stats.pending == 0
        })
        .await;
    }
}

fn word(report: &Report) -> String {
    match report {
        Report::Quarantined { seq, reason, .. } => format!("quarantined {seq} {}", reason.as_str()),
        Report::PublishFailed { message, .. } => format!("failed {}", message.id()),
        Report::TargetDown { .. } => "down".to_owned(),
        Report::TargetUp { .. } => "up".to_owned(),
        Report::StoreFailed(_) => "store".to_owned(),
        Report::Fenced { seqs } => format!("fenced {}", seqs.len()),
        other => format!("{other:?}"),
    }
}

impl Running {
    pub(crate) async fn stop(mut self) -> Tally {
        drop(self.stop.take());
        tokio::time::timeout(LONG, self.task).await.expect("it stops").expect("it does not panic")
    }

    /// As a crash: nothing is given back.
    pub(crate) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }

    pub(crate) fn heard(&self, what: &str) -> bool {
        self.count(what) > 0
    }

    /// How often it was told.
    pub(crate) fn count(&self, what: &str) -> usize {
        let reports = self.reports.lock().expect("no panic");
        reports.iter().filter(|report| report.starts_with(what)).count()
    }
}

/// Waits for a condition, and says which one did not come.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waited).await.unwrap_or_else(|_| panic!("waited for: {what}"));
}

pub(crate) fn message(id: impl std::fmt::Display, key: Option<&str>) -> Message {
    let mut builder = Message::builder("test", "topic").id(id.to_string()).body("body");
    if let Some(key) = key {
        builder = builder.key(key);
    }
    builder.build().expect("valid")
}

/// Panics unless the first deliveries of each key came in the order of their ids (numbers).
pub(crate) fn assert_key_order(deliveries: &[Delivery]) {
    let mut last: HashMap<&str, u64> = HashMap::new();
    for delivery in deliveries.iter().filter(|delivery| !delivery.repeated) {
        let Some(key) = delivery.message.key() else { continue };
        let id: u64 = delivery.message.id().parse().expect("ids are numbers");
        let before = last.insert(key, id);
        assert!(before.is_none_or(|before| before < id), "{id} of {key} came after {before:?}");
    }
}
