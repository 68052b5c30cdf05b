//! The loop: one task that owns the relay's whole state and waits for the next thing to happen.
//!
//! Calls to the store run as tasks of their own, at most one of each kind (front look, back look,
//! settlement, lease, sweep, tend), so that rows are decoded beside the loop; publishes are futures of
//! the loop, or handed over to a publisher that takes many at once. Nothing is locked, since nothing is shared.

mod backlog;
mod destination;
mod drain;
mod gate;
mod hand_over;
mod join;
mod judge;
mod lease;
mod look;
mod outlet;
mod publish;
mod settle;
mod tend;
mod users_code;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::lane::Lane;
use crate::relay::backoff::Backoff;
use crate::relay::lanes::Lanes;
use crate::relay::policy::Hold;
use crate::relay::report::{Report, Tally};
use crate::relay::window::Window;
use crate::relay::{Parts, Progress};
use crate::store::{Backlog, LeaseGrant, Settled, Tended, Verdict};

/// Waits after a failed call to the store.
const STORE_WAITS: Backoff =
    Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) };

/// So many results of publishes are taken before the loop looks around again.
const RESULTS_AT_ONCE: usize = 256;

/// Something that a task of the engine's came back with.
enum Event {
    Looked(look::Done),
    Settled(Vec<Verdict>, Vec<judge::Told>, Result<Settled>),
    Leased(Duration, Result<LeaseGrant>),
    Swept(Result<u64>),
    Tended(Result<Tended>),
    /// The outlet's publisher has discarded its connection.
    Reset(usize),
    Counted(Duration, Result<Backlog>),
}

pub(super) struct Engine {
    parts: Parts,
    lanes: Lanes,
    window: Window,
    /// One for each target, in the order of the routes, and the last one for the store's errands.
    outlets: Vec<outlet::Outlet>,
    verdicts: VecDeque<judge::Judged>,
    begun: Vec<publish::Begun>,
    tasks: JoinSet<Event>,
    looks: look::Looks,
    joins: HashMap<i64, join::Join>,
    settles: settle::Settles,
    leases: lease::Leases,
    publishing: publish::Publishing,
    tends: tend::Tends,
    counts: backlog::Counts,
    /// Whether it may begin anything.
    standing: gate::Standing,
    /// When a stop that was asked for has to end.
    cancel_at: Option<Instant>,
    drain: Option<drain::Drain>,
    /// The same, once nothing is claimed any more.
    stop_by: Option<Instant>,
}

/// Runs an engine until `stop` is done and everything is in order, or its time is up.
pub(super) async fn run(parts: Parts, stop: impl Future<Output = ()> + Send) -> Tally {
    let progress: Progress = parts.progress.clone();
    let readiness = parts.readiness.clone();
    let wake = parts.wake.clone();
    let receiving = readiness.receiving();
    let mut keeper = gate::Keeper::new(parts.gate.clone());
    let listener = Listener::spawn(&parts);
    let mut engine = Engine::new(parts);
    let mut stop = pin!(stop.fuse());
    let mut publishes = FuturesUnordered::new();
    let replies = engine.publishing.handed_over.replies();
    loop {
        let now = Instant::now();
        engine.end_overdue(now);
        engine.look_after_drain(now);
        engine.give_back_when_at_rest(&mut keeper, now);
        engine.begin_what_can_begin(now);
        if engine.has_stopped(now) {
            break;
        }
        publishes.extend(engine.begun.drain(..).map(publish::Begun::publish));
        let wait_until = engine.next_deadline(now);
        tokio::select! {
            biased;
            () = &mut stop, if !engine.is_stopping() => engine.stop(),
            turn = keeper.turn() => engine.on_turn(&mut keeper, turn, Instant::now()),
            Some(ended) = engine.tasks.join_next() => engine.on_task(ended),
            () = replies.arrived() => engine.on_answers(),
            Some(ended) = publishes.next() => {
                let now = Instant::now();
                engine.on_published(ended, now);
                for _ in 0..RESULTS_AT_ONCE {
                    let Some(ended) = publishes.next().now_or_never().flatten() else { break };
                    engine.on_published(ended, now);
                }
            }
            () = wake.woken(), if engine.stop_by.is_none() => engine.looks.want(),
            () = tokio::time::sleep_until(wait_until) => {}
        }
    }
    drop(listener);
    if engine.standing == gate::Standing::Shut {
        // Not beside somebody who holds the gate: the leases lapse.
        engine.tasks.shutdown().await;
    } else {
        engine.leave().await;
    }
    drop(receiving);
    progress.tally()
}

fn window_of(parts: &Parts, outlets: usize) -> Window {
    match parts.settings.hold {
        Hold::All => Window::strict(outlets),
        Hold::Key | Hold::None => Window::new(outlets),
    }
}

/// Turns the store's news into wake-ups. Ends with the relay.
struct Listener(tokio::task::JoinHandle<()>);

impl Listener {
    fn spawn(parts: &Parts) -> Self {
        let store = parts.store.clone();
        let wake = parts.wake.clone();
        Self(tokio::spawn(async move {
            let mut failures = 0;
            loop {
                match store.news().await {
                    Ok(()) => {
                        failures = 0;
                        wake.wake();
                    }
                    Err(error) => {
                        // The poll finds what a lost hint does not; the looks report the database.
                        failures += 1;
                        tracing::debug!(%error, "listening for news failed; polling goes on");
                        tokio::time::sleep(STORE_WAITS.wait_with_jitter(failures)).await;
                    }
                }
            }
        }))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    fn new(parts: Parts) -> Self {
        let now = Instant::now();
        let outlets = parts.routes.list().len() + 1;
        Self {
            tends: tend::Tends::new(now),
            looks: look::Looks::new(now),
            joins: HashMap::new(),
            settles: settle::Settles::new(now),
            leases: lease::Leases::new(now),
            publishing: publish::Publishing::default(),
            counts: backlog::Counts::new(now, &parts.settings.alerts),
            standing: Self::standing_at(parts.gate.as_ref()),
            lanes: Lanes::default(),
            window: window_of(&parts, outlets),
            outlets: std::iter::repeat_with(Default::default).take(outlets).collect(),
            verdicts: VecDeque::new(),
            begun: Vec::new(),
            tasks: JoinSet::new(),
            cancel_at: None,
            drain: None,
            stop_by: None,
            parts,
        }
    }

    /// Whether messages leave one by one, in the order of all sends.
    fn is_strict(&self) -> bool {
        self.parts.settings.hold == Hold::All
    }

    fn begin_what_can_begin(&mut self, now: Instant) {
        self.begin_settle(now);
        if self.standing == gate::Standing::Open {
            self.begin_lease(now);
            self.begin_tend(now);
            self.watch_shares(now);
            self.begin_publishes(now);
            self.begin_looks(now);
            self.begin_count(now);
        }
        let progress = &self.parts.progress;
        progress.targets_are_down(self.targets_down());
        progress.gauge(
            self.window.rows() as u64,
            self.window.bytes() as u64,
            self.window.in_flight() as u64,
            self.lanes.len() as u64,
        );
    }

    fn next_deadline(&self, now: Instant) -> Instant {
        let far = now + Duration::from_secs(60);
        let is_open = self.standing == gate::Standing::Open;
        [
            self.leases.deadline().filter(|_| is_open && !self.settles.releasing),
            self.settles.deadline(!self.verdicts.is_empty()),
            self.looks_deadline(now).filter(|_| is_open),
            self.publishing_deadline(now),
            self.tends.deadline().filter(|_| is_open && self.stop_by.is_none()),
            self.count_deadline().filter(|_| is_open),
            self.drain_deadline(),
            self.cancel_at,
        ]
        .into_iter()
        .flatten()
        .fold(far, Instant::min)
    }

    fn on_task(&mut self, ended: Result<Event, tokio::task::JoinError>) {
        let now = Instant::now();
        match ended {
            Ok(Event::Looked(done)) => self.on_looked(done, now),
            Ok(Event::Settled(verdicts, told, result)) => {
                self.on_settled(verdicts, told, result, now);
            }
            Ok(Event::Leased(asked_at, result)) => self.on_leased(asked_at, result, now),
            Ok(Event::Swept(result)) => self.on_swept(&result, now),
            Ok(Event::Tended(result)) => self.on_tended(result, now),
            Ok(Event::Reset(outlet)) => self.outlets[outlet].resetting = false,
            Ok(Event::Counted(took, result)) => self.on_counted(took, result, now),
            Err(error) => self.on_panic(&error, now),
        }
    }

    /// A call to the store panicked. The relay begins anew with what the store says: nothing that
    /// was not settled is lost, some of it may be published again.
    fn on_panic(&mut self, error: &tokio::task::JoinError, now: Instant) {
        self.store_failed(
            Error::new(ErrorKind::Unexpected, "calling the store")
                .subject(self.parts.store.address())
                .detail(format!("the call ended without an answer: {error}")),
        );
        self.tasks = JoinSet::new();
        self.window = window_of(&self.parts, self.outlets.len());
        self.lanes = Lanes::default();
        self.verdicts = VecDeque::new();
        self.looks = look::Looks::new(now);
        self.joins = HashMap::new();
        self.settles = settle::Settles::new(now);
        self.leases = lease::Leases::new(now + STORE_WAITS.first);
        self.publishing.begin_next_round();
        self.outlets.iter_mut().for_each(outlet::Outlet::begin_next_round);
        self.tends = tend::Tends::new(now + STORE_WAITS.first);
        self.counts.call_ended(now);
    }

    fn has_stopped(&self, now: Instant) -> bool {
        let Some(stop_by) = self.stop_by else {
            return false;
        };
        let in_order =
            self.window.in_flight() == 0 && self.verdicts.is_empty() && !self.settles.running;
        in_order || now >= stop_by
    }

    fn forget_queued(&mut self, keep_unknown: bool, of: impl Fn(Lane) -> bool) {
        for lane in self.window.forget_queued(keep_unknown, of) {
            self.forgot_lane(lane);
        }
    }

    /// Rows of the lane were forgotten. In one line of all rows, what looks that are under way give of
    /// the other lanes may belong behind those.
    fn forgot_lane(&mut self, lane: Lane) {
        if self.is_strict() {
            self.lanes.forgot_all(self.looks.begun);
        } else {
            self.lanes.forgot(lane, self.looks.begun);
        }
    }

    fn store_failed(&self, error: Error) {
        // What fails after a stop says nothing of a relay that goes on.
        if !self.is_stopping() {
            self.parts.readiness.set(false);
        }
        self.parts.progress.store_failures(1);
        self.report(&Report::StoreFailed(error));
    }

    /// The store answered; the relay is ready if nothing else of it is failing.
    fn store_answered(&self) {
        let failures =
            [self.looks.failures, self.settles.failures, self.leases.failures, self.tends.failures];
        if failures.iter().all(|failures| *failures == 0) {
            self.parts.readiness.set(true);
        }
    }
}
