//! The suite of barriers on the reference store in memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_conformance::barrier::{End, OpenTransaction, Store, Subject, WrittenKeys};
use sendoff_core::barrier::{
    AckBatch, AckedBatch, Answer, BarrierId, BarrierResult, BarrierTransaction, Barriers, Change,
    Changed, Continuation, Created, Failed, Outcomes, Page, Plan, Status,
};
use sendoff_core::memory::{MemoryStore, MemoryTransaction};
use sendoff_core::outbox::Transaction;
use sendoff_core::time::Clock;
use sendoff_core::{Error, Message, Result};

struct Memory {
    clock: Clock,
    store: MemoryStore,
}

#[async_trait]
impl Subject for Memory {
    async fn empty() -> Result<Self> {
        let clock = Clock::manual();
        let store = MemoryStore::unmigrated(clock.clone());
        Ok(Self { clock, store })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.store.another().with_key_source(Arc::new(WrittenKeys))))
    }

    async fn begin(&self) -> Result<Box<dyn OpenTransaction>> {
        Ok(Box::new(Open(self.store.begin())))
    }

    async fn age(&self, by: Duration) -> Result<()> {
        self.clock.advance(by);
        Ok(())
    }

    async fn lost(&self, _acks: &[(&str, bool)]) -> Result<Option<String>> {
        Ok(None)
    }
}

struct Open(MemoryTransaction);

#[async_trait]
impl OpenTransaction for Open {
    async fn create(&mut self, plan: &Plan) -> Result<Answer<Created>> {
        self.0.create_barrier(plan).await
    }

    async fn ack(&mut self, batch: &AckBatch) -> Result<Answer<AckedBatch>> {
        self.0.ack_members(batch).await
    }

    async fn change(&mut self, id: &BarrierId, change: &Change) -> Result<Answer<Changed>> {
        self.0.change_barrier(id, change).await
    }

    async fn status(&mut self, id: &BarrierId) -> Result<Option<Status>> {
        self.0.barrier_status(id).await
    }

    async fn hydrate(&mut self, continuation: &Continuation) -> Result<Option<BarrierResult>> {
        let barriers = Barriers::of_tenant(continuation.tenant.as_str());
        barriers.hydrate(&mut self.0, continuation).await.map_err(|failed| match failed {
            Failed::Driver(error) => error,
            Failed::Refused(refusal) => Error::invalid("hydrating", refusal.to_string()),
        })
    }

    async fn outcomes(&mut self, page: &Page) -> Result<Option<Outcomes>> {
        self.0.barrier_outcomes(page).await
    }

    async fn send(&mut self, message: &Message) -> Result<()> {
        self.0.append(std::slice::from_ref(message)).await
    }

    async fn savepoint(&mut self, name: &str) -> Result<()> {
        self.0.savepoint(name);
        Ok(())
    }

    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.0.rollback_to(name)
    }

    async fn end(self: Box<Self>, end: End) -> Result<()> {
        match end {
            End::Commit => self.0.commit().await,
            End::Rollback => {
                self.0.rollback();
                Ok(())
            }
        }
    }
}

sendoff_conformance::barrier_suite!(Memory);
