//! Verdicts: what is decided about a row before it is written.

use std::sync::Arc;

use super::Engine;
use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::message::Message;
use crate::publisher::PublishError;
use crate::relay::policy::{Hold, Policy};
use crate::relay::report::Report;
use crate::relay::window::Confirmed;
use crate::store::{Outcome, QuarantineReason, Verdict, clean_error};

/// A verdict, and what the owner is told once it is in the store.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) report: Told,
}

/// What the owner is told, where there is something.
pub(super) type Told = Option<Box<Report>>;

/// Whether a verdict lets its key's held rows go.
pub(super) fn releases(verdict: &Verdict) -> bool {
    matches!(verdict.outcome, Outcome::Published { releases: true })
}

/// What an owner is told to be behind a quarantine.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The publisher's error: its text, which is kept, and itself.
fn told_of(error: PublishError) -> (String, Cause) {
    (error.detail().to_owned(), Box::new(error))
}

fn undecodable(detail: String) -> Cause {
    Box::new(Error::new(ErrorKind::Corrupt, "decoding a message").detail(detail))
}

/// Why a row that was read is not published.
pub(super) enum Trouble {
    /// It waits behind an earlier one of its key.
    Blocked,
    /// It may not leave now; the mark says what for.
    Parked(Arc<str>),
    Undecodable(String),
    Refused(Refusal, Box<Message>),
}

/// What the publisher says of a message before it is sent.
pub(super) enum Refusal {
    /// The target could never take it.
    Never(QuarantineReason, PublishError),
    /// The publisher panicked.
    NotNow(PublishError),
}

impl Engine {
    /// A row that is judged without having been sent.
    pub(super) fn judge_unpublished(&mut self, seq: i64, trouble: Trouble) {
        let failed_before = self.window.get(seq).map_or(0, |entry| entry.attempts);
        match trouble {
            Trouble::Blocked => self.judge(seq, Outcome::Held, None),
            Trouble::Parked(mark) => {
                self.judge(seq, Outcome::Parked { mark }, None);
                for lane in self.window.refused(seq) {
                    self.lanes.forgot_of_key(lane, self.looks.begun);
                }
            }
            Trouble::Undecodable(error) => {
                let reason = QuarantineReason::Undecodable;
                self.quarantine_unpublished(seq, reason, (error.clone(), undecodable(error)), None);
            }
            Trouble::Refused(Refusal::Never(reason, error), message) => {
                self.quarantine_unpublished(seq, reason, told_of(error), Some(*message));
            }
            Trouble::Refused(Refusal::NotNow(error), message) => {
                let policy = *self.policy_of(&message);
                if is_worn_out(&policy, failed_before + 1) {
                    let reason = QuarantineReason::Attempts;
                    self.quarantine_unpublished(seq, reason, told_of(error), Some(*message));
                    return;
                }
                if self.judge_failed(seq, failed_before + 1, error, *message) {
                    let forgotten = self.window.refused(seq);
                    self.forgot_of_line(&forgotten);
                }
            }
        }
    }

    /// Answers whether the row is remembered.
    pub(super) fn judge_published(&mut self, seq: i64) -> bool {
        let Some(confirmed) = self.window.confirmed(seq) else {
            return false;
        };
        let Confirmed { lane, epoch, key, releases, forgotten } = confirmed;
        self.forgot_of_line(&forgotten);
        let outcome = Outcome::Published { releases };
        self.settles.judged();
        let verdict = Verdict { seq, lane, epoch, key, outcome };
        self.verdicts.push_back(Judged { verdict, report: None });
        true
    }

    /// The message's own publish failed and may succeed later.
    pub(super) fn own_failure(&mut self, seq: i64, error: PublishError) {
        let Some(entry) = self.window.get(seq) else {
            return;
        };
        let Some(message) = entry.message.as_deref().cloned() else {
            return;
        };
        let attempts = entry.attempts + 1;
        if is_worn_out(self.policy_of(&message), attempts) {
            self.set_aside(seq, QuarantineReason::Attempts, error);
            return;
        }
        let holds = self.judge_failed(seq, attempts, error, message);
        self.go_on_behind(seq, holds);
    }

    /// What a failed publish leaves of the row's line: its followers wait, or the next one goes.
    fn go_on_behind(&mut self, seq: i64, holds: bool) {
        if holds {
            let forgotten = self.window.failed(seq);
            self.forgot_of_line(&forgotten);
        } else {
            self.window.passed(seq);
        }
    }

    fn forgot_of_line(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            self.lanes.forgot_of_key(*lane, self.looks.begun);
        }
    }

    /// It is tried again after a wait that follows from the failures so far. Answers whether later
    /// rows have to wait until that is settled.
    fn judge_failed(
        &mut self,
        seq: i64,
        attempts: u32,
        error: PublishError,
        message: Message,
    ) -> bool {
        let policy = *self.policy_of(&message);
        let holds = match policy.hold {
            Hold::Key if self.has_key(seq) => Hold::Key,
            Hold::All => Hold::All,
            Hold::Key | Hold::None => Hold::None,
        };
        let after = policy.backoff.wait_with_jitter(attempts);
        let outcome = Outcome::Retry {
            after,
            error: error.detail().to_owned(),
            counts: true,
            holds: holds != Hold::None,
        };
        self.parts.progress.failed(1);
        let report = Report::PublishFailed { seq, message, error, holds };
        self.judge(seq, outcome, Some(report));
        holds != Hold::None || self.held_others(seq)
    }

    pub(super) fn quarantine(&mut self, seq: i64, error: PublishError) {
        self.set_aside(seq, QuarantineReason::Permanent, error);
    }

    fn set_aside(&mut self, seq: i64, reason: QuarantineReason, error: PublishError) {
        let message = self.window.get(seq).and_then(|entry| entry.message.as_deref().cloned());
        let holds = self.judge_quarantined(seq, reason, told_of(error), message);
        self.go_on_behind(seq, holds);
    }

    fn quarantine_unpublished(
        &mut self,
        seq: i64,
        reason: QuarantineReason,
        error: (String, Cause),
        message: Option<Message>,
    ) {
        if self.judge_quarantined(seq, reason, error, message) {
            let forgotten = self.window.refused(seq);
            self.forgot_of_line(&forgotten);
        }
    }

    /// Answers whether later rows have to wait until that is settled.
    fn judge_quarantined(
        &mut self,
        seq: i64,
        reason: QuarantineReason,
        error: (String, Cause),
        message: Option<Message>,
    ) -> bool {
        let base = self.parts.policies.base();
        let hold = message.as_ref().map_or(base, |message| self.policy_of(message)).hold;
        let holds = match hold {
            Hold::Key if self.has_key(seq) => Hold::Key,
            Hold::Key | Hold::All | Hold::None => Hold::None,
        };
        let (error, cause) = (clean_error(&error.0), error.1);
        let report =
            Report::Quarantined { seq, message, reason, error: error.clone(), holds, cause };
        let outcome = Outcome::Quarantined { reason, error, holds: holds != Hold::None };
        self.judge(seq, outcome, Some(report));
        holds != Hold::None || self.held_others(seq)
    }

    fn has_key(&self, seq: i64) -> bool {
        self.window.get(seq).is_some_and(|entry| entry.key.is_some())
    }

    /// Whether the store holds others behind the row until its verdict is settled.
    fn held_others(&self, seq: i64) -> bool {
        self.window.get(seq).is_some_and(|entry| entry.blocker)
    }

    pub(super) fn judge(&mut self, seq: i64, outcome: Outcome, report: Option<Report>) {
        let Some(entry) = self.window.get(seq) else {
            return;
        };
        let verdict =
            Verdict { seq, lane: entry.lane, epoch: entry.epoch, key: entry.key.clone(), outcome };
        self.settles.judged();
        self.verdicts.push_back(Judged { verdict, report: report.map(Box::new) });
    }
}

fn is_worn_out(policy: &Policy, attempts: u32) -> bool {
    policy.attempts_max.is_some_and(|max| attempts >= max)
}
