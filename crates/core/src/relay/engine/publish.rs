//! Publishes: what begins, and what each result means.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{Engine, Event};
use crate::message::Message;
use crate::publisher::{PublishClass, PublishError, Publisher};
use crate::relay::breaker::Allows;
use crate::relay::report::Report;
use crate::store::OutboxStore;
use crate::time::Clock;

/// A message that was alone in flight at so many connection losses counts as the cause.
const ALONE_LOSSES_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Publishing {
    /// The publisher is discarding its connection.
    pub(super) resetting: bool,
    /// Goes up when the relay begins anew with what the store says: results of publishes that
    /// began before mean nothing to it.
    round: u64,
    /// How many publishes the target has confirmed.
    confirmed: u64,
}

impl Publishing {
    pub(super) fn next_round(&self) -> Self {
        Self { round: self.round + 1, ..Self::default() }
    }
}

/// A publish that was decided on. The loop polls it: a future without a box of its own, since there
/// is one for every message.
pub(super) struct Begun {
    publisher: Arc<dyn Publisher>,
    store: Arc<dyn OutboxStore>,
    seq: i64,
    message: Arc<Message>,
    timeout: Duration,
    /// The end of the lease, on the boot clock.
    valid_until: Duration,
    clock: Clock,
    round: u64,
    confirmed_before: u64,
}

impl Begun {
    pub(super) async fn publish(self) -> Ended {
        let Self { publisher, store, seq, message, timeout, valid_until, clock, .. } = self;
        // Asked once more where it really begins: the process may have stood still since.
        let left = valid_until.saturating_sub(clock.since_boot());
        let result = if left.is_zero() {
            None
        } else {
            let timeout = timeout.min(left);
            // A publisher that panics on one message must not take the others' relay with it.
            let publish = AssertUnwindSafe(async {
                if message.is_reserved() {
                    return store.attend(&message).await;
                }
                publisher.publish(&message).await
            })
            .catch_unwind();
            Some(match tokio::time::timeout(timeout, publish).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(PublishError::failed("the publisher panicked")),
                Err(_) => Err(PublishError::new(
                    PublishClass::TimedOut,
                    format!("no answer within {timeout:?}; whether it arrived is unknown"),
                )),
            })
        };
        Ended { seq, round: self.round, confirmed_before: self.confirmed_before, result }
    }
}

/// A publish that has ended.
pub(super) struct Ended {
    seq: i64,
    /// The round of the relay in which it began.
    round: u64,
    /// How many had been confirmed when it began.
    confirmed_before: u64,
    /// `None` where it did not begin, since the lease had ended.
    result: Option<Result<(), PublishError>>,
}

impl Engine {
    pub(super) fn begin_publishes(&mut self, now: Instant) {
        if self.publishing.resetting || self.stop_by.is_some() {
            return;
        }
        let Some(in_flight_max) = self.in_flight_max(now) else {
            return;
        };
        while self.window.in_flight() < in_flight_max {
            // Before each publish: a process that was stopped for a while wakes up right here.
            let left = self.leases.valid_until.saturating_sub(self.parts.clock.since_boot());
            if left.is_zero() {
                self.lapsed();
                return;
            }
            let Some((seq, message)) = self.window.next() else {
                return;
            };
            self.begin_publish(seq, message);
        }
    }

    fn begin_publish(&mut self, seq: i64, message: Arc<Message>) {
        self.parts.progress.begun(1);
        self.begun.push(Begun {
            publisher: Arc::clone(&self.parts.publisher),
            store: Arc::clone(&self.parts.store),
            seq,
            message,
            timeout: self.parts.settings.publish_timeout,
            valid_until: self.leases.valid_until,
            clock: self.parts.clock.clone(),
            round: self.publishing.round,
            confirmed_before: self.publishing.confirmed,
        });
    }

    /// When a wait for the target ends, where there is something to publish.
    pub(super) fn publishing_deadline(&self, now: Instant) -> Option<Instant> {
        match self.breaker.allows(now) {
            Allows::NoneBefore(until) => Some(until),
            Allows::All | Allows::One => None,
        }
    }

    pub(super) fn on_published(&mut self, ended: Ended) {
        let Ended { seq, round, confirmed_before, result } = ended;
        if round != self.publishing.round {
            return;
        }
        let Some(entry) = self.window.get(seq) else {
            return;
        };
        let alone = self.window.in_flight() == 1;
        let worn_out = alone && entry.alone_losses + 1 >= ALONE_LOSSES_MAX;
        let Some(result) = result else {
            self.put_back(seq, false, false);
            return;
        };
        match result {
            Ok(()) => self.on_confirmed(seq),
            Err(error) => match error.class() {
                PublishClass::Permanent => self.quarantine(seq, &error),
                PublishClass::Failed => self.own_failure(seq, error),
                PublishClass::Unreachable => {
                    self.target_down(None, error);
                    self.put_back(seq, false, false);
                }
                PublishClass::Throttled { wait } => {
                    self.target_down(Some(wait), error);
                    self.put_back(seq, false, false);
                }
                PublishClass::Lost => {
                    self.parts.progress.unknown(1);
                    if worn_out {
                        self.own_failure(seq, error);
                    } else {
                        self.target_down(None, error);
                        self.put_back(seq, true, alone);
                    }
                }
                PublishClass::TimedOut => {
                    self.parts.progress.unknown(1);
                    // What the client still has buffered must not leave later.
                    self.begin_reset();
                    let others_went = self.publishing.confirmed > confirmed_before;
                    if others_went || worn_out {
                        self.own_failure(seq, error);
                    } else {
                        self.target_down(None, error);
                        self.put_back(seq, true, alone);
                    }
                }
            },
        }
    }

    fn on_confirmed(&mut self, seq: i64) {
        self.publishing.confirmed += 1;
        self.parts.progress.confirmed(1);
        if self.breaker.confirmed() {
            self.report(&Report::TargetUp { target: self.parts.publisher.address().to_owned() });
        }
        self.judge_published(seq);
    }

    pub(super) fn target_down(&mut self, asked: Option<Duration>, error: PublishError) {
        if self.breaker.failed(Instant::now(), asked, fastrand::f64()) {
            let target = self.parts.publisher.address().to_owned();
            self.report(&Report::TargetDown { target, error });
        }
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
            self.lanes.forgot(lane, self.looks.begun);
        }
    }

    fn begin_reset(&mut self) {
        if !self.publishing.resetting {
            self.publishing.resetting = true;
            let publisher = Arc::clone(&self.parts.publisher);
            let timeout = self.parts.settings.publish_timeout;
            self.tasks.spawn(async move {
                // Longer than a publish it may not take: nothing is published meanwhile.
                let reset = AssertUnwindSafe(publisher.reset()).catch_unwind();
                let trouble = match tokio::time::timeout(timeout, reset).await {
                    Ok(Ok(())) => return Event::Reset,
                    Ok(Err(_)) => "it panicked",
                    Err(_) => "it took too long",
                };
                tracing::warn!(trouble, "discarding the target's connection failed");
                Event::Reset
            });
        }
    }
}
