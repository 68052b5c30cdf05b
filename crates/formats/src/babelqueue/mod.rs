//! BabelQueue: the wire envelope of schema version 1, and what its programs do with it.
//!
//! - [`Envelope`] makes, decodes, checks and encodes. [`DeadLetter`] is the block that a message gets on
//!   its way to a dead-letter queue; [`gate`] decides before decoding, by the native property.
//! - [`bindings`] project an envelope to the properties of seven brokers and of NATS, and reconcile the
//!   attempts on the way back.
//! - [`outbox`] has the outbox of the family, with its names and its behaviour.
//! - [`transport`] is a queue as [`redrive`] needs it; [`replay`] is what a redrive leaves for handlers.
//! - [`idempotency`] wraps a handler; [`payload`] checks what an envelope carries, [`gdpr`] encrypts
//!   fields of it, and [`registry`] finds the schema of a URN. [`trace`] maps trace ids to W3C's.
//!
//! Whoever relays a message hands on the bytes that he has. Nothing here makes a relay encode anew.

pub mod bindings;
mod dead_letter;
mod envelope;
pub mod gate;
pub mod gdpr;
pub mod idempotency;
pub mod outbox;
pub mod payload;
pub mod redrive;
pub mod registry;
pub mod replay;
pub mod trace;
pub mod transport;

pub use dead_letter::{DeadLetter, Reason, dead_letter_queue};
pub use envelope::{
    DEFAULT_QUEUE, Envelope, EnvelopeError, ForbiddenKey, LANG, PolyglotMessage, Refusal,
    SCHEMA_VERSION,
};
