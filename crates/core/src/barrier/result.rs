//! A barrier that has ended, as its continuation reads it.

use super::blocking::BlockingBarrierTransaction;
use super::facade::Failed;
use super::json::Json;
use super::name::{BarrierId, MemberName};
use super::port::BarrierTransaction;
use super::refusal::Refusal;
use super::status::{BarrierState, MemberOutcome, Outcomes, Page, Reason, Status, Which};
use crate::error::Result;
use crate::time::Timestamp;

/// What [`super::Barriers::hydrate`] gives: how a barrier has ended, and its outcomes, which are read
/// in pages or one by one and never all at once.
///
/// It holds no outcome and no transaction: each call reads in the transaction that it is given. A
/// barrier that is reopened meanwhile is read as it is then, unless the transaction sees one moment
/// only, as `REPEATABLE READ` does.
///
/// ```
/// use sendoff_core::barrier::{Barriers, Continuation, Outcome};
/// use sendoff_core::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (store, barriers) = (MemoryStore::new(), Barriers::new());
/// # let mut transaction = store.begin();
/// # let plan = barriers.plan("batch-7")?.members(["a.xml", "b.xml"]).build()?;
/// # barriers.create(&mut transaction, &plan).await?;
/// # barriers.ack(&mut transaction, "batch-7", "a.xml", Outcome::ok()).await?;
/// # let no = Outcome::failed().with_error("no such customer");
/// # barriers.ack(&mut transaction, "batch-7", "b.xml", no).await?;
/// let continuation = Continuation::parse(br#"{"barrier": "batch-7", "epoch": 1}"#)?;
/// let Some(batch) = barriers.hydrate(&mut transaction, &continuation).await? else {
///     return Ok(()); // It is not complete at this epoch, or its week is over.
/// };
/// assert_eq!((batch.total(), batch.ok_count(), batch.failed_count()), (2, 1, 1));
///
/// let mut after = None;
/// loop {
///     let page = batch.failures(&mut transaction, after.as_ref(), 1_000).await?;
///     for failed in &page.members {
///         println!("{}: {:?}", failed.member, failed.outcome);
///     }
///     after = page.next_after;
///     if after.is_none() {
///         break;
///     }
/// }
/// let one = batch.get(&mut transaction, "a.xml").await?;
/// assert_eq!(one.and_then(|one| one.outcome), Some(Outcome::ok()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierResult {
    barrier: BarrierId,
    status: Status,
}

impl BarrierResult {
    /// The result, where the barrier is complete at the epoch.
    pub(super) fn of(barrier: BarrierId, status: Status, epoch: u32) -> Option<Self> {
        (status.complete && status.epoch == epoch).then_some(Self { barrier, status })
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.barrier.id()
    }

    /// How it ended: complete, or closed by its deadline.
    #[must_use]
    pub fn state(&self) -> BarrierState {
        self.status.state
    }

    /// Why it ended.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.status.reason
    }

    /// What was handed to the continuation at the creation.
    #[must_use]
    pub fn state_value(&self) -> Option<&Json> {
        self.status.state_value.as_ref()
    }

    /// How many members it has.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.status.total
    }

    /// How many went well.
    #[must_use]
    pub fn ok_count(&self) -> u64 {
        self.status.resolved.saturating_sub(self.status.failed)
    }

    /// How many failed.
    #[must_use]
    pub fn failed_count(&self) -> u64 {
        self.status.failed
    }

    /// How many were given up when the barrier was closed.
    #[must_use]
    pub fn missing_count(&self) -> u64 {
        self.status.missing
    }

    /// Its epoch: 1, and one more with each reopening.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.status.epoch
    }

    /// When it was created.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.status.created_at
    }

    /// When it ended.
    #[must_use]
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.status.completed_at
    }

    /// Everything else about it.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// A page of the members that are resolved, with their outcomes: those whose names come after
    /// `after`, at most `limit` (and 1,000).
    ///
    /// # Errors
    /// [`Failed::Refused`] with `not_found` where the barrier has gone meanwhile, or the driver's own
    /// error.
    pub async fn results<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        self.read(transaction, &self.page(Which::Resolved, after, limit)).await
    }

    /// A page of the members that failed, as [`BarrierResult::results`].
    ///
    /// # Errors
    /// As there.
    pub async fn failures<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        self.read(transaction, &self.page(Which::Failed, after, limit)).await
    }

    /// A page of the members that were given up when the barrier was closed, as
    /// [`BarrierResult::results`]; they have no outcome.
    ///
    /// # Errors
    /// As there.
    pub async fn missing<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        self.read(transaction, &self.page(Which::Missing, after, limit)).await
    }

    /// One member, looked up by its name; `None` where the list does not have it. A member that is
    /// not resolved has no outcome.
    ///
    /// # Errors
    /// As [`BarrierResult::results`], and `invalid` or `too_large` for what cannot be a name.
    pub async fn get<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<MemberOutcome>, Failed<T::Error>> {
        let page = self.page_of(member)?;
        Ok(self.read(transaction, &page).await?.members.into_iter().next())
    }

    /// [`BarrierResult::results`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn results_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        self.read_blocking(transaction, &self.page(Which::Resolved, after, limit))
    }

    /// [`BarrierResult::failures`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn failures_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        self.read_blocking(transaction, &self.page(Which::Failed, after, limit))
    }

    /// [`BarrierResult::missing`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn missing_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        after: Option<&MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        self.read_blocking(transaction, &self.page(Which::Missing, after, limit))
    }

    /// [`BarrierResult::get`] for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn get_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<MemberOutcome>, Failed<T::Error>> {
        let page = self.page_of(member)?;
        Ok(self.read_blocking(transaction, &page)?.members.into_iter().next())
    }

    fn page(&self, which: Which, after: Option<&MemberName>, limit: u32) -> Page {
        Page { id: self.barrier.clone(), which, after: after.cloned(), limit, only: None }
    }

    fn page_of<E>(&self, member: impl AsRef<[u8]>) -> Result<Page, Failed<E>> {
        let member = MemberName::new(member).map_err(|error| Failed::invalid(&error))?;
        Ok(Page::only(self.barrier.clone(), member))
    }

    async fn read<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        page: &Page,
    ) -> Result<Outcomes, Failed<T::Error>> {
        let outcomes = transaction.barrier_outcomes(page).await.map_err(Failed::Driver)?;
        outcomes.ok_or_else(|| Failed::Refused(Refusal::not_found(&self.barrier)))
    }

    fn read_blocking<D, T: BlockingBarrierTransaction<D>>(
        &self,
        transaction: &T,
        page: &Page,
    ) -> Result<Outcomes, Failed<T::Error>> {
        let outcomes = transaction.barrier_outcomes(page).map_err(Failed::Driver)?;
        outcomes.ok_or_else(|| Failed::Refused(Refusal::not_found(&self.barrier)))
    }
}
