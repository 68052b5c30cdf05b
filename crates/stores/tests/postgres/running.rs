//! A whole relay on a PostgreSQL store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::memory::MemoryPublisher;
use sendoff_core::relay::{Backoff, Readiness, RelaySettings, Report, Tally};
use sendoff_core::store::{OutboxDesk, Stats};
use sendoff_core::{ErrorKind, Relay};
use sendoff_stores::postgres::PostgresStore;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::stage::eventually;

/// A relay that runs, and what it reported of the store.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Tally>,
    pub(crate) ready: Readiness,
    pub(crate) failures: Arc<Mutex<Vec<(ErrorKind, String)>>>,
}

pub(crate) fn relay(store: PostgresStore, target: &MemoryPublisher) -> Running {
    // No lease lapses in these tests, so nothing has to be published twice.
    relay_with(store, target, Duration::from_secs(60))
}

pub(crate) fn relay_with(
    store: PostgresStore,
    target: &MemoryPublisher,
    lease: Duration,
) -> Running {
    let failures: Arc<Mutex<Vec<(ErrorKind, String)>>> = Arc::default();
    let heard = Arc::clone(&failures);
    let relay = Relay::builder(Arc::new(store), Arc::new(target.clone()))
        .settings(RelaySettings {
            lease,
            poll: Duration::from_millis(20),
            backoff: Backoff { first: Duration::from_millis(20), max: Duration::from_millis(80) },
            ..RelaySettings::default()
        })
        .report(move |report| {
            if let Report::StoreFailed(error) = report {
                heard.lock().unwrap().push((error.kind(), error.to_string()));
            }
        })
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ready = relay.readiness();
    let task = tokio::spawn(relay.run(async move { drop(stopped.await) }));
    Running { stop: Some(stop), task, ready, failures }
}

impl Running {
    /// Whether it reported a failure of this kind.
    pub(crate) fn told(&self, kind: ErrorKind) -> bool {
        self.failures.lock().unwrap().iter().any(|(told, _)| *told == kind)
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap();
    }
}

/// Waits until nothing is left in the store.
pub(crate) async fn drained(store: &PostgresStore) -> Stats {
    eventually("everything is published", || async {
        let stats = store.stats().await.ok()?;
        (stats.pending + stats.held + stats.quarantined == 0).then_some(stats)
    })
    .await
}
