//! Publishes that a publisher takes many at a time: their tickets, their deadlines and their answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::publisher::{Answers, PublishError};
use crate::relay::trace::PublishSpan;
use crate::time::Clock;

/// An answer and its ticket; `None` where the message was not sent.
type Reply = (u64, Option<Result<(), PublishError>>);

/// Where answers come in. One for each relay; publishers have it through [`Batch`].
#[derive(Debug, Default)]
pub(super) struct Replies {
    came: Mutex<Vec<Reply>>,
    /// Something came since nothing was there.
    any: Notify,
    /// The relay is gone: what has not left must not leave.
    gone: AtomicBool,
}

impl Replies {
    fn lock(&self) -> MutexGuard<'_, Vec<Reply>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, reply: Reply) {
        let first = {
            let mut came = self.lock();
            came.push(reply);
            came.len() == 1
        };
        if first {
            self.any.notify_one();
        }
    }

    /// Waits until answers are there. It may return where there are none.
    pub(super) async fn arrived(&self) {
        self.any.notified().await;
    }

    /// Exchanges what came for an empty list.
    fn take(&self, into: &mut Vec<Reply>) {
        std::mem::swap(&mut *self.lock(), into);
    }
}

/// Messages that were handed over together, as their publisher sees the relay.
#[derive(Debug)]
pub(super) struct Batch {
    replies: Arc<Replies>,
    clock: Clock,
    /// The end of the lease at the hand-over, on the boot clock. A later lease is none of theirs:
    /// between the two another relay may have owned their lanes.
    valid_until: Duration,
}

impl Answers for Batch {
    fn may_leave(&self) -> bool {
        !self.replies.gone.load(Ordering::Acquire) && self.clock.since_boot() < self.valid_until
    }

    fn answer(&self, ticket: u64, result: Result<(), PublishError>) {
        self.replies.push((ticket, Some(result)));
    }

    fn not_sent(&self, ticket: u64) {
        self.replies.push((ticket, None));
    }
}

/// A publish that was handed over and has no answer yet.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) seq: i64,
    /// How many publishes had been confirmed when it began.
    pub(super) confirmed_before: u64,
    pub(super) begun_at: Instant,
    pub(super) span: PublishSpan,
    pub(super) deadline: Instant,
}

/// What was handed over. Tickets are given out one after the other, and never again.
#[derive(Debug, Default)]
pub(super) struct HandedOver {
    replies: Arc<Replies>,
    taken: Vec<Reply>,
    /// The ticket of the first one that is here.
    first: u64,
    handed: VecDeque<Option<Handed>>,
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        self.replies.gone.store(true, Ordering::Release);
    }
}

impl HandedOver {
    pub(super) fn replies(&self) -> Arc<Replies> {
        Arc::clone(&self.replies)
    }

    /// How a publisher answers messages that are handed over now.
    pub(super) fn batch(&self, clock: &Clock, valid_until: Duration) -> Arc<Batch> {
        let (replies, clock) = (Arc::clone(&self.replies), clock.clone());
        Arc::new(Batch { replies, clock, valid_until })
    }

    /// Gives a publish its ticket. Deadlines never go back.
    pub(super) fn begin(&mut self, handed: Handed) -> u64 {
        let ticket = self.next_ticket();
        self.handed.push_back(Some(handed));
        ticket
    }

    fn next_ticket(&self) -> u64 {
        self.first + self.handed.len() as u64
    }

    /// The publish under the ticket has ended; `None` where it had ended before.
    pub(super) fn end(&mut self, ticket: u64) -> Option<Handed> {
        let place = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        let handed = self.handed.get_mut(place)?.take();
        while let Some(None) = self.handed.front() {
            self.handed.pop_front();
            self.first += 1;
        }
        handed
    }

    /// The answers that came, to be given back to [`HandedOver::done`].
    pub(super) fn answers(&mut self) -> Vec<Reply> {
        let mut taken = std::mem::take(&mut self.taken);
        self.replies.take(&mut taken);
        taken
    }

    /// Keeps the list's memory for the next answers.
    pub(super) fn done(&mut self, mut taken: Vec<Reply>) {
        taken.clear();
        self.taken = taken;
    }

    /// When the first one is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        // The first is always there; see `end`.
        self.handed.front()?.as_ref().map(|handed| handed.deadline)
    }

    /// One that is overdue: it has ended without an answer.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Handed> {
        if self.deadline()? > now {
            return None;
        }
        self.end(self.first)
    }

    /// Forgets everything: answers that come later are ignored.
    pub(super) fn forget(&mut self) {
        self.first = self.next_ticket();
        self.handed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(seq: i64, deadline: Instant) -> Handed {
        let message = Message::builder("test", "t").build().unwrap();
        let (_, span) = PublishSpan::begin(Arc::new(message), "test:");
        Handed { seq, confirmed_before: 0, begun_at: deadline, span, deadline }
    }

    #[test]
    fn an_answer_counts_once_and_only_under_its_own_ticket() {
        let now = Instant::now();
        let mut handed = HandedOver::default();
        let tickets: Vec<u64> = (1..=3).map(|seq| handed.begin(of(seq, now + SECOND))).collect();
        assert_eq!(handed.end(tickets[1]).map(|one| one.seq), Some(2));
        assert!(handed.end(tickets[1]).is_none(), "it has ended");
        assert_eq!(handed.end(tickets[0]).map(|one| one.seq), Some(1));
        assert!(handed.end(tickets[0]).is_none(), "it has ended, and is no longer here");
        assert!(handed.end(tickets[2] + 1).is_none(), "it has not begun");
        handed.forget();
        assert!(handed.end(tickets[2]).is_none(), "it was forgotten");
        let next = handed.begin(of(4, now + SECOND));
        assert!(next > tickets[2], "no ticket is given twice");
        assert_eq!(handed.end(next).map(|one| one.seq), Some(4));
    }

    #[test]
    fn the_overdue_come_in_order_and_leave_the_others() {
        let now = Instant::now();
        let mut handed = HandedOver::default();
        let first = handed.begin(of(1, now + SECOND));
        handed.begin(of(2, now + SECOND));
        handed.begin(of(3, now + 2 * SECOND));
        handed.end(first);
        assert_eq!(handed.deadline(), Some(now + SECOND));
        assert!(handed.overdue(now).is_none());
        assert_eq!(handed.overdue(now + SECOND).map(|one| one.seq), Some(2));
        assert!(handed.overdue(now + SECOND).is_none());
        assert_eq!(handed.deadline(), Some(now + 2 * SECOND));
    }

    #[test]
    fn nothing_leaves_after_the_lease_that_it_was_handed_over_under_or_without_the_relay() {
        let clock = Clock::manual();
        let handed = HandedOver::default();
        let (short, long) = (handed.batch(&clock, SECOND), handed.batch(&clock, 9 * SECOND));
        assert!(short.may_leave() && long.may_leave());
        clock.advance(SECOND);
        assert!(!short.may_leave() && long.may_leave());
        drop(handed);
        assert!(!long.may_leave());
    }

    #[tokio::test]
    async fn answers_are_told_and_taken() {
        let clock = Clock::manual();
        let mut handed = HandedOver::default();
        let batch = handed.batch(&clock, SECOND);
        batch.answer(7, Ok(()));
        batch.not_sent(8);
        handed.replies().arrived().await;
        let came = handed.answers();
        assert_eq!(came, [(7, Some(Ok(()))), (8, None)]);
        handed.done(came);
        batch.not_sent(9);
        handed.replies().arrived().await;
        assert_eq!(handed.answers(), [(9, None)]);
    }
}
