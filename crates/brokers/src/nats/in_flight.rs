//! Who waits for an answer, and under which token.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sendoff_core::publisher::{Answers, PublishClass};
use sendoff_core::{Message, PublishError};
use tokio::sync::oneshot;

/// Who asked for a publish.
#[derive(Debug)]
pub(super) enum Asker {
    /// A caller of `publish`, who is gone where nobody waits any more.
    Caller(oneshot::Sender<Result<(), PublishError>>),
    /// A relay that handed over many, and the ticket of this one.
    Relay(Arc<dyn Answers>, u64),
}

impl Asker {
    pub(super) fn answer(self, result: Result<(), PublishError>) {
        match self {
            // Dropped by its caller, who no longer wants to know.
            Self::Caller(answer) => drop(answer.send(result)),
            Self::Relay(answers, ticket) => answers.answer(ticket, result),
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Caller(answer) if answer.is_closed())
    }
}

/// A publish that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asker: Asker,
    pub(super) message: Arc<Message>,
}

/// Which publish waits under which token. Tokens are never used twice on a connection, so a late
/// answer is nobody's and not somebody else's.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    next: u64,
    waiting: FxHashMap<u64, Waiting>,
    /// At this many, those whose callers have gone are looked for.
    sweep_at: usize,
}

impl InFlight {
    /// A token for the next publish, or for a question that is not kept here.
    pub(super) fn token(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Keeps a publish that was sent under the token.
    pub(super) fn begin(&mut self, token: u64, waiting: Waiting) {
        /// Fewer than this are not worth a sweep.
        const SWEEP_MIN: usize = 4_096;
        if self.waiting.len() >= self.sweep_at.max(SWEEP_MIN) {
            // A caller that was dropped may never get the answer that would remove its entry.
            self.waiting.retain(|_, waiting| !waiting.asker.is_gone());
            self.sweep_at = 2 * self.waiting.len();
        }
        self.waiting.insert(token, waiting);
    }

    /// Whoever waits under the token, if anybody does.
    pub(super) fn end(&mut self, token: u64) -> Option<Waiting> {
        self.waiting.remove(&token)
    }

    /// Fails everybody whose message `picks` picks.
    pub(super) fn refuse(&mut self, picks: impl Fn(&Message) -> bool, error: &PublishError) {
        let refused = self.waiting.extract_if(|_, waiting| picks(&waiting.message));
        for (_, waiting) in refused {
            waiting.asker.answer(Err(error.clone()));
        }
    }

    /// The connection is over: whoever waits is told that the outcome is unknown.
    pub(super) fn lose(&mut self, ending: &str) {
        if self.waiting.is_empty() {
            return;
        }
        let detail = format!("{ending}; it is unknown whether the message arrived");
        let lost = PublishError::new(PublishClass::Lost, detail);
        for (_, waiting) in self.waiting.drain() {
            waiting.asker.answer(Err(lost.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(in_flight: &mut InFlight) -> (u64, oneshot::Receiver<Result<(), PublishError>>) {
        let (answer, answered) = oneshot::channel();
        let message = Arc::new(Message::builder("shop", "a").build().unwrap());
        let token = in_flight.token();
        in_flight.begin(token, Waiting { asker: Asker::Caller(answer), message });
        (token, answered)
    }

    #[test]
    fn a_late_answer_to_a_publish_that_was_dropped_confirms_no_other() {
        let mut in_flight = InFlight::default();
        let (old, dropped) = begin(&mut in_flight);
        drop(dropped);
        let (token, mut waiting) = begin(&mut in_flight);
        assert!(in_flight.end(old).is_some());
        assert!(in_flight.end(old).is_none(), "an answer comes once");
        assert!(waiting.try_recv().is_err(), "somebody else's answer");
        in_flight.end(token).unwrap().asker.answer(Ok(()));
        assert_eq!(waiting.try_recv(), Ok(Ok(())));
    }

    #[test]
    fn publishes_that_were_dropped_and_never_answered_do_not_pile_up() {
        let mut in_flight = InFlight::default();
        let (kept, _kept) = begin(&mut in_flight);
        for _ in 0..50_000 {
            drop(begin(&mut in_flight));
        }
        assert!(in_flight.waiting.len() < 10_000);
        assert!(in_flight.end(kept).is_some(), "one that is waited for");
    }

    #[test]
    fn the_end_of_the_connection_leaves_the_outcome_unknown() {
        let mut in_flight = InFlight::default();
        let (_, mut waiting) = begin(&mut in_flight);
        in_flight.lose("it broke");
        let error = waiting.try_recv().unwrap().unwrap_err();
        assert_eq!(error.class(), PublishClass::Lost);
        assert!(error.detail().contains("it broke"));
    }

    #[test]
    fn only_whose_message_is_picked_is_refused() {
        let mut in_flight = InFlight::default();
        let (_, mut waiting) = begin(&mut in_flight);
        let refused = PublishError::failed("no");
        in_flight.refuse(|message| message.topic() == "b", &refused);
        assert!(waiting.try_recv().is_err());
        in_flight.refuse(|message| message.topic() == "a", &refused);
        assert_eq!(waiting.try_recv(), Ok(Err(refused)));
    }
}
