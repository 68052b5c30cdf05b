//! A publisher that marks what is handed over and confirmed, and fails some messages on purpose.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sendoff::publisher::{Answers, HandOver, PublishClass, PublisherLimits};
use sendoff::{Message, PublishError, Publisher};
use uuid::Uuid;

use super::must;
use crate::marks::{Marks, Phase};
use crate::order::POISON_TOPIC;

/// Which publishes fail on purpose, before anything is sent.
#[derive(Debug)]
pub struct Trouble {
    /// Of so many messages one fails the first time that this process tries it.
    pub fails_one_in: u128,
    /// Of so many messages one fails the first `STUBBORN_TIMES` times, for longer than a relay is
    /// stopped: its row is still there when a verdict of one that woke up comes too late.
    pub stubborn_one_in: u128,
    /// Messages to [`POISON_TOPIC`] fail for good until this file is there. Without one there is no poison.
    pub healed: Option<PathBuf>,
}

/// How often a stubborn message fails in one process.
const STUBBORN_TIMES: u32 = 8;

/// A stubborn message that will fail so often again is worth a strike.
const WORTH_A_STRIKE: u32 = 3;

/// A publisher that marks what is handed over and confirmed.
#[derive(Debug)]
pub struct WatchedPublisher {
    inner: Arc<dyn Publisher>,
    marks: Arc<Marks>,
    trouble: Trouble,
    publish_timeout: Duration,
    failed: Mutex<HashMap<u128, u32>>,
    relay: OnceLock<String>,
}

impl WatchedPublisher {
    /// Watches a publisher.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Publisher>,
        marks: Arc<Marks>,
        trouble: Trouble,
        publish_timeout: Duration,
    ) -> Self {
        Self {
            inner,
            marks,
            trouble,
            publish_timeout,
            failed: Mutex::default(),
            relay: OnceLock::new(),
        }
    }

    /// Names the relay that it publishes for. Failures on purpose carry the name, so that the
    /// database can be asked whose verdict it took: see [`crate::ground::Ground::foreign_verdicts`].
    pub fn name_relay(&self, relay: &str) {
        // Once, before the relay runs.
        drop(self.relay.set(relay.to_owned()));
    }

    fn on_purpose(&self, what: &str) -> String {
        match self.relay.get() {
            Some(relay) => format!("{what} on purpose by relay {relay}"),
            // Nobody owns a lane, so nobody is asked.
            None => format!("{what} on purpose"),
        }
    }

    fn fails(&self, message: &Message, id: u128) -> Option<PublishError> {
        let healed = self.trouble.healed.as_ref().is_none_or(|healed| healed.exists());
        if message.topic() == POISON_TOPIC && !healed {
            return Some(PublishError::permanent(self.on_purpose("poison")));
        }
        let times = if id.is_multiple_of(self.trouble.stubborn_one_in) {
            STUBBORN_TIMES
        } else {
            u32::from(id.is_multiple_of(self.trouble.fails_one_in))
        };
        if times == 0 {
            return None;
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = failed.entry(id).or_default();
        if *failures == times {
            return None;
        }
        *failures += 1;
        if times - *failures >= WORTH_A_STRIKE {
            must(self.marks.enter(Phase::Failing, id));
        }
        Some(PublishError::failed(self.on_purpose("a failure")))
    }
}

#[async_trait]
impl Publisher for WatchedPublisher {
    fn address(&self) -> &str {
        self.inner.address()
    }

    fn limits(&self) -> PublisherLimits {
        self.inner.limits()
    }

    fn check(&self, message: &Message) -> Result<(), PublishError> {
        self.inner.check(message)
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        let Ok(id) = Uuid::try_parse(message.id()).map(|id| id.as_u128()) else {
            return Err(PublishError::permanent("the harness sends UUIDs only"));
        };
        if let Some(error) = self.fails(message, id) {
            return Err(error);
        }
        must(self.marks.publish(id));
        let mut ended = Ended { marks: &self.marks, id, phase: Phase::Unknown };
        let result = self.inner.publish(message).await;
        ended.phase = phase_of(&result);
        drop(ended);
        result
    }

    fn hand_over(&self, batch: HandOver) -> Result<(), HandOver> {
        let HandOver { messages, answers } = batch;
        let mut going = Vec::with_capacity(messages.len());
        let mut ids = HashMap::with_capacity(messages.len());
        for (ticket, message) in messages {
            let Ok(id) = Uuid::try_parse(message.id()).map(|id| id.as_u128()) else {
                let error = PublishError::permanent("the harness sends UUIDs only");
                answers.answer(ticket, Err(error));
                continue;
            };
            if let Some(error) = self.fails(&message, id) {
                answers.answer(ticket, Err(error));
                continue;
            }
            // As a publisher asks right before the bytes leave: the process may have stood still.
            if !answers.may_leave() {
                answers.not_sent(ticket);
                continue;
            }
            must(self.marks.publish(id));
            ids.insert(ticket, id);
            going.push((ticket, message));
        }
        let watched = WatchedAnswers {
            answers: Arc::clone(&answers),
            marks: Arc::clone(&self.marks),
            ids,
            // Marking takes a moment too.
            in_time_until: Instant::now() + self.publish_timeout.mul_f64(0.75),
        };
        let batch = HandOver { messages: going, answers: Arc::new(watched) };
        self.inner.hand_over(batch).map_err(|HandOver { messages, .. }| {
            for (_, message) in &messages {
                if let Ok(id) = Uuid::try_parse(message.id()) {
                    must(self.marks.enter(Phase::Refused, id.as_u128()));
                }
            }
            HandOver { messages, answers }
        })
    }

    async fn reset(&self) {
        self.inner.reset().await;
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// Marks how publishes that were handed over have ended. One without an answer keeps its mark: it
/// is handed over, and nothing more is known.
#[derive(Debug)]
struct WatchedAnswers {
    answers: Arc<dyn Answers>,
    marks: Arc<Marks>,
    ids: HashMap<u64, u128>,
    /// The relay waits a little longer than this, and then takes no answer any more.
    in_time_until: Instant,
}

impl WatchedAnswers {
    /// Whether the relay may have given up: to it the outcome is unknown then.
    fn may_be_late(&self) -> bool {
        Instant::now() >= self.in_time_until || !self.answers.may_leave()
    }

    fn enter(&self, phase: Phase, ticket: u64) {
        if let Some(id) = self.ids.get(&ticket) {
            must(self.marks.enter(phase, *id));
        }
    }
}

impl Answers for WatchedAnswers {
    fn may_leave(&self) -> bool {
        self.answers.may_leave()
    }

    fn answer(&self, ticket: u64, result: Result<(), PublishError>) {
        let phase = if self.may_be_late() { Phase::Unknown } else { phase_of(&result) };
        self.enter(phase, ticket);
        self.answers.answer(ticket, result);
    }

    fn not_sent(&self, ticket: u64) {
        self.enter(Phase::Refused, ticket);
        self.answers.not_sent(ticket);
    }
}

fn phase_of(result: &Result<(), PublishError>) -> Phase {
    match result.as_ref().map_err(PublishError::class) {
        Ok(()) => Phase::Confirmed,
        Err(PublishClass::Lost | PublishClass::TimedOut) => Phase::Unknown,
        Err(_) => Phase::Refused,
    }
}

/// Marks how a publish ended, also when the relay dropped it at its timeout.
struct Ended<'a> {
    marks: &'a Marks,
    id: u128,
    phase: Phase,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        must(self.marks.enter(self.phase, self.id));
    }
}
