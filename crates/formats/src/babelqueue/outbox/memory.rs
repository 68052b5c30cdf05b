//! A store in memory, for tests and demonstrations. It claims nothing: one relay.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{OutboxRecord, OutboxStore};

/// Rows in memory, with ids `ob-1`, `ob-2` and so on. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct InMemoryOutboxStore(Arc<Mutex<Vec<Row>>>);

#[derive(Debug)]
struct Row {
    record: OutboxRecord,
    published: bool,
    last_error: String,
}

impl InMemoryOutboxStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows wait.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.rows().iter().filter(|row| !row.published).count()
    }

    /// How often publishing a row failed; 0 for one that is not there.
    #[must_use]
    pub fn attempts_of(&self, id: &str) -> u32 {
        let rows = self.rows();
        rows.iter().find(|row| row.record.id == id).map_or(0, |row| row.record.attempts)
    }

    /// Why publishing a row failed last; empty where it did not, and for one that is not there.
    #[must_use]
    pub fn last_error_of(&self, id: &str) -> String {
        let rows = self.rows();
        let row = rows.iter().find(|row| row.record.id == id);
        row.map(|row| row.last_error.clone()).unwrap_or_default()
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        // No code of a caller runs under the lock, so that a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxStore for InMemoryOutboxStore {
    type Error = Infallible;

    async fn save(&mut self, encoded: &[u8], queue: &str) -> Result<String, Infallible> {
        let mut rows = self.rows();
        let id = format!("ob-{}", rows.len() + 1);
        let record = OutboxRecord {
            id: id.clone(),
            body: Bytes::copy_from_slice(encoded),
            queue: queue.to_owned(),
            attempts: 0,
        };
        rows.push(Row { record, published: false, last_error: String::new() });
        Ok(id)
    }

    async fn fetch_unpublished(&mut self, limit: usize) -> Result<Vec<OutboxRecord>, Infallible> {
        let rows = self.rows();
        let waiting = rows.iter().filter(|row| !row.published).take(limit);
        Ok(waiting.map(|row| row.record.clone()).collect())
    }

    async fn mark_published(&mut self, ids: &[String]) -> Result<(), Infallible> {
        for row in self.rows().iter_mut().filter(|row| ids.contains(&row.record.id)) {
            row.published = true;
        }
        Ok(())
    }

    async fn mark_failed(&mut self, id: &str, error: &str) -> Result<(), Infallible> {
        if let Some(row) = self.rows().iter_mut().find(|row| row.record.id == id) {
            row.record.attempts = row.record.attempts.saturating_add(1);
            error.clone_into(&mut row.last_error);
        }
        Ok(())
    }
}
