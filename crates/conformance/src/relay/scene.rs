//! What the cases act with: a store, a target, and a relay of one kind or the other between them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sendoff_core::memory::MemoryPublisher;
use sendoff_core::publisher::Publisher;
use sendoff_core::relay::{
    Backoff, Gate, Progress, Readiness, Relay, RelaySettings, Report, RowLockRelay,
    RowLockSettings, Tally,
};
use sendoff_core::{Message, Result, Wake};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::store::Subject;
use crate::store::stage::{Stage, message};

/// A kind of relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Lanes,
    RowLocks,
}

pub(super) const KINDS: [Kind; 2] = [Kind::Lanes, Kind::RowLocks];

/// Long enough for whatever is to happen at once, on a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(15);

/// Between two looks at what is waited for: as long as the wait lets a clock that stands still go on.
const TICK: Duration = Duration::from_millis(5);

/// What both kinds of relay are set to.
#[derive(Debug, Clone)]
pub(super) struct Knobs {
    /// Of a relay with lanes. Longer than any case, unless the case is about it.
    pub(super) lease: Duration,
    pub(super) publish_timeout: Duration,
    pub(super) drain: Duration,
    pub(super) cancel_after: Duration,
    pub(super) batch: usize,
    /// Of a relay with lanes.
    pub(super) in_flight_max: usize,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(300),
            publish_timeout: Duration::from_secs(20),
            drain: Duration::ZERO,
            cancel_after: Duration::from_secs(60),
            batch: 1,
            in_flight_max: 100,
        }
    }
}

pub(super) struct Scene<S> {
    pub(super) stage: Stage<S>,
    pub(super) target: MemoryPublisher,
    wake: Wake,
}

/// What a relay reported, as the cases need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) what: String,
    pub(super) seq: i64,
    /// The message's id, where there is one.
    pub(super) id: Option<String>,
    pub(super) error: String,
    /// The words of what is behind the error.
    pub(super) cause: Option<String>,
}

/// A relay that runs.
pub(super) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Tally>,
    pub(super) readiness: Readiness,
    pub(super) progress: Progress,
    pub(super) told: Arc<Mutex<Vec<Told>>>,
}

impl<S: Subject> Scene<S> {
    pub(super) async fn new() -> Result<Self> {
        let (target, wake) = (MemoryPublisher::new(), Wake::new());
        Ok(Self { stage: Stage::new().await?, target, wake })
    }

    pub(super) async fn send(&self, ids: &[&str]) -> Result<()> {
        let messages =
            ids.iter().map(|id| message(id).key("k").build()).collect::<Result<Vec<Message>>>()?;
        self.send_all(&messages).await
    }

    pub(super) async fn send_all(&self, messages: &[Message]) -> Result<()> {
        self.stage.send(messages).await?;
        self.wake.wake();
        Ok(())
    }

    pub(super) async fn run(&self, kind: Kind, knobs: &Knobs) -> Result<Running> {
        self.run_to(kind, knobs, Arc::new(self.target.clone()), None::<Never>).await
    }

    pub(super) async fn run_gated(
        &self,
        kind: Kind,
        knobs: &Knobs,
        gate: impl Gate,
    ) -> Result<Running> {
        self.run_to(kind, knobs, Arc::new(self.target.clone()), Some(gate)).await
    }

    pub(super) async fn run_to(
        &self,
        kind: Kind,
        knobs: &Knobs,
        target: Arc<dyn Publisher>,
        gate: Option<impl Gate>,
    ) -> Result<Running> {
        let store = self.stage.subject.open().await?;
        let told = Arc::new(Mutex::new(Vec::new()));
        let hook = {
            let told = Arc::clone(&told);
            move |report: &Report| {
                told.lock().unwrap_or_else(PoisonError::into_inner).push(Told::of(report));
            }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let (readiness, progress, task) = match kind {
            Kind::Lanes => {
                let relay = Relay::builder(store, target).settings(lanes(knobs)).report(hook);
                let relay = match gate {
                    Some(gate) => relay.gate(gate),
                    None => relay,
                };
                let relay = relay.wake(self.wake.clone()).build()?;
                (relay.readiness(), relay.progress(), tokio::spawn(relay.run(stopped)))
            }
            Kind::RowLocks => {
                let relay = RowLockRelay::builder(store.claims(), target)
                    .settings(row_locks(knobs))
                    .report(hook);
                let relay = match gate {
                    Some(gate) => relay.gate(gate),
                    None => relay,
                };
                let relay = relay.wake(self.wake.clone()).build()?;
                (relay.readiness(), relay.progress(), tokio::spawn(relay.run(stopped)))
            }
        };
        Ok(Running { stop: Some(stop), task, readiness, progress, told })
    }

    /// Waits until so many messages were published, by the store's count.
    pub(super) async fn published(&self, count: u64) -> Result<()> {
        self.stage
            .eventually("so many are published", || async {
                tokio::time::sleep(TICK).await;
                Ok((self.stage.store.stats().await?.published >= count).then_some(()))
            })
            .await
    }

    /// Waits, while the database's time passes, for a condition.
    pub(super) async fn until(&self, what: &str, holds: impl Fn() -> bool) -> Result<()> {
        let holds = &holds;
        let found = || async move {
            tokio::time::sleep(TICK).await;
            Ok(holds().then_some(()))
        };
        self.stage.eventually(what, found).await
    }
}

pub(super) fn lanes(knobs: &Knobs) -> RelaySettings {
    RelaySettings {
        lease: knobs.lease,
        publish_timeout: knobs.publish_timeout,
        poll: Duration::from_millis(20),
        in_flight_max: knobs.in_flight_max,
        backoff: Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) },
        drain: knobs.drain,
        cancel_after: knobs.cancel_after,
        ..RelaySettings::default()
    }
}

pub(super) fn row_locks(knobs: &Knobs) -> RowLockSettings {
    RowLockSettings {
        batch: knobs.batch,
        publish_timeout: knobs.publish_timeout,
        poll: Duration::from_millis(20),
        drain: knobs.drain,
        cancel_after: knobs.cancel_after,
        ..RowLockSettings::default()
    }
}

impl Told {
    fn of(report: &Report) -> Self {
        use std::error::Error as _;
        let told = |what: &str, seq, message: Option<&Message>, error: String, cause| Self {
            what: what.to_owned(),
            seq,
            id: message.map(|message| message.id().to_owned()),
            error,
            cause,
        };
        match report {
            Report::Quarantined { seq, message, reason, error, cause, .. } => {
                let what = format!("quarantined: {}", reason.as_str());
                told(&what, *seq, message.as_ref(), error.clone(), Some(cause.to_string()))
            }
            Report::PublishFailed { seq, message, error, .. } => {
                let cause = error.source().map(ToString::to_string);
                told("failed", *seq, Some(message), error.to_string(), cause)
            }
            Report::StoreFailed(error) => {
                told(&format!("store: {}", error.kind().as_str()), 0, None, error.to_string(), None)
            }
            Report::GateFailed(error) => told("gate", 0, None, error.to_string(), None),
            other => told(&format!("{other:?}"), 0, None, String::new(), None),
        }
    }
}

impl Running {
    /// Asks for the stop, and does not wait for it.
    pub(super) fn ask(&mut self) {
        drop(self.stop.take());
    }

    /// Asks for the stop where nobody has, and waits for the end. Answers how long that took.
    pub(super) async fn ended(mut self) -> (Tally, Duration) {
        self.ask();
        let begun = Instant::now();
        let tally = tokio::time::timeout(SOON * 4, self.task).await;
        (tally.expect("it stops").expect("it does not panic"), begun.elapsed())
    }

    /// As a crash: its future is dropped where it stands.
    pub(super) async fn killed(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()));
    }

    pub(super) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn told_of(&self, what: &str) -> Vec<Told> {
        let mut told = self.told();
        told.retain(|told| told.what.starts_with(what));
        told
    }
}

/// No gate.
#[derive(Debug)]
pub(super) enum Never {}

#[async_trait::async_trait]
impl Gate for Never {
    async fn shared(&self) -> Result<sendoff_core::relay::GateHold> {
        match *self {}
    }
}
