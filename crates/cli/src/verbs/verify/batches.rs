//! What became of the batches: each has one continuation, and the outcomes that the partner gave.

use std::collections::{HashMap, HashSet};

use sendoff::barrier::Continuation;
use serde::Serialize;

use super::delivered::Delivery;
use crate::output::shown;
use crate::shop::{BatchState, DONE, Fate, name};

/// How many batches are named of what is wrong.
const EXAMPLES_MAX: usize = 10;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Batches {
    /// Batches in the database.
    pub(super) sent: u64,
    /// Of these, ended, with one continuation that has arrived.
    pub(super) continued: u64,
    /// Of these, ended, with a continuation in the outbox.
    pub(super) continuing: u64,
    /// Of these, still open.
    pub(super) open: u64,
    /// Ended and nowhere continued.
    pub(super) lost: u64,
    /// Continued under more than one id.
    pub(super) double: u64,
    /// Documents with another outcome than the partner gave.
    pub(super) wrong: u64,
    /// Documents that were given up when the deadline closed their batch.
    pub(super) missing: u64,
    pub(super) examples: Vec<String>,
}

/// The continuations in the file: the ids that each batch's have.
#[derive(Debug, Default)]
pub(super) struct Continuations(HashMap<String, HashSet<String>>);

impl Continuations {
    /// A delivery of the file.
    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        if delivery.source != Continuation::SOURCE || delivery.topic != DONE {
            return;
        }
        let body = delivery.body().unwrap_or_default();
        if let Ok(continuation) = Continuation::parse(&body) {
            self.0.entry(continuation.barrier).or_default().insert(delivery.id.clone());
        }
    }

    /// Judges the batches, which were read before the file.
    pub(super) fn judge(&self, states: &[BatchState]) -> Batches {
        let mut found = Batches::default();
        for state in states {
            self.judge_one(state, &mut found);
        }
        found
    }

    fn judge_one(&self, batch: &BatchState, found: &mut Batches) {
        found.sent += 1;
        let continuations = self.0.get(&batch.id).map_or(0, HashSet::len);
        let ended = matches!(batch.state.as_str(), "complete" | "deadline");
        match (ended, continuations) {
            (_, 2..) => found.note("continued twice", batch, |found| &mut found.double),
            (true, 1) => found.continued += 1,
            (true, _) if batch.continuation_waits => found.continuing += 1,
            (true, _) => found.note("not continued", batch, |found| &mut found.lost),
            // It may have ended since it was read, so one in the file proves nothing then.
            (false, _) => found.open += 1,
        }
        let outcomes: HashMap<&str, (Option<bool>, bool)> =
            batch.members.iter().map(|(name, ok, gone)| (name.as_str(), (*ok, *gone))).collect();
        for number in 1..=batch.documents {
            let (ok, missing) = outcomes.get(name(number).as_str()).copied().unwrap_or_default();
            found.missing += u64::from(missing);
            let right = match (ok, missing) {
                (None, true) => ended,
                (None, false) => !ended,
                (Some(_), true) => false,
                (Some(ok), false) => match Fate::of(number) {
                    Fate::Well | Fate::Lost => ok,
                    Fate::Failed => !ok,
                    Fate::Forgotten => false,
                },
            };
            if !right {
                found.note("another outcome in", batch, |found| &mut found.wrong);
            }
        }
    }
}

impl Batches {
    /// Whether the promise was kept.
    pub(super) fn is_ok(&self) -> bool {
        [self.lost, self.double, self.wrong].iter().all(|count| *count == 0)
    }

    fn note(&mut self, what: &str, batch: &BatchState, which: fn(&mut Self) -> &mut u64) {
        *which(self) += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{what}: {}", shown(&batch.id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(state: &str, waits: bool) -> BatchState {
        BatchState {
            id: "b".into(),
            documents: 3,
            state: state.into(),
            continuation_waits: waits,
            members: vec![
                (name(1), Some(true), false),
                (name(2), None, state == "deadline"),
                (name(3), Some(false), false),
            ],
        }
    }

    fn judge(batch: BatchState, continuations: &[&str]) -> Batches {
        let mut seen = Continuations::default();
        for id in continuations {
            let line = serde_json::json!({
                "id": id, "source": Continuation::SOURCE, "topic": DONE, "key": "b",
                "body": r#"{"barrier":"b","epoch":1,"reason":"deadline"}"#,
            });
            seen.delivered(&serde_json::from_value(line).unwrap());
        }
        seen.judge(&[batch])
    }

    #[test]
    fn one_continuation_of_a_batch_that_ended_is_right_however_often_it_came() {
        let found = judge(batch("deadline", false), &["c", "c"]);
        assert!(found.is_ok(), "{found:?}");
        assert_eq!((found.continued, found.missing), (1, 1));
        assert_eq!(judge(batch("deadline", true), &[]).continuing, 1);
        assert_eq!(judge(batch("open", false), &[]).open, 1);
    }

    #[test]
    fn none_and_two_are_wrong() {
        assert_eq!(judge(batch("deadline", false), &[]).lost, 1);
        assert_eq!(judge(batch("deadline", false), &["c", "d"]).double, 1);
    }

    #[test]
    fn another_outcome_than_the_partners_is_wrong() {
        let mut failed = batch("deadline", false);
        failed.members[0].1 = Some(false);
        assert_eq!(judge(failed, &["c"]).wrong, 1);
        assert_eq!(judge(batch("complete", false), &["c"]).wrong, 1, "a pending one");
        let mut cut = batch("deadline", false);
        cut.members.pop();
        assert_eq!(judge(cut, &["c"]).wrong, 1);
    }
}
