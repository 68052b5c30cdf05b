//! The publishes of one connection that wait for their answer.

use std::collections::HashMap;
use std::sync::Mutex;

use async_nats::Subject;
use sendoff_core::PublishError;
use tokio::sync::oneshot;

use crate::nats::answer::Answer;
use crate::nats::connection::lock;

/// Which publish waits under which token. Tokens are never used twice on a connection, so a late
/// answer is nobody's and not somebody else's.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    waiting: HashMap<u64, Waiting>,
    /// At this many, those whose callers have gone are looked for.
    sweep_at: usize,
    ending: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    subject: Subject,
    answer: oneshot::Sender<Answer>,
}

impl InFlight {
    /// Gives a publish its token.
    pub(crate) fn begin(&self, subject: Subject, answer: oneshot::Sender<Answer>) -> u64 {
        /// Fewer than this are not worth a sweep.
        const SWEEP_MIN: usize = 4_096;
        let mut table = lock(&self.0);
        if table.waiting.len() >= table.sweep_at.max(SWEEP_MIN) {
            // A caller that was dropped may never get the answer that would remove its entry.
            table.waiting.retain(|_, waiting| !waiting.answer.is_closed());
            table.sweep_at = 2 * table.waiting.len();
        }
        let token = table.next;
        table.next += 1;
        table.waiting.insert(token, Waiting { subject, answer });
        token
    }

    /// Gives the answer to whoever waits under the token, if anybody does.
    pub(crate) fn answer(&self, token: u64, answer: impl FnOnce(&str) -> Answer) {
        let waiting = lock(&self.0).waiting.remove(&token);
        if let Some(waiting) = waiting {
            // Gone between the look and now: dropped by its caller, who no longer wants to know.
            let _ = waiting.answer.send(answer(&waiting.subject));
        }
    }

    /// Fails everybody who waits for a subject.
    pub(crate) fn refuse(&self, subject: &str, error: &PublishError) {
        let mut table = lock(&self.0);
        let refused = table.waiting.extract_if(|_, waiting| waiting.subject.as_str() == subject);
        for (_, waiting) in refused {
            let _ = waiting.answer.send(Answer::Refused(error.clone()));
        }
    }

    /// Says that the connection is over: whoever waits is told that the outcome is unknown.
    pub(crate) fn end(&self, ending: String) {
        let waiting = {
            let mut table = lock(&self.0);
            table.ending.get_or_insert(ending);
            std::mem::take(&mut table.waiting)
        };
        drop(waiting);
    }

    /// Why the connection is over, if it is.
    pub(crate) fn ending(&self) -> Option<String> {
        lock(&self.0).ending.clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        lock(&self.0).ending.is_some()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::InFlight;
    use crate::nats::answer::Answer;

    #[test]
    fn a_late_answer_to_a_publish_that_was_dropped_confirms_no_other() {
        let in_flight = InFlight::default();
        let (answer, dropped) = oneshot::channel();
        let old = in_flight.begin("a".into(), answer);
        drop(dropped);
        let (answer, mut waiting) = oneshot::channel();
        let token = in_flight.begin("a".into(), answer);
        in_flight.answer(old, |_| Answer::Stored);
        in_flight.answer(old, |_| Answer::Stored);
        assert!(waiting.try_recv().is_err(), "somebody else's answer");
        in_flight.answer(token, |_| Answer::Stored);
        assert_eq!(waiting.try_recv(), Ok(Answer::Stored));
    }

    #[test]
    fn publishes_that_were_dropped_and_never_answered_do_not_pile_up() {
        let in_flight = InFlight::default();
        let (answer, _kept) = oneshot::channel();
        in_flight.begin("a".into(), answer);
        for _ in 0..50_000 {
            in_flight.begin("a".into(), oneshot::channel().0);
        }
        assert!(super::lock(&in_flight.0).waiting.len() < 10_000);
        assert!(super::lock(&in_flight.0).waiting.contains_key(&0), "one that is waited for");
    }

    #[test]
    fn the_end_of_the_connection_answers_everybody_who_waits_with_nothing() {
        let in_flight = InFlight::default();
        let (answer, mut waiting) = oneshot::channel();
        in_flight.begin("a".into(), answer);
        in_flight.end("it broke".to_owned());
        assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(in_flight.ending().as_deref(), Some("it broke"));
        assert!(in_flight.is_over());
    }
}
