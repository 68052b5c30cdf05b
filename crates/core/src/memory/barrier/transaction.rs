//! Barriers in the caller's transaction.

use std::sync::Arc;

use super::PATIENCE;
use super::books::Session;
use super::ledger::{Ledger, page};
use crate::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierTransaction, Change, Changed, Created,
    MemberOutcome, Outcomes, Page, Plan, Status, plain,
};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::store::ADDRESS;
use crate::memory::transaction::{Memory, MemoryTransaction};

/// The most members of a page.
const PAGE_MAX: u32 = 1_000;

impl MemoryTransaction {
    /// Takes the barriers for this transaction, and begins a call that is all or nothing.
    pub(super) async fn ledger(&mut self) -> Result<Ledger<'_>> {
        self.shared.lock().need_schema("using a barrier")?;
        let session = match self.barriers.take() {
            Some(session) => session,
            None => {
                let books = Arc::clone(&self.shared.barriers).lock_owned();
                let books = tokio::time::timeout(PATIENCE, books).await.map_err(|_| {
                    Error::new(ErrorKind::Conflict, "using a barrier")
                        .subject(ADDRESS)
                        .detail("another transaction holds the barriers")
                        .advice("run the transaction again, and keep transactions short")
                })?;
                Session::new(books)
            }
        };
        Ok(Ledger { transaction: self, session })
    }
}

impl Ledger<'_> {
    /// Ends a call: keeps what it did, or, where it failed, undoes it.
    pub(super) fn end<T>(mut self, marks: (usize, usize), done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.session.undo_to(marks.0);
            self.transaction.undo_rows(marks.1);
        }
        self.transaction.barriers = Some(self.session);
        done
    }

    pub(super) fn marks(&self) -> (usize, usize) {
        (self.session.mark(), self.transaction.rows.len())
    }
}

impl BarrierTransaction<Memory> for MemoryTransaction {
    async fn create_barrier(&mut self, plan: &Plan) -> Result<Answer<Created>> {
        let mut ledger = self.ledger().await?;
        let marks = ledger.marks();
        let done = plain::create(&mut ledger, plan).await;
        ledger.end(marks, done)
    }

    async fn ack_members(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
        let mut ledger = self.ledger().await?;
        let marks = ledger.marks();
        let done = plain::ack(&mut ledger, batch).await;
        ledger.end(marks, done)
    }

    async fn change_barrier(&mut self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
        let mut ledger = self.ledger().await?;
        let marks = ledger.marks();
        let done = plain::change(&mut ledger, id, change).await;
        ledger.end(marks, done)
    }

    async fn barrier_status(&mut self, id: &BarrierId) -> Result<Option<Status>> {
        let mut ledger = self.ledger().await?;
        let marks = ledger.marks();
        let done = plain::status(&mut ledger, id).await;
        ledger.end(marks, done)
    }

    async fn barrier_outcomes(&mut self, asked: &Page) -> Result<Option<Outcomes>> {
        let mut ledger = self.ledger().await?;
        let marks = ledger.marks();
        let done = outcomes(&mut ledger, asked).await;
        ledger.end(marks, done)
    }
}

async fn outcomes(ledger: &mut Ledger<'_>, asked: &Page) -> Result<Option<Outcomes>> {
    let Some(header) = plain::readable(ledger, &asked.id).await? else { return Ok(None) };
    let Some(kept) = ledger.session.books().barriers.get(&header.no) else { return Ok(None) };
    let limit = usize::try_from(asked.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    let members: Vec<MemberOutcome> = page(kept, asked, limit)
        .into_iter()
        .map(|(member, found)| match found.resolved {
            Some((outcome, at, channel)) => {
                MemberOutcome { member, outcome: Some(outcome), at: Some(at), channel }
            }
            None => MemberOutcome { member, outcome: None, at: None, channel: String::new() },
        })
        .collect();
    let goes_on = asked.only.is_none() && members.len() == limit;
    let next_after = goes_on.then(|| members.last().map(|last| last.member.clone())).flatten();
    Ok(Some(Outcomes { members, next_after }))
}
