//! The publishes of one connection that wait for their answer.

use std::sync::{Arc, Mutex};

use async_nats::Subject;
use rustc_hash::FxHashMap;
use sendoff_core::PublishError;
use sendoff_core::publisher::{Answers, PublishClass};
use tokio::sync::oneshot;

use crate::nats::answer::Answer;
use crate::nats::connection::lock;

/// Who asked for a publish.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A caller of `publish`, who is gone where nobody waits any more.
    Caller(oneshot::Sender<Answer>),
    /// A relay that handed over many, and the ticket of this one.
    Relay(Arc<dyn Answers>, u64),
}

impl Asker {
    /// Tells that the publish failed.
    pub(crate) fn refuse(self, error: PublishError) {
        match self {
            // Dropped by its caller, who no longer wants to know.
            Self::Caller(answer) => drop(answer.send(Answer::Refused(error))),
            Self::Relay(answers, ticket) => answers.answer(ticket, Err(error)),
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Caller(answer) if answer.is_closed())
    }
}

/// Which publish waits under which token. Tokens are never used twice on a connection, so a late
/// answer is nobody's and not somebody else's.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    waiting: FxHashMap<u64, Waiting>,
    /// At this many, those whose callers have gone are looked for.
    sweep_at: usize,
    ending: Option<String>,
}

/// A publish that waits for its answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) subject: Subject,
    pub(crate) asker: Asker,
}

impl InFlight {
    /// Gives a publish its token.
    pub(crate) fn begin(&self, subject: Subject, asker: Asker) -> u64 {
        /// Fewer than this are not worth a sweep.
        const SWEEP_MIN: usize = 4_096;
        let mut table = lock(&self.0);
        if table.waiting.len() >= table.sweep_at.max(SWEEP_MIN) {
            // A caller that was dropped may never get the answer that would remove its entry.
            table.waiting.retain(|_, waiting| !waiting.asker.is_gone());
            table.sweep_at = 2 * table.waiting.len();
        }
        let token = table.next;
        table.next += 1;
        table.waiting.insert(token, Waiting { subject, asker });
        token
    }

    /// Whoever waits under the token, if anybody does: they wait no longer.
    pub(crate) fn take(&self, token: u64) -> Option<Waiting> {
        lock(&self.0).waiting.remove(&token)
    }

    /// Fails everybody who waits for a subject.
    pub(crate) fn refuse(&self, subject: &str, error: &PublishError) {
        let refused: Vec<Waiting> = {
            let mut table = lock(&self.0);
            let waits = table.waiting.extract_if(|_, waiting| waiting.subject.as_str() == subject);
            waits.map(|(_, waiting)| waiting).collect()
        };
        for waiting in refused {
            waiting.asker.refuse(error.clone());
        }
    }

    /// Says that the connection is over: whoever waits is told that the outcome is unknown.
    pub(crate) fn end(&self, ending: &str) {
        let waiting = {
            let mut table = lock(&self.0);
            table.ending.get_or_insert_with(|| ending.to_owned());
            std::mem::take(&mut table.waiting)
        };
        for waiting in waiting.into_values() {
            // A caller is told by its answer's sender being dropped.
            if let Asker::Relay(answers, ticket) = waiting.asker {
                answers.answer(ticket, Err(lost(ending)));
            }
        }
    }

    /// Why the connection is over, if it is.
    pub(crate) fn ending(&self) -> Option<String> {
        lock(&self.0).ending.clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        lock(&self.0).ending.is_some()
    }
}

/// The connection ended before the answer.
pub(crate) fn lost(ending: &str) -> PublishError {
    let detail = format!("{ending}; it is unknown whether the message arrived");
    PublishError::new(PublishClass::Lost, detail)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::{Asker, InFlight};
    use crate::nats::answer::Answer;

    #[test]
    fn a_late_answer_to_a_publish_that_was_dropped_confirms_no_other() {
        let in_flight = InFlight::default();
        let (answer, dropped) = oneshot::channel();
        let old = in_flight.begin("a".into(), Asker::Caller(answer));
        drop(dropped);
        let (answer, mut waiting) = oneshot::channel();
        let token = in_flight.begin("a".into(), Asker::Caller(answer));
        assert!(in_flight.take(old).is_some());
        assert!(in_flight.take(old).is_none(), "it was answered");
        assert!(waiting.try_recv().is_err(), "somebody else's answer");
        let Some(Asker::Caller(answer)) = in_flight.take(token).map(|waiting| waiting.asker) else {
            panic!("nobody waits under the token");
        };
        answer.send(Answer::Stored).unwrap();
        assert_eq!(waiting.try_recv(), Ok(Answer::Stored));
    }

    #[test]
    fn publishes_that_were_dropped_and_never_answered_do_not_pile_up() {
        let in_flight = InFlight::default();
        let (answer, _kept) = oneshot::channel();
        in_flight.begin("a".into(), Asker::Caller(answer));
        for _ in 0..50_000 {
            in_flight.begin("a".into(), Asker::Caller(oneshot::channel().0));
        }
        assert!(super::lock(&in_flight.0).waiting.len() < 10_000);
        assert!(super::lock(&in_flight.0).waiting.contains_key(&0), "one that is waited for");
    }

    #[test]
    fn the_end_of_the_connection_answers_everybody_who_waits_with_nothing() {
        let in_flight = InFlight::default();
        let (answer, mut waiting) = oneshot::channel();
        in_flight.begin("a".into(), Asker::Caller(answer));
        in_flight.end("it broke");
        assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(in_flight.ending().as_deref(), Some("it broke"));
        assert!(in_flight.is_over());
    }
}
