//! Connections to the target that wait for the next publish.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::webhook::connection::Connection;

/// A connection that has waited longer is not used again: few receivers keep one for a minute.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// What waits: at most as many as there are publishes at once, since each gives back one.
#[derive(Default)]
pub(super) struct Pool(Mutex<VecDeque<(Instant, Connection)>>);

impl Pool {
    /// The connection that was used last, if any is still open.
    pub(super) async fn take(&self) -> Option<Connection> {
        loop {
            let (since, mut connection) = {
                let mut waiting = self.waiting();
                while waiting.front().is_some_and(|(since, _)| since.elapsed() > IDLE_MAX) {
                    waiting.pop_front();
                }
                waiting.pop_back()?
            };
            if since.elapsed() <= IDLE_MAX && connection.is_open().await {
                return Some(connection);
            }
        }
    }

    pub(super) fn give_back(&self, connection: Connection) {
        self.waiting().push_back((Instant::now(), connection));
    }

    /// Ends every connection that waits.
    pub(super) fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Instant, Connection)>> {
        // Nothing panics under this lock, and what it guards is whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
