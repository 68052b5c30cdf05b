//! Publishes: what begins, and what each result means.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::hand_over::{Handed, HandedOver};
use super::{Engine, Event};
use crate::message::Message;
use crate::publisher::{HandOver, PublishClass, PublishError, Publisher};
use crate::relay::report::Report;
use crate::relay::trace::PublishSpan;
use crate::store::OutboxStore;
use crate::time::Clock;

/// A message that was alone in flight at so many connection losses counts as the cause.
const ALONE_LOSSES_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Publishing {
    /// Goes up when the relay begins anew with what the store says: results of publishes that
    /// began before mean nothing to it.
    round: u64,
    pub(super) handed_over: HandedOver,
}

impl Publishing {
    pub(super) fn begin_next_round(&mut self) {
        self.round += 1;
        self.handed_over.forget();
    }
}

/// Who takes a message.
pub(super) enum To {
    Target(Arc<dyn Publisher>),
    /// The store runs its own errands.
    Store(Arc<dyn OutboxStore>),
}

/// A publish of a publisher that takes one at a time, or an errand of the store's. The loop polls it:
/// a future without a box of its own, since there may be one for every message.
pub(super) struct Begun {
    to: To,
    seq: i64,
    message: Arc<Message>,
    timeout: Duration,
    /// The end of the lease, on the boot clock.
    valid_until: Duration,
    clock: Clock,
    round: u64,
    confirmed_before: u64,
    begun_at: Instant,
    span: PublishSpan,
}

impl Begun {
    pub(super) async fn publish(self) -> Ended {
        let Self { to, seq, message, timeout, valid_until, clock, .. } = self;
        // Asked once more where it really begins: the process may have stood still since.
        let left = valid_until.saturating_sub(clock.since_boot());
        let result = if left.is_zero() {
            None
        } else {
            let timeout = timeout.min(left);
            // A publisher that panics on one message must not take the others' relay with it.
            let publish = AssertUnwindSafe(async {
                match to {
                    To::Target(publisher) => publisher.publish(&message).await,
                    To::Store(store) => store.attend(&message).await,
                }
            })
            .catch_unwind();
            Some(match tokio::time::timeout(timeout, publish).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(PublishError::failed("the publisher panicked")),
                Err(_) => Err(timed_out(timeout)),
            })
        };
        let Self { round, confirmed_before, begun_at, span, .. } = self;
        Ended { seq, round, confirmed_before, begun_at, span, result }
    }
}

fn timed_out(timeout: Duration) -> PublishError {
    let detail = format!("no answer within {timeout:?}; whether it arrived is unknown");
    PublishError::new(PublishClass::TimedOut, detail)
}

/// A publish that has ended.
pub(super) struct Ended {
    seq: i64,
    /// The round of the relay in which it began.
    round: u64,
    /// How many had been confirmed when it began.
    confirmed_before: u64,
    begun_at: Instant,
    span: PublishSpan,
    /// `None` where it did not begin, since the lease had ended.
    result: Option<Result<(), PublishError>>,
}

impl Handed {
    fn ended(self, round: u64, result: Option<Result<(), PublishError>>) -> Ended {
        let Self { seq, confirmed_before, begun_at, span, .. } = self;
        Ended { seq, round, confirmed_before, begun_at, span, result }
    }
}

impl Engine {
    pub(super) fn begin_publishes(&mut self, now: Instant) {
        if self.stop_by.is_some() {
            return;
        }
        if self.is_strict() && !self.leases.whole {
            return;
        }
        for outlet in 0..self.outlets.len() {
            self.begin_publishes_through(outlet, now);
        }
    }

    fn begin_publishes_through(&mut self, outlet: usize, now: Instant) {
        if self.outlets[outlet].resetting {
            return;
        }
        let Some(in_flight_max) = self.in_flight_max(outlet, now) else {
            return;
        };
        if self.window.in_flight_of(outlet) >= in_flight_max || !self.window.has_next(outlet) {
            return;
        }
        // A process that was stopped for a while wakes up here, or later: publishes ask once more
        // where they really begin.
        let left = self.leases.valid_until.saturating_sub(self.parts.clock.since_boot());
        if left.is_zero() {
            self.lapsed();
            return;
        }
        let timeout = self.parts.policies.base().publish_timeout;
        let deadline = now + timeout.min(left);
        let confirmed = self.outlets[outlet].confirmed;
        let mut messages = Vec::new();
        while self.window.in_flight_of(outlet) < in_flight_max {
            let Some((seq, message)) = self.window.next(outlet) else {
                break;
            };
            let (message, span) = PublishSpan::begin(message, self.address_of(outlet));
            let handed = Handed { seq, confirmed_before: confirmed, begun_at: now, span, deadline };
            let ticket = self.publishing.handed_over.begin(handed);
            self.parts.progress.begun(1);
            // Deadlines of what is handed over never go back, so they are all of one length.
            if self.policy_of(&message).publish_timeout != timeout {
                self.begin_publish(self.to(outlet), ticket, message);
            } else {
                messages.push((ticket, message));
            }
        }
        self.hand_over(outlet, messages);
    }

    fn hand_over(&mut self, outlet: usize, messages: Vec<(u64, Arc<Message>)>) {
        if messages.is_empty() {
            return;
        }
        let Some(target) = self.parts.routes.list().get(outlet) else {
            for (ticket, message) in messages {
                self.begin_publish(self.to(outlet), ticket, message);
            }
            return;
        };
        let tickets: Vec<u64> = messages.iter().map(|(ticket, _)| *ticket).collect();
        let answers = self.publishing.handed_over.batch(&self.parts.clock, self.leases.valid_until);
        let batch = HandOver { messages, answers };
        let publisher = Arc::clone(&target.publisher);
        match std::panic::catch_unwind(AssertUnwindSafe(|| publisher.hand_over(batch))) {
            Ok(Ok(())) => {}
            Ok(Err(HandOver { messages, .. })) => {
                for (ticket, message) in messages {
                    self.begin_publish(self.to(outlet), ticket, message);
                }
            }
            Err(_) => {
                for ticket in tickets {
                    let panicked = PublishError::failed("the publisher panicked");
                    self.on_answered(ticket, Some(Err(panicked)), Instant::now());
                }
            }
        }
    }

    /// Publishes one message that the publisher does not take with others, or runs an errand.
    fn begin_publish(&mut self, to: To, ticket: u64, message: Arc<Message>) {
        let Some(handed) = self.publishing.handed_over.end(ticket) else {
            return;
        };
        let Handed { seq, confirmed_before, begun_at, span, .. } = handed;
        self.begun.push(Begun {
            to,
            seq,
            timeout: self.policy_of(&message).publish_timeout,
            message,
            valid_until: self.leases.valid_until,
            clock: self.parts.clock.clone(),
            round: self.publishing.round,
            confirmed_before,
            begun_at,
            span,
        });
    }

    /// Takes the answers that came for what was handed over.
    pub(super) fn on_answers(&mut self) {
        let mut answers = self.publishing.handed_over.answers();
        let now = Instant::now();
        for (ticket, result) in answers.drain(..) {
            self.on_answered(ticket, result, now);
        }
        self.publishing.handed_over.done(answers);
    }

    fn on_answered(&mut self, ticket: u64, result: Option<Result<(), PublishError>>, now: Instant) {
        if let Some(handed) = self.publishing.handed_over.end(ticket) {
            self.on_published(handed.ended(self.publishing.round, result), now);
        }
    }

    /// Ends what was handed over and has had no answer in time.
    pub(super) fn end_overdue(&mut self, now: Instant) {
        if self.publishing.handed_over.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        // An answer that came in time counts, also where this loop was slow to look at it.
        self.on_answers();
        while let Some(handed) = self.publishing.handed_over.overdue(now) {
            let result = Some(Err(timed_out(self.parts.policies.base().publish_timeout)));
            self.on_published(handed.ended(self.publishing.round, result), now);
        }
    }

    /// When a wait for the target ends, or one for an answer.
    pub(super) fn publishing_deadline(&self, now: Instant) -> Option<Instant> {
        let outlets = self.outlets_deadline(now);
        outlets.into_iter().chain(self.publishing.handed_over.deadline()).min()
    }

    pub(super) fn on_published(&mut self, ended: Ended, now: Instant) {
        let Ended { seq, round, confirmed_before, begun_at, span, result } = ended;
        span.end(result.as_ref());
        if round != self.publishing.round {
            return;
        }
        match result {
            Some(Ok(())) => self.on_confirmed(seq, begun_at, now),
            Some(Err(error)) => self.on_failed(seq, error, confirmed_before),
            None => self.put_back(seq, false, false),
        }
    }

    fn on_failed(&mut self, seq: i64, error: PublishError, confirmed_before: u64) {
        let Some(entry) = self.window.get(seq) else {
            return;
        };
        let outlet = entry.outlet;
        let alone = self.window.in_flight_of(outlet) == 1;
        let worn_out = alone && entry.alone_losses + 1 >= ALONE_LOSSES_MAX;
        match error.class() {
            PublishClass::Permanent => self.quarantine(seq, error),
            PublishClass::Failed => self.own_failure(seq, error),
            PublishClass::Unreachable => {
                self.target_down(outlet, None, error);
                self.put_back(seq, false, false);
            }
            PublishClass::Throttled { wait } => {
                self.target_down(outlet, Some(wait), error);
                self.put_back(seq, false, false);
            }
            PublishClass::Lost => {
                self.parts.progress.unknown(1);
                if worn_out {
                    self.own_failure(seq, error);
                } else {
                    self.target_down(outlet, None, error);
                    self.put_back(seq, true, alone);
                }
            }
            PublishClass::TimedOut => {
                self.parts.progress.unknown(1);
                // What the client still has buffered must not leave later.
                self.begin_reset(outlet);
                let others_went = self.outlets[outlet].confirmed > confirmed_before;
                if others_went || worn_out {
                    self.own_failure(seq, error);
                } else {
                    self.target_down(outlet, None, error);
                    self.put_back(seq, true, alone);
                }
            }
        }
    }

    fn on_confirmed(&mut self, seq: i64, begun_at: Instant, now: Instant) {
        let Some((outlet, due)) = self.window.get(seq).map(|entry| (entry.outlet, entry.due))
        else {
            return;
        };
        if !self.judge_published(seq) {
            return;
        }
        self.parts.timings.published(now.saturating_duration_since(begun_at));
        if let Some((since, from)) = due {
            self.parts.timings.arrived(now.saturating_duration_since(since), from);
        }
        self.parts.progress.confirmed(1);
        let outlet_state = &mut self.outlets[outlet];
        outlet_state.confirmed += 1;
        if outlet_state.breaker.confirmed() {
            outlet_state.down_since = None;
            let target = self.shown(outlet);
            self.report(&Report::TargetUp { target });
        }
    }

    pub(super) fn target_down(
        &mut self,
        outlet: usize,
        asked: Option<Duration>,
        error: PublishError,
    ) {
        let now = Instant::now();
        if self.outlets[outlet].breaker.failed(now, asked, fastrand::f64()) {
            self.outlets[outlet].down_since = Some(now);
            let target = self.shown(outlet);
            self.report(&Report::TargetDown { target, error });
        }
    }

    /// An outlet for people.
    fn shown(&self, outlet: usize) -> String {
        if outlet == self.errands() {
            return self.parts.store.address().to_owned();
        }
        self.parts.routes.shown(outlet)
    }

    /// Back to the head of its key, unless this relay may not publish it any more.
    fn put_back(&mut self, seq: i64, unknown: bool, alone: bool) {
        self.window.back(seq, unknown, alone);
        let Some(entry) = self.window.get(seq) else {
            return;
        };
        let (lane, epoch) = (entry.lane, entry.epoch);
        let still_ours = self
            .lanes
            .get(lane)
            .is_some_and(|owned| owned.epoch == epoch && (!owned.vacating || entry.unknown > 0));
        if self.stop_by.is_some() && entry.unknown > 0 {
            // It stays remembered, so that its lane is not given back before the lease ends.
            return;
        }
        if (!still_ours || self.stop_by.is_some())
            && let Some(lane) = self.window.forget(seq)
        {
            self.forgot_lane(lane);
        }
    }

    fn begin_reset(&mut self, outlet: usize) {
        // An errand has no connection of its own: the store bounds and discards it.
        let Some(target) = self.parts.routes.list().get(outlet) else {
            return;
        };
        if !self.outlets[outlet].resetting {
            self.outlets[outlet].resetting = true;
            let publisher = Arc::clone(&target.publisher);
            let timeout = self.parts.settings.publish_timeout;
            self.tasks.spawn(async move {
                // Longer than a publish it may not take: nothing is published meanwhile.
                let reset = AssertUnwindSafe(publisher.reset()).catch_unwind();
                let trouble = match tokio::time::timeout(timeout, reset).await {
                    Ok(Ok(())) => return Event::Reset(outlet),
                    Ok(Err(_)) => "it panicked",
                    Err(_) => "it took too long",
                };
                tracing::warn!(trouble, "discarding the target's connection failed");
                Event::Reset(outlet)
            });
        }
    }
}
