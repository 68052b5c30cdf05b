//! The caller's side.

use std::fmt;

use super::answer::{Ack, AckBatch, Acked, AckedBatch, Change, Changed, Created};
use super::errand::Continuation;
use super::name::{BarrierId, MemberName};
use super::outcome::Outcome;
use super::plan::{Plan, PlanBuilder};
use super::port::BarrierTransaction;
use super::refusal::Refusal;
use super::result::BarrierResult;
use super::status::{Outcomes, Page, Status, Which};
use crate::error::Result;

/// Creates and acknowledges barriers in the caller's own transactions. It holds a tenant's name and
/// no connection.
///
/// ```
/// use sendoff_core::barrier::{Barriers, Outcome};
/// use sendoff_core::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (store, barriers) = (MemoryStore::new(), Barriers::new());
/// let mut transaction = store.begin();
/// let plan = barriers.plan("batch-7")?.members(["a.xml", "b.xml"]).build()?;
/// barriers.create(&mut transaction, &plan).await?;
/// transaction.commit().await?;
///
/// let mut transaction = store.begin();
/// let first = barriers.ack(&mut transaction, "batch-7", "a.xml", Outcome::ok()).await?;
/// let second = barriers.ack(&mut transaction, "batch-7", "b.xml", Outcome::failed()).await?;
/// assert!(!first.complete && second.complete);
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Barriers {
    tenant: String,
}

impl Barriers {
    /// Barriers without a tenant.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A tenant's barriers. Two tenants may use the same ids and never meet.
    pub fn of_tenant(tenant: impl Into<String>) -> Self {
        Self { tenant: tenant.into() }
    }

    /// Which barrier an id means here.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] and [`crate::ErrorKind::TooLarge`], as [`BarrierId::new`].
    pub fn id(&self, id: impl Into<String>) -> Result<BarrierId> {
        BarrierId::of_tenant(self.tenant.as_str(), id)
    }

    /// Begins a plan.
    ///
    /// # Errors
    /// As [`Barriers::id`].
    pub fn plan(&self, id: impl Into<String>) -> Result<PlanBuilder> {
        Ok(Plan::builder(self.id(id)?))
    }

    /// Creates a barrier, or finds that it is there: then nothing is changed.
    ///
    /// # Errors
    /// [`Failed::Refused`] (`conflict` where the plan is strict and the members are others), or
    /// the driver's own error.
    pub async fn create<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        plan: &Plan,
    ) -> Result<Created, Failed<T::Error>> {
        answered(transaction.create_barrier(plan).await)
    }

    /// Acknowledges one member. The first acknowledgement of a member counts; a later one is answered
    /// as a duplicate and changes nothing. The one that completes the barrier writes the
    /// continuation into this transaction.
    ///
    /// # Errors
    /// [`Failed::Refused`] (`unknown_member`, `expired`, `cancelled`, `conflict`, `too_large`,
    /// `not_found`) with nothing changed, or the driver's own error.
    pub async fn ack<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        id: &str,
        member: impl AsRef<[u8]>,
        outcome: Outcome,
    ) -> Result<Acked, Failed<T::Error>> {
        let member = MemberName::new(member).map_err(|error| Failed::invalid(&error))?;
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        outcome.encode().map_err(Failed::Refused)?;
        let batch = AckBatch::new(id, vec![Ack { member, outcome }]);
        self.ack_all(transaction, &batch).await?.only().map_err(Failed::Refused)
    }

    /// Acknowledges many members of one barrier in one go; each is answered for itself.
    ///
    /// # Errors
    /// [`Failed::Refused`] where the barrier takes none of them, or, with
    /// [`AckBatch::all_or_nothing`], where one of them is refused; or the driver's own error.
    pub async fn ack_all<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        batch: &AckBatch,
    ) -> Result<AckedBatch, Failed<T::Error>> {
        answered(transaction.ack_members(batch).await)
    }

    /// Grows, seals, cancels, reopens a barrier, or resolves what will never come.
    ///
    /// # Errors
    /// [`Failed::Refused`] with nothing changed, or the driver's own error.
    pub async fn change<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        id: &str,
        change: &Change,
    ) -> Result<Changed, Failed<T::Error>> {
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        answered(transaction.change_barrier(&id, change).await)
    }

    /// How a barrier stands; `None` where it is not there.
    ///
    /// # Errors
    /// [`Failed::Refused`] where the id cannot be one, or the driver's own error.
    pub async fn status<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        id: &str,
    ) -> Result<Option<Status>, Failed<T::Error>> {
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        transaction.barrier_status(&id).await.map_err(Failed::Driver)
    }

    /// The barrier that a continuation is about, with its outcomes to be read in pages; `None` where
    /// it is not complete at that epoch, has expired, or is gone.
    ///
    /// # Errors
    /// [`Failed::Refused`] where the continuation names no possible barrier, or the driver's own
    /// error.
    pub async fn hydrate<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        continuation: &Continuation,
    ) -> Result<Option<BarrierResult>, Failed<T::Error>> {
        let Some(id) = self.continued(continuation)? else { return Ok(None) };
        let status = transaction.barrier_status(&id).await.map_err(Failed::Driver)?;
        Ok(status.and_then(|status| BarrierResult::of(id, status, continuation.epoch)))
    }

    /// The barrier that a continuation names, if it is this tenant's.
    pub(super) fn continued<E>(
        &self,
        continuation: &Continuation,
    ) -> Result<Option<BarrierId>, Failed<E>> {
        let id = self.id(continuation.barrier.as_str()).map_err(|error| Failed::invalid(&error))?;
        Ok((continuation.tenant == self.tenant).then_some(id))
    }

    /// A page of members with their outcomes, after `after`, at most `limit` (and 1,000).
    ///
    /// # Errors
    /// [`Failed::Refused`] with `not_found`, or the driver's own error.
    pub async fn outcomes<D, T: BarrierTransaction<D>>(
        &self,
        transaction: &mut T,
        id: &str,
        which: Which,
        after: Option<MemberName>,
        limit: u32,
    ) -> Result<Outcomes, Failed<T::Error>> {
        let id = self.id(id).map_err(|error| Failed::invalid(&error))?;
        let page = Page { id, which, after, limit, only: None };
        let outcomes = transaction.barrier_outcomes(&page).await.map_err(Failed::Driver)?;
        outcomes.ok_or_else(|| Failed::Refused(Refusal::not_found(&page.id)))
    }
}

pub(super) fn answered<T, E>(answer: Result<super::Answer<T>, E>) -> Result<T, Failed<E>> {
    answer.map_err(Failed::Driver)?.map_err(Failed::Refused)
}

/// Why an operation of a barrier failed.
#[derive(Debug)]
pub enum Failed<E> {
    /// It was refused: nothing was changed, and the transaction can go on.
    Refused(Refusal),
    /// The driver's own error.
    Driver(E),
}

impl<E> Failed<E> {
    pub(super) fn invalid(error: &crate::Error) -> Self {
        let code = if error.kind() == crate::ErrorKind::TooLarge {
            super::RefusalCode::TooLarge
        } else {
            super::RefusalCode::Invalid
        };
        Self::Refused(Refusal::new(code, error.to_string()))
    }

    /// The refusal, where it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Driver(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for Failed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Driver(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Failed<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Driver(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Barriers, Continuation, Outcome};
    use crate::barrier::RefusalCode;
    use crate::memory::MemoryStore;

    #[tokio::test]
    async fn another_tenants_continuation_is_not_hydrated() {
        let store = MemoryStore::new();
        let (one, other) = (Barriers::of_tenant("t"), Barriers::of_tenant("u"));
        let mut transaction = store.begin();
        for barriers in [&one, &other] {
            let plan = barriers.plan("b").unwrap().members(["a"]).build().unwrap();
            barriers.create(&mut transaction, &plan).await.unwrap();
            barriers.ack(&mut transaction, "b", "a", Outcome::ok()).await.unwrap();
        }
        let body = br#"{"tenant": "t", "barrier": "b", "epoch": 1}"#;
        let continuation = Continuation::parse(body).unwrap();
        assert!(one.hydrate(&mut transaction, &continuation).await.unwrap().is_some());
        assert!(other.hydrate(&mut transaction, &continuation).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_cannot_be_a_name_is_refused_before_anything_is_asked() {
        let (store, barriers) = (MemoryStore::new(), Barriers::new());
        let mut transaction = store.begin();
        for (id, member, code) in [
            ("", "a", RefusalCode::Invalid),
            ("a\nb", "a", RefusalCode::Invalid),
            ("b", "", RefusalCode::Invalid),
            (&"x".repeat(256), "a", RefusalCode::TooLarge),
            ("b", &"x".repeat(1_025), RefusalCode::TooLarge),
        ] {
            let failed = barriers.ack(&mut transaction, id, member, Outcome::ok()).await;
            let failed = failed.unwrap_err();
            assert_eq!(failed.refusal().map(super::Refusal::code), Some(code), "{id} {member}");
        }
    }
}
