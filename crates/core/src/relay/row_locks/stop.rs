//! A stop: who waits for it, and what it ends.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

/// A stop that somebody may ask for.
pub(super) struct Stop<'a> {
    asking: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    at: Option<Instant>,
    cancel_after: Duration,
    /// In the last pass: until when rows are claimed.
    drain_until: Option<Instant>,
}

impl<'a> Stop<'a> {
    pub(super) fn new(stop: impl Future<Output = ()> + Send + 'a, cancel_after: Duration) -> Self {
        Self { asking: Box::pin(stop), at: None, cancel_after, drain_until: None }
    }

    /// Whether it was asked for, as far as anybody has waited for it.
    pub(super) fn is_asked(&self) -> bool {
        self.at.is_some()
    }

    /// Waits for it.
    pub(super) async fn asked(&mut self) {
        if self.at.is_none() {
            (&mut self.asking).await;
            self.at = Some(Instant::now());
        }
    }

    /// The last pass begins: rows are claimed for so long from the stop on.
    pub(super) fn drain(&mut self, drain: Duration) {
        self.drain_until = self.at.map(|at| at + drain);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.drain_until.is_some()
    }

    /// Does what claims. `None` where the stop, or the end of the drain, came first.
    pub(super) async fn while_claiming<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        if let Some(until) = self.drain_until {
            if Instant::now() >= until {
                return None;
            }
            return tokio::time::timeout_at(until, work).await.ok();
        }
        tokio::select! {
            biased;
            () = self.asked() => None,
            done = work => Some(done),
        }
    }

    /// Does what a stop lets end. `None` where it has been too long since.
    pub(super) async fn unless_cancelled<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let cancel_after = self.cancel_after;
        let cancelled = async {
            self.asked().await;
            let at = self.at.unwrap_or_else(Instant::now);
            tokio::time::sleep_until(at + cancel_after).await;
        };
        tokio::select! {
            done = work => Some(done),
            () = cancelled => None,
        }
    }
}
