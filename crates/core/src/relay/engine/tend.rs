//! Tending: what is paused, and bringing back what is parked for nothing any more.
//!
//! One call each poll interval, beside the looks. No look begins before the first one has told what is
//! paused: a relay that starts publishes nothing that an operator has stopped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Event, STORE_WAITS};
use crate::error::Result;
use crate::message::{Message, TopicPattern};
use crate::relay::route::Routes;
use crate::store::{Outcome, ParkedFor, Pause, PauseScope, Tend, Tended};

/// A pause is seen after this long at the latest, however seldom the relay polls.
const TEND_EVERY_MAX: Duration = Duration::from_secs(1);
/// While rows come back, the next ones are asked for after this long.
const TEND_AGAIN: Duration = Duration::from_millis(20);
/// So many rows come back at once where a pause has ended.
const RECALLED_MAX: usize = 5_000;

pub(super) struct Tends {
    running: bool,
    pub(super) failures: u32,
    next: Instant,
    /// What is paused is known.
    pub(super) told: bool,
    paused: Paused,
}

impl Tends {
    pub(super) fn new(now: Instant) -> Self {
        Self { running: false, failures: 0, next: now, told: false, paused: Paused::default() }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.running).then_some(self.next)
    }
}

/// The pauses, as a message is held against them.
#[derive(Default)]
struct Paused {
    pauses: Vec<Pause>,
    keys: HashMap<String, Arc<str>>,
    topics: Vec<(TopicPattern, Arc<str>)>,
    /// By the target's place.
    targets: HashMap<usize, Arc<str>>,
}

impl Paused {
    fn new(pauses: Vec<Pause>, routes: &Routes) -> Self {
        let mut paused = Self::default();
        for pause in &pauses {
            let mark: Arc<str> = ParkedFor::Pause(pause.scope.clone()).mark().into();
            match &pause.scope {
                PauseScope::Key(key) => drop(paused.keys.insert(key.clone(), mark)),
                PauseScope::Topic(topics) => paused.topics.push((topics.clone(), mark)),
                PauseScope::Target(name) => {
                    let place = routes.list().iter().position(|target| target.name() == name);
                    paused.targets.extend(place.map(|place| (place, mark)));
                }
            }
        }
        paused.pauses = pauses;
        paused
    }

    fn mark_of(&self, message: &Message, target: Option<usize>) -> Option<&Arc<str>> {
        if self.pauses.is_empty() || message.is_reserved() {
            return None;
        }
        let by_key = message.key().and_then(|key| self.keys.get(key));
        let mut topics = self.topics.iter();
        by_key
            .or_else(|| topics.find_map(|(of, mark)| of.matches(message.topic()).then_some(mark)))
            .or_else(|| self.targets.get(&target?))
    }
}

impl Engine {
    pub(super) fn begin_tend(&mut self, now: Instant) {
        if self.tends.running || now < self.tends.next || self.stop_by.is_some() {
            return;
        }
        self.tends.running = true;
        let request =
            Tend { relay: self.parts.id.clone(), targets: self.rooms(now), rows_max: RECALLED_MAX };
        let store = self.parts.store.clone();
        self.tasks.spawn(async move { Event::Tended(store.tend(&request).await) });
    }

    pub(super) fn on_tended(&mut self, result: Result<Tended>, now: Instant) {
        self.tends.running = false;
        match result {
            Err(error) => {
                self.tends.failures += 1;
                self.tends.next = now + STORE_WAITS.wait_with_jitter(self.tends.failures);
                self.store_failed(error);
            }
            Ok(Tended { pauses, recalled }) => {
                self.tends.failures = 0;
                self.store_answered();
                self.tends.told = true;
                self.tends.next = now + self.poll_interval().min(TEND_EVERY_MAX);
                if recalled > 0 {
                    self.tends.next = now + TEND_AGAIN;
                    self.looks.waiting_in(now, Duration::ZERO);
                }
                if pauses != self.tends.paused.pauses {
                    self.tends.paused = Paused::new(pauses, &self.parts.routes);
                    self.park_paused();
                }
            }
        }
    }

    /// The mark of the pause that the message falls under. The target is its place in the routes.
    pub(super) fn paused(&self, message: &Message, target: Option<usize>) -> Option<Arc<str>> {
        self.tends.paused.mark_of(message, target).cloned()
    }

    /// Parks what is queued and paused by now. What is in flight goes on, and so does what may have
    /// left: whether it did is unknown.
    fn park_paused(&mut self) {
        let paused = &self.tends.paused;
        let queued = self
            .window
            .queued_of(|target, message| paused.mark_of(message, Some(target)).is_some());
        for seq in queued {
            let entry = self.window.get(seq);
            let mark = entry.and_then(|entry| {
                let message = entry.message.as_ref()?;
                self.tends.paused.mark_of(message, Some(entry.outlet)).cloned()
            });
            if let Some(mark) = mark {
                self.park_queued(seq, mark);
            }
        }
    }

    /// Parks a row that is queued.
    pub(super) fn park_queued(&mut self, seq: i64, mark: Arc<str>) {
        self.judge(seq, Outcome::Parked { mark }, None);
        for lane in self.window.parked(seq) {
            self.lanes.forgot_of_key(lane, self.looks.begun);
        }
    }
}
