//! The transactional outbox of the family: its names, its steps, its defaults.
//!
//! [`Outbox`] encodes an envelope and saves it in a transaction that the caller has opened; an
//! [`OutboxRelay`] publishes what is there, later and with the same bytes. [`OutboxStore`] is what both
//! need of a database; [`InMemoryOutboxStore`] is one for tests and demonstrations.
//!
//! It is for programs that come from another SDK and keep its table and its habits: one relay, no order
//! across failures, a failing row that waits for the others. Where there is a choice, Sendoff's own
//! [`sendoff_core::Outbox`] and relay do more, with [`super::bindings::nats::message`].
//!
//! ```
//! use sendoff_formats::babelqueue::Envelope;
//! use sendoff_formats::babelqueue::outbox::{InMemoryOutboxStore, Outbox, OutboxRelay};
//! use sendoff_formats::babelqueue::transport::InMemoryTransport;
//! use sendoff_formats::json::Json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = InMemoryOutboxStore::new();
//! let envelope = Envelope::make("urn:babel:orders:created", Json::Null, "orders", None)?;
//! Outbox::new(store.clone()).write(&envelope).await?;
//!
//! let transport = InMemoryTransport::new();
//! let mut relay = OutboxRelay::new(transport.clone(), store.clone());
//! assert_eq!(relay.drain(0).await?.published, 1);
//! assert_eq!(transport.bodies("orders"), [envelope.encode()]);
//! # Ok(()) }
//! ```

mod memory;
mod relay;
mod store;

pub use memory::InMemoryOutboxStore;
pub use relay::{
    DEFAULT_BACKOFF_CAP, DEFAULT_BACKOFF_STEP, DEFAULT_BATCH, DEFAULT_DRAIN_CEILING, OutboxRelay,
    RelayOptions, RelayTally, Sleeper, TokioSleeper,
};
pub use store::{Outbox, OutboxRecord, OutboxStore, OutboxTransport, TransportError};
