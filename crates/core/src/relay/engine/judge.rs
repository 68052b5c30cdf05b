//! Verdicts: what is decided about a row before it is written.

use super::Engine;
use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::publisher::PublishError;
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
    Undecodable(String),
    Refused(Refusal, Message),
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
            Trouble::Undecodable(error) => {
                let reason = QuarantineReason::Undecodable;
                self.quarantine_unpublished(seq, reason, (error.clone(), undecodable(error)), None);
            }
            Trouble::Refused(Refusal::Never(reason, error), message) => {
                self.quarantine_unpublished(seq, reason, told_of(error), Some(message));
            }
            Trouble::Refused(Refusal::NotNow(error), message) => {
                if self.is_worn_out(failed_before + 1) {
                    let reason = QuarantineReason::Attempts;
                    self.quarantine_unpublished(seq, reason, told_of(error), Some(message));
                    return;
                }
                self.judge_failed(seq, failed_before + 1, error, Some(message));
                for lane in self.window.refused(seq) {
                    self.lanes.forgot_of_key(lane, self.looks.begun);
                }
            }
        }
    }

    /// Answers whether the row is remembered.
    pub(super) fn judge_published(&mut self, seq: i64) -> bool {
        let Some(Confirmed { lane, epoch, key, releases }) = self.window.confirmed(seq) else {
            return false;
        };
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
        let attempts = entry.attempts + 1;
        if self.is_worn_out(attempts) {
            self.set_aside(seq, QuarantineReason::Attempts, error);
            return;
        }
        let message = entry.message.as_deref().cloned();
        self.judge_failed(seq, attempts, error, message);
        for lane in self.window.failed(seq) {
            self.lanes.forgot_of_key(lane, self.looks.begun);
        }
    }

    fn is_worn_out(&self, attempts: u32) -> bool {
        self.parts.settings.attempts_max.is_some_and(|max| attempts >= max)
    }

    /// It is tried again after a wait that follows from the failures so far.
    fn judge_failed(
        &mut self,
        seq: i64,
        attempts: u32,
        error: PublishError,
        message: Option<Message>,
    ) {
        let after = self.parts.settings.backoff.wait_with_jitter(attempts);
        let holds = self.window.get(seq).is_some_and(|entry| entry.key.is_some());
        let outcome =
            Outcome::Retry { after, error: error.detail().to_owned(), counts: true, holds };
        let report = message.map(|message| Report::PublishFailed { seq, message, error });
        self.parts.progress.failed(1);
        self.judge(seq, outcome, report);
    }

    pub(super) fn quarantine(&mut self, seq: i64, error: PublishError) {
        self.set_aside(seq, QuarantineReason::Permanent, error);
    }

    fn set_aside(&mut self, seq: i64, reason: QuarantineReason, error: PublishError) {
        let message = self.window.get(seq).and_then(|entry| entry.message.as_deref().cloned());
        self.judge_quarantined(seq, reason, told_of(error), message);
        for lane in self.window.failed(seq) {
            self.lanes.forgot_of_key(lane, self.looks.begun);
        }
    }

    fn quarantine_unpublished(
        &mut self,
        seq: i64,
        reason: QuarantineReason,
        error: (String, Cause),
        message: Option<Message>,
    ) {
        self.judge_quarantined(seq, reason, error, message);
        for lane in self.window.refused(seq) {
            self.lanes.forgot_of_key(lane, self.looks.begun);
        }
    }

    fn judge_quarantined(
        &mut self,
        seq: i64,
        reason: QuarantineReason,
        error: (String, Cause),
        message: Option<Message>,
    ) {
        let (error, cause) = (clean_error(&error.0), error.1);
        let report = Report::Quarantined { seq, message, reason, error: error.clone(), cause };
        let holds = self.window.get(seq).is_some_and(|entry| entry.key.is_some());
        self.judge(seq, Outcome::Quarantined { reason, error, holds }, Some(report));
    }

    fn judge(&mut self, seq: i64, outcome: Outcome, report: Option<Report>) {
        let Some(entry) = self.window.get(seq) else {
            return;
        };
        let verdict =
            Verdict { seq, lane: entry.lane, epoch: entry.epoch, key: entry.key.clone(), outcome };
        self.settles.judged();
        self.verdicts.push_back(Judged { verdict, report: report.map(Box::new) });
    }
}
