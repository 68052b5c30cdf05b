//! The caller's side for drivers that block, as rusqlite does.

use super::Answer;
use super::answer::{Ack, AckBatch, Acked, AckedBatch, Change, Changed, Created};
use super::errand::Continuation;
use super::facade::{Barriers, Failed, answered};
use super::name::{BarrierId, MemberName};
use super::outcome::Outcome;
use super::plan::Plan;
use super::refusal::Refusal;
use super::result::BarrierResult;
use super::status::{Outcomes, Page, Status, Which};
use crate::error::Result;
use crate::outbox::BlockingTransaction;

/// [`super::BarrierTransaction`] for drivers that block.
pub trait BlockingBarrierTransaction<D>: BlockingTransaction<D> {
    /// [`super::BarrierTransaction::create_barrier`].
    ///
    /// # Errors
    /// The driver's own error.
    fn create_barrier(&self, plan: &Plan) -> Result<Answer<Created>, Self::Error>;

    /// [`super::BarrierTransaction::ack_members`].
    ///
    /// # Errors
    /// The driver's own error.
    fn ack_members(&self, batch: &AckBatch) -> Result<Answer<AckedBatch>, Self::Error>;

    /// [`super::BarrierTransaction::change_barrier`].
    ///
    /// # Errors
    /// The driver's own error.
    fn change_barrier(
        &self,
        id: &BarrierId,
        change: &Change,
    ) -> Result<Answer<Changed>, Self::Error>;

    /// [`super::BarrierTransaction::barrier_status`].
    ///
    /// # Errors
    /// The driver's own error.
    fn barrier_status(&self, id: &BarrierId) -> Result<Option<Status>, Self::Error>;

    /// [`super::BarrierTransaction::barrier_outcomes`].
    ///
    /// # Errors
    /// The driver's own error.
    fn barrier_outcomes(&self, page: &Page) -> Result<Option<Outcomes>, Self::Error>;
}

impl Barriers {
    /// [`Barriers::create`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn create_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        plan: &Plan,
    ) -> Result<Created, Failed<T::Error>> {
        answered(transaction.create_barrier(plan))
    }

    /// [`Barriers::ack`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn ack_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        id: &str,
        member: impl AsRef<[u8]>,
        outcome: Outcome,
    ) -> Result<Acked, Failed<T::Error>> {
        let member = MemberName::new(member).map_err(|error| Failed::invalid(&error))?;
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        let batch = AckBatch::new(id, vec![Ack { member, outcome }]);
        self.ack_all_blocking(transaction, &batch)?.only().map_err(Failed::Refused)
    }

    /// [`Barriers::ack_all`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn ack_all_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        batch: &AckBatch,
    ) -> Result<AckedBatch, Failed<T::Error>> {
        answered(transaction.ack_members(batch))
    }

    /// [`Barriers::change`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn change_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        id: &str,
        change: &Change,
    ) -> Result<Changed, Failed<T::Error>> {
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        answered(transaction.change_barrier(&id, change))
    }

    /// [`Barriers::status`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn status_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        id: &str,
    ) -> Result<Option<Status>, Failed<T::Error>> {
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        transaction.barrier_status(&id).map_err(Failed::Driver)
    }

    /// [`Barriers::hydrate`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn hydrate_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        continuation: &Continuation,
    ) -> Result<Option<BarrierResult>, Failed<T::Error>> {
        let Some(id) = self.continued(continuation)? else { return Ok(None) };
        let status = transaction.barrier_status(&id).map_err(Failed::Driver)?;
        Ok(status.and_then(|status| BarrierResult::of(id, status, continuation.epoch)))
    }

    /// [`Barriers::outcomes`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn outcomes_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        id: &str,
        which: Which,
        after: Option<MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        let page = Page { id, which, after, limit, only: None };
        let outcomes = transaction.barrier_outcomes(&page).map_err(Failed::Driver)?;
        outcomes.ok_or_else(|| Failed::Refused(Refusal::not_found(&page.id)))
    }
}
