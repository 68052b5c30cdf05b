//! The suite of every publisher on the reference publisher in memory.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_conformance::publisher::{Arrival, Facts, Subject};
use sendoff_core::memory::MemoryPublisher;
use sendoff_core::publisher::PublisherLimits;
use sendoff_core::{Publisher, Result};

struct Memory(MemoryPublisher);

#[async_trait]
impl Subject for Memory {
    const FACTS: Facts =
        Facts { deduplicates: true, body_bytes_max: Some(1 << 20), exclusive: false };

    async fn empty() -> Result<Self> {
        let limits = PublisherLimits { body_bytes_max: 1 << 20, ..PublisherLimits::default() };
        Ok(Self(MemoryPublisher::with(limits, true)))
    }

    async fn publisher(&self) -> Result<Arc<dyn Publisher>> {
        Ok(Arc::new(self.0.another()))
    }

    async fn arrived(&self) -> Result<Vec<Arrival>> {
        let taken = self.0.deliveries().into_iter();
        Ok(taken
            .map(|delivery| Arrival { dedup_id: delivery.dedup_id, message: delivery.message })
            .collect())
    }
}

mod memory {
    use super::Memory;
    sendoff_conformance::publisher_suite!(Memory);
}
