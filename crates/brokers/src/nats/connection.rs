//! One connection to a server, as publishes see it: it takes them until it is over, and then it
//! never comes back. Its inside is in `life`.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sendoff_core::publisher::{HandOver, PublishClass};
use sendoff_core::{Message, PublishError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::nats::NatsOptions;
use crate::nats::address::NatsAddress;
use crate::nats::greeting::greet;
use crate::nats::life::{Life, not_sent};

/// How many hand-overs and single publishes wait for the connection; more wait in their callers, or
/// are not taken.
const QUEUE: usize = 1_024;

/// What is to be published.
#[derive(Debug)]
pub(super) enum Job {
    One(Arc<Message>, oneshot::Sender<Result<(), PublishError>>),
    Many(HandOver),
}

/// What is known of a connection outside of its task.
#[derive(Debug, Default)]
pub(super) struct Fate {
    over: AtomicBool,
    why: Mutex<String>,
}

impl Fate {
    pub(super) fn end(&self, why: &str) {
        why.clone_into(&mut lock(&self.why));
        self.over.store(true, Ordering::Release);
    }

    /// Why it ended; marks it as over where it did not end by itself.
    pub(super) fn ending(&self) -> String {
        if !self.over.load(Ordering::Acquire) {
            self.end("the connection was discarded");
        }
        self.why()
    }

    fn why(&self) -> String {
        lock(&self.why).clone()
    }
}

/// A connection that has been greeted.
pub(crate) struct Connection {
    jobs: mpsc::Sender<Job>,
    max_payload: usize,
    fate: Arc<Fate>,
    task: AbortHandle,
    /// Closed when the socket and its buffers are gone.
    gone: watch::Receiver<()>,
}

impl Connection {
    /// Connects within the options' timeout.
    ///
    /// # Errors
    /// [`PublishClass::Unreachable`] with the reason.
    pub(crate) async fn open(
        address: &Arc<NatsAddress>,
        options: &NatsOptions,
    ) -> Result<Self, PublishError> {
        let wait = options.connect_timeout;
        let greeted = tokio::time::timeout(wait, greet(address, options))
            .await
            .unwrap_or_else(|_| Err(format!("no greeting within {wait:?}")))
            .map_err(|reason| {
                PublishError::unreachable(format!("cannot connect to {address}: {reason}"))
            })?;
        let max_payload = greeted.max_payload;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (alive, gone) = watch::channel(());
        let fate = Arc::<Fate>::default();
        let life =
            Life::new(greeted, queue, Arc::clone(&fate), Arc::clone(address), options.clone());
        let task = tokio::spawn(async move {
            // Dropped last: the socket and everything queued are gone by then.
            let _alive = alive;
            life.run().await;
        });
        Ok(Self { jobs, max_payload, fate, task: task.abort_handle(), gone })
    }

    /// The largest message, headers included, that the server takes.
    pub(crate) fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Whether nothing can be published any more.
    pub(crate) fn is_over(&self) -> bool {
        self.fate.over.load(Ordering::Acquire) || self.jobs.is_closed()
    }

    /// Publishes and waits for the answer, without a bound of its own.
    pub(crate) async fn publish(&self, message: Arc<Message>) -> Result<(), PublishError> {
        let (answer, answered) = oneshot::channel();
        if self.jobs.send(Job::One(message, answer)).await.is_err() {
            return Err(not_sent(&self.fate.why()));
        }
        answered.await.unwrap_or_else(|_| {
            let detail = format!("{}; it is unknown whether the message arrived", self.fate.why());
            Err(PublishError::new(PublishClass::Lost, detail))
        })
    }

    /// Takes many at once.
    ///
    /// # Errors
    /// The messages, where the connection is over or has too much to do.
    pub(crate) fn hand_over(&self, batch: HandOver) -> Result<(), HandOver> {
        use mpsc::error::TrySendError::{Closed, Full};
        match self.jobs.try_send(Job::Many(batch)) {
            Ok(()) => Ok(()),
            Err(Closed(Job::Many(batch)) | Full(Job::Many(batch))) => Err(batch),
            Err(Closed(Job::One(..)) | Full(Job::One(..))) => Ok(()),
        }
    }

    /// Ends the connection and returns when its socket and buffers are gone. What is in flight
    /// fails with [`PublishClass::Lost`].
    pub(crate) async fn discard(&self) {
        self.task.abort();
        let mut gone = self.gone.clone();
        while gone.changed().await.is_ok() {}
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("over", &self.is_over()).finish_non_exhaustive()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks; and what they guard is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
