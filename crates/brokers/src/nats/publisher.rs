//! The publisher: connects when it is first needed, and again when the connection is over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use sendoff_core::publisher::{HandOver, PublisherLimits};
use sendoff_core::{Message, PublishError, Publisher, Result};

use crate::nats::NatsOptions;
use crate::nats::address::NatsAddress;
use crate::nats::answer::Answer;
use crate::nats::connection::{Connection, lock};
use crate::nats::headers::{Packed, wire_bytes_bound};
use crate::nats::refusal::oversize;
use crate::nats::standing::Standing;
use crate::nats::subject::subject_of;

/// Publishes to one JetStream stream. See [`crate::nats`] for what a delivery looks like.
#[derive(Debug)]
pub struct NatsPublisher {
    address: Arc<NatsAddress>,
    shown: String,
    options: NatsOptions,
    slot: Mutex<Slot>,
    /// The server's `max_payload`, once it has been seen; kept over reconnects.
    max_payload: AtomicUsize,
    standing: Arc<Standing>,
}

type Connecting = Shared<BoxFuture<'static, Result<Arc<Connection>, PublishError>>>;

/// What there is of a connection.
enum Slot {
    Empty,
    /// Everybody who comes waits for this one attempt and shares its outcome.
    Connecting(Connecting),
    Up(Arc<Connection>),
    Closed,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Connecting(_) => "Connecting",
            Self::Up(_) => "Up",
            Self::Closed => "Closed",
        })
    }
}

impl NatsPublisher {
    /// A publisher to the stream that the URL names:
    /// `nats://[user:password@]host[:port]/STREAM[?prefix=subject]`. Connects at the first publish.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] for a malformed URL, with the reason and an example.
    pub fn new(url: &str, options: NatsOptions) -> Result<Self> {
        let address = Arc::new(NatsAddress::parse(url)?);
        Ok(Self {
            shown: address.to_string(),
            standing: Arc::new(Standing::new(Arc::clone(&address), options.connect_timeout)),
            address,
            options,
            slot: Mutex::new(Slot::Empty),
            max_payload: AtomicUsize::new(usize::MAX),
        })
    }

    /// The connection that is up, or a new one.
    async fn connection(&self) -> Result<Arc<Connection>, PublishError> {
        let connecting = {
            let mut slot = lock(&self.slot);
            match &*slot {
                Slot::Up(connection) if !connection.is_over() => return Ok(Arc::clone(connection)),
                Slot::Closed => return Err(PublishError::unreachable("the publisher is closed")),
                Slot::Connecting(connecting) => connecting.clone(),
                Slot::Empty | Slot::Up(_) => {
                    let connecting = self.connect();
                    *slot = Slot::Connecting(connecting.clone());
                    connecting
                }
            }
        };
        let outcome = connecting.clone().await;
        let mut slot = lock(&self.slot);
        // Only if it is still this attempt that stands there: a reset may have come between.
        if matches!(&*slot, Slot::Connecting(now) if now.ptr_eq(&connecting)) {
            *slot = match &outcome {
                Ok(connection) => {
                    let bytes = connection.max_payload();
                    self.max_payload.store(bytes, Ordering::Relaxed);
                    Slot::Up(Arc::clone(connection))
                }
                Err(_) => Slot::Empty,
            };
        }
        outcome
    }

    fn connect(&self) -> Connecting {
        let (address, options) = (Arc::clone(&self.address), self.options.clone());
        let standing = Arc::clone(&self.standing);
        async move { Connection::open(&address, &options, &standing).await.map(Arc::new) }
            .boxed()
            .shared()
    }

    fn refuse_oversize(&self, bytes: usize) -> Result<(), PublishError> {
        let max = self.max_payload.load(Ordering::Relaxed);
        if bytes <= max { Ok(()) } else { Err(oversize(bytes, max)) }
    }
}

#[async_trait]
impl Publisher for NatsPublisher {
    fn address(&self) -> &str {
        &self.shown
    }

    fn limits(&self) -> PublisherLimits {
        PublisherLimits {
            in_flight_max: self.options.in_flight_max,
            body_bytes_max: self.max_payload.load(Ordering::Relaxed),
        }
    }

    /// Knows the server's limit once it has been connected to.
    fn check(&self, message: &Message) -> Result<(), PublishError> {
        let body = message.body().len();
        let bound = body.saturating_add(wire_bytes_bound(message));
        if bound <= self.max_payload.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refuse_oversize(body + Packed::of(message).wire_bytes())
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        let connection = self.connection().await?;
        let headers = Packed::of(message);
        let body = message.body().clone();
        self.refuse_oversize(body.len() + headers.wire_bytes())?;
        let subject = subject_of(self.address.prefix(), message.topic());
        match connection.publish(subject.clone(), headers, body).await? {
            Answer::Stored => Ok(()),
            Answer::Refused(error) => Err(error),
            Answer::NoResponders => Err(self.standing.explain(connection.client(), &subject).await),
        }
    }

    /// Takes them while a connection is up. Making one takes time, so it is left to the publish of
    /// a single message.
    fn hand_over(&self, batch: HandOver) -> Result<(), HandOver> {
        let connection = match &*lock(&self.slot) {
            Slot::Up(connection) if !connection.is_over() => Arc::clone(connection),
            _ => return Err(batch),
        };
        connection.hand_over(batch)
    }

    async fn reset(&self) {
        let connection = {
            let mut slot = lock(&self.slot);
            match std::mem::replace(&mut *slot, Slot::Empty) {
                Slot::Up(connection) => Some(connection),
                // An attempt that nobody awaits any more ends by itself.
                Slot::Empty | Slot::Connecting(_) => None,
                Slot::Closed => {
                    *slot = Slot::Closed;
                    None
                }
            }
        };
        if let Some(connection) = connection {
            connection.discard().await;
        }
    }

    async fn close(&self) {
        self.reset().await;
        *lock(&self.slot) = Slot::Closed;
    }
}
