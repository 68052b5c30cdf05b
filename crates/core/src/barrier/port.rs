//! The ports: what a database does for barriers.

use std::fmt;
use std::future::Future;

use async_trait::async_trait;

use super::Answer;
use super::answer::{AckBatch, AckedBatch, Change, Changed, Created};
use super::errand::Errand;
use super::name::BarrierId;
use super::plan::Plan;
use super::status::{Outcomes, Page, Status, Why};
use crate::error::Result;
use crate::message::Message;
use crate::outbox::Transaction;
use crate::publisher::PublishError;

/// Barriers in a transaction that the caller opened.
///
/// Everything is part of it: the acknowledgement, the caller's own rows, the completion and the
/// continuation message commit together or not at all. A refusal changes nothing and leaves the
/// transaction usable.
pub trait BarrierTransaction<D>: Transaction<D> {
    /// Creates a barrier, or finds that it is there.
    ///
    /// An id whose barrier has expired can be used again. An empty sealed list completes at once.
    ///
    /// # Errors
    /// The driver's own error.
    fn create_barrier(
        &mut self,
        plan: &Plan,
    ) -> impl Future<Output = Result<Answer<Created>, Self::Error>> + Send;

    /// Applies acknowledgements: the first of each member counts.
    ///
    /// Waits for nothing but the rows of its own members, and at a few moments of a barrier's life
    /// for one acknowledgement that is being committed, bounded by a lock timeout.
    ///
    /// # Errors
    /// The driver's own error. A lock timeout, deadlock or serialization failure is one of them: run
    /// the transaction again.
    fn ack_members(
        &mut self,
        batch: &AckBatch,
    ) -> impl Future<Output = Result<Answer<AckedBatch>, Self::Error>> + Send;

    /// Grows, seals, cancels, reopens, or resolves what will never come.
    ///
    /// # Errors
    /// The driver's own error.
    fn change_barrier(
        &mut self,
        id: &BarrierId,
        change: &Change,
    ) -> impl Future<Output = Result<Answer<Changed>, Self::Error>> + Send;

    /// How a barrier stands; `None` where it is not there.
    ///
    /// # Errors
    /// The driver's own error.
    fn barrier_status(
        &mut self,
        id: &BarrierId,
    ) -> impl Future<Output = Result<Option<Status>, Self::Error>> + Send;

    /// A page of members with their outcomes; `None` where the barrier is not there.
    ///
    /// # Errors
    /// The driver's own error.
    fn barrier_outcomes(
        &mut self,
        page: &Page,
    ) -> impl Future<Output = Result<Option<Outcomes>, Self::Error>> + Send;
}

/// Barriers for programs that have no transaction of their own. Each call is one, on a connection of
/// the store's, run again a bounded number of times where the database asks for it.
#[async_trait]
pub trait BarrierDesk: fmt::Debug + Send + Sync + 'static {
    /// [`BarrierTransaction::create_barrier`], committed.
    ///
    /// # Errors
    /// Those of the database.
    async fn create_barrier(&self, plan: &Plan) -> Result<Answer<Created>>;

    /// [`BarrierTransaction::ack_members`], committed. What is refused as unknown or late is kept as
    /// evidence, in a transaction of its own and bounded for each barrier; a barrier that this batch
    /// asks to close is closed.
    ///
    /// # Errors
    /// Those of the database.
    async fn ack_members(&self, batch: &AckBatch) -> Result<Answer<AckedBatch>>;

    /// [`BarrierTransaction::change_barrier`], committed.
    ///
    /// # Errors
    /// Those of the database.
    async fn change_barrier(&self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>>;

    /// How a barrier stands; `None` where it is not there.
    ///
    /// # Errors
    /// Those of the database.
    async fn barrier_status(&self, id: &BarrierId) -> Result<Option<Status>>;

    /// A page of members with their outcomes; `None` where the barrier is not there.
    ///
    /// # Errors
    /// Those of the database.
    async fn barrier_outcomes(&self, page: &Page) -> Result<Option<Outcomes>>;

    /// What a barrier waits for; `None` where it is not there.
    ///
    /// # Errors
    /// Those of the database.
    async fn barrier_why(&self, id: &BarrierId) -> Result<Option<Why>>;

    /// Barriers of a tenant in the order of their ids, after `after`; at most 1,000.
    ///
    /// # Errors
    /// Those of the database.
    async fn barriers(&self, tenant: &str, after: Option<&str>, limit: u32) -> Result<Vec<Status>>;

    /// Runs the barrier's probe for what is pending, and acknowledges what it finds by the channel
    /// `probe`. Refused where the barrier has none, or one that this store cannot run.
    ///
    /// # Errors
    /// Those of the database, and of the probe's query or source of keys.
    async fn reconcile_barrier(&self, id: &BarrierId) -> Result<Answer<AckedBatch>>;

    /// Runs an errand. `false`: it has to come again, since there is more to do than fits a bounded
    /// call, or what it waits for is still on its way.
    ///
    /// # Errors
    /// Those of the database. Running an errand again is harmless.
    async fn run_errand(&self, errand: &Errand) -> Result<bool>;
}

/// [`crate::store::OutboxStore::attend`] of a store with barriers: reads the errand and runs it.
///
/// # Errors
/// `permanent` where the message is no errand, `failed` where it has to come again.
pub async fn attend(desk: &impl BarrierDesk, message: &Message) -> Result<(), PublishError> {
    let malformed = |error: crate::Error| PublishError::permanent(error.to_string());
    if message.topic() != Errand::TOPIC {
        return Err(PublishError::permanent(format!(
            "this store runs no errand of the topic {}",
            message.topic()
        )));
    }
    let errand = Errand::parse(message.body()).map_err(malformed)?;
    errand.id().map_err(malformed)?;
    match desk.run_errand(&errand).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(PublishError::failed(format!(
            "the errand of the barrier {} is not finished; it comes again",
            errand.barrier
        ))),
        // Never as the target's outage: what fails is the store, and the target is well.
        Err(error) => Err(PublishError::failed(error.to_string())),
    }
}
