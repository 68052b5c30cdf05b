//! One connection to a server, as publishes see it: it takes them until it is over, and then it
//! never comes back. Its inside is in `life`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::Client;
use bytes::Bytes;
use sendoff_core::PublishError;
use sendoff_core::publisher::HandOver;
#[cfg(doc)]
use sendoff_core::publisher::PublishClass;
use tokio::sync::{mpsc, oneshot, watch};

use crate::nats::NatsOptions;
use crate::nats::address::NatsAddress;
use crate::nats::answer::Answer;
use crate::nats::headers::Packed;
use crate::nats::in_flight::{InFlight, lost};
use crate::nats::life::{Greeted, Job, Life, QUEUE};
use crate::nats::refusal::{not_sent, unreachable_at};
use crate::nats::standing::Standing;

/// A connection that has been greeted.
pub(crate) struct Connection {
    client: Client,
    jobs: mpsc::Sender<Job>,
    max_payload: usize,
    in_flight: Arc<InFlight>,
    /// Dropped, or used, it ends the connection.
    stop: Mutex<Option<oneshot::Sender<()>>>,
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
        standing: &Arc<Standing>,
    ) -> Result<Self, PublishError> {
        let (ready, greeted) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (jobs, mut queue) = mpsc::channel(QUEUE);
        let (alive, gone) = watch::channel(());
        let in_flight = Arc::new(InFlight::default());
        let life = Life::new(
            Arc::clone(address),
            options.clone(),
            Arc::clone(&in_flight),
            Arc::clone(standing),
        );
        std::thread::Builder::new()
            .name("sendoff-nats".to_owned())
            .spawn(move || {
                life.run(ready, stopped, &mut queue);
                drop(alive);
            })
            .map_err(|error| unreachable_at(address, &format!("no thread: {error}")))?;
        let Greeted { client, max_payload } = greeted
            .await
            .unwrap_or_else(|_| Err(unreachable_at(address, "the connection's thread ended")))?;
        let stop = Mutex::new(Some(stop));
        Ok(Self { client, jobs, max_payload, in_flight, stop, gone })
    }

    /// The largest message, headers included, that the server takes.
    pub(crate) fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Whether nothing can be published any more.
    pub(crate) fn is_over(&self) -> bool {
        self.in_flight.is_over()
    }

    /// Publishes and waits for the answer, without a bound of its own.
    pub(crate) async fn publish(
        &self,
        subject: String,
        headers: Packed,
        body: Bytes,
    ) -> Result<Answer, PublishError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::One { subject, headers, body, answer };
        if self.jobs.send(job).await.is_err() {
            return Err(not_sent(&self.in_flight.ending().unwrap_or_default()));
        }
        answered.await.map_err(|_| lost(&self.in_flight.ending().unwrap_or_default()))
    }

    /// Takes many at once.
    ///
    /// # Errors
    /// The messages, where the connection is over or has too much to do.
    pub(crate) fn hand_over(&self, batch: HandOver) -> Result<(), HandOver> {
        use mpsc::error::TrySendError::{Closed, Full};
        match self.jobs.try_send(Job::Many(batch)) {
            Ok(()) | Err(Closed(Job::One { .. }) | Full(Job::One { .. })) => Ok(()),
            Err(Closed(Job::Many(batch)) | Full(Job::Many(batch))) => Err(batch),
        }
    }

    /// The client, to ask the server with.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Ends the connection and returns when its socket and buffers are gone. What is in flight
    /// fails with [`PublishClass::Lost`].
    pub(crate) async fn discard(&self) {
        drop(lock(&self.stop).take());
        let mut gone = self.gone.clone();
        while gone.changed().await.is_ok() {}
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
