//! The publishes of one connection that wait for their answer.

use std::collections::HashMap;
use std::sync::Mutex;

use async_nats::Subject;
use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;
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
    ending: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    subject: Subject,
    answer: oneshot::Sender<Answer>,
}

/// A place in the table, given up on drop.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    in_flight: &'a InFlight,
    token: u64,
    held: bool,
}

impl InFlight {
    /// Takes a place.
    ///
    /// # Errors
    /// [`PublishClass::Unreachable`] when the connection is over.
    pub(crate) fn register(
        &self,
        subject: Subject,
    ) -> Result<(Ticket<'_>, oneshot::Receiver<Answer>), PublishError> {
        let (answer, answered) = oneshot::channel();
        let mut table = lock(&self.0);
        if let Some(ending) = &table.ending {
            return Err(PublishError::unreachable(ending));
        }
        let token = table.next;
        table.next += 1;
        table.waiting.insert(token, Waiting { subject, answer });
        let ticket = Ticket { in_flight: self, token, held: true };
        Ok((ticket, answered))
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

    pub(crate) fn is_over(&self) -> bool {
        lock(&self.0).ending.is_some()
    }
}

impl Ticket<'_> {
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Why the connection is over, if it is.
    pub(crate) fn ending(&self) -> Option<String> {
        lock(&self.in_flight.0).ending.clone()
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`PublishClass::Lost`] when the connection ends first.
    pub(crate) async fn wait(
        mut self,
        answer: oneshot::Receiver<Answer>,
    ) -> Result<Answer, PublishError> {
        let answer = answer.await;
        // Answered or ended, either way it is out of the table.
        self.held = false;
        answer.map_err(|_| {
            let ending = self.ending().unwrap_or_default();
            PublishError::new(
                PublishClass::Lost,
                format!("{ending}; it is unknown whether the message arrived"),
            )
        })
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.held {
            lock(&self.in_flight.0).waiting.remove(&self.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use sendoff_core::publisher::PublishClass;

    use super::InFlight;
    use crate::nats::answer::Answer;

    #[test]
    fn a_late_answer_to_a_publish_that_was_dropped_confirms_no_other() {
        let in_flight = InFlight::default();
        let (dropped, _) = in_flight.register("a".into()).unwrap();
        let old = dropped.token();
        drop(dropped);
        let (ticket, answer) = in_flight.register("a".into()).unwrap();
        in_flight.answer(old, |_| Answer::Stored);
        let (token, mut waiting) = (ticket.token(), Box::pin(ticket.wait(answer)));
        assert!((&mut waiting).now_or_never().is_none());
        in_flight.answer(token, |_| Answer::Stored);
        assert_eq!(waiting.now_or_never(), Some(Ok(Answer::Stored)));
    }

    #[test]
    fn a_publish_that_was_dropped_leaves_nothing_behind() {
        let in_flight = InFlight::default();
        drop(in_flight.register("a".into()).unwrap());
        assert!(super::lock(&in_flight.0).waiting.is_empty());
    }

    #[test]
    fn the_end_of_the_connection_fails_who_waits_as_lost_and_who_comes_as_unreachable() {
        let in_flight = InFlight::default();
        let (ticket, answer) = in_flight.register("a".into()).unwrap();
        in_flight.end("it broke".to_owned());
        let lost = ticket.wait(answer).now_or_never().unwrap().unwrap_err();
        assert_eq!(lost.class(), PublishClass::Lost);
        assert!(lost.detail().contains("it broke"), "{lost}");
        let late = in_flight.register("a".into()).unwrap_err();
        assert_eq!(late.class(), PublishClass::Unreachable);
        assert!(in_flight.is_over());
    }
}
