//! The suite on the reference store in memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_conformance::store::{Facts, OpenTransaction, PlainRow, Store, Subject};
use sendoff_core::memory::{MemoryStore, MemoryTransaction};
use sendoff_core::outbox::Transaction;
use sendoff_core::time::{Clock, Timestamp};
use sendoff_core::{Message, Result};

struct Memory {
    clock: Clock,
    store: MemoryStore,
}

#[async_trait]
impl Subject for Memory {
    const FACTS: Facts = Facts { lanes: 64, one_writer: false, draws_first: true };

    async fn empty() -> Result<Self> {
        let clock = Clock::manual();
        let store = MemoryStore::unmigrated(clock.clone());
        Ok(Self { clock, store })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.store.another()))
    }

    async fn begin(&self) -> Result<Box<dyn OpenTransaction>> {
        Ok(Box::new(Open(self.store.begin())))
    }

    async fn insert(&self, row: PlainRow) -> Result<()> {
        self.store.insert(row).await.map(drop)
    }

    async fn delete(&self, id: &str) -> Result<()> {
        self.store.delete(id);
        Ok(())
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        tokio::task::yield_now().await;
    }

    async fn age_pairs(&self, by: Duration) -> Result<()> {
        self.store.age_pairs(by);
        Ok(())
    }

    async fn set_schema_version(&self, version: u32, usable_from: Option<u32>) -> Result<()> {
        self.store.set_schema_version(version, usable_from);
        Ok(())
    }
}

struct Open(MemoryTransaction);

#[async_trait]
impl OpenTransaction for Open {
    async fn send(&mut self, messages: &[Message]) -> Result<()> {
        self.0.append(messages).await
    }

    async fn draw(&mut self) -> Result<Option<i64>> {
        Ok(Some(self.0.draw()))
    }

    async fn savepoint(&mut self, name: &str) -> Result<()> {
        self.0.savepoint(name);
        Ok(())
    }

    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.0.rollback_to(name)
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.0.commit().await
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.0.rollback();
        Ok(())
    }
}

sendoff_conformance::store_suite!(Memory);

mod relays {
    use super::Memory;

    sendoff_conformance::relay_suite!(Memory);
}
