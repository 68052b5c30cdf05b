//! Verdicts: what is decided about a row before it is written.

use super::Engine;
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

impl Engine {
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
        if self.parts.settings.attempts_max.is_some_and(|max| attempts >= max) {
            self.set_aside(seq, QuarantineReason::Attempts, error.detail());
            return;
        }
        let after = self.parts.settings.backoff.wait_with_jitter(attempts);
        let holds = entry.key.is_some();
        let outcome =
            Outcome::Retry { after, error: error.detail().to_owned(), counts: true, holds };
        let report = entry.message.as_deref().cloned().map(|message| Report::PublishFailed {
            seq,
            message,
            error,
        });
        self.parts.progress.failed(1);
        self.judge(seq, outcome, report);
        for lane in self.window.failed(seq) {
            self.lanes.forgot_of_key(lane, self.looks.begun);
        }
    }

    pub(super) fn quarantine(&mut self, seq: i64, error: &PublishError) {
        self.set_aside(seq, QuarantineReason::Permanent, error.detail());
    }

    fn set_aside(&mut self, seq: i64, reason: QuarantineReason, error: &str) {
        let message = self.window.get(seq).and_then(|entry| entry.message.as_deref().cloned());
        self.judge_quarantined(seq, reason, error, message);
        for lane in self.window.failed(seq) {
            self.lanes.forgot_of_key(lane, self.looks.begun);
        }
    }

    /// A row that goes to quarantine without having been sent.
    pub(super) fn quarantine_unpublished(
        &mut self,
        seq: i64,
        reason: QuarantineReason,
        error: &str,
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
        error: &str,
        message: Option<Message>,
    ) {
        let error = clean_error(error);
        let report = Report::Quarantined { seq, message, reason, error: error.clone() };
        let holds = self.window.get(seq).is_some_and(|entry| entry.key.is_some());
        self.judge(seq, Outcome::Quarantined { reason, error, holds }, Some(report));
    }

    pub(super) fn hold(&mut self, seq: i64) {
        self.judge(seq, Outcome::Held, None);
    }

    /// Why the target could never take a message, as far as that can be told before it is sent.
    pub(super) fn refusal(&self, message: &Message) -> Option<(QuarantineReason, String)> {
        let max = self.parts.publisher.limits().body_bytes_max;
        let size = message.body().len();
        if size > max {
            let error = format!("the body has {size} bytes, the target takes {max}");
            return Some((QuarantineReason::TooLarge, error));
        }
        let error = self.parts.publisher.check(message).err()?;
        Some((QuarantineReason::Permanent, error.detail().to_owned()))
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
