//! Other people's envelopes, byte for byte as their own programs write and read them.
//!
//! - [`json`]: JSON values that keep what they were: the order of keys, and numbers with every digit.
//! - [`babelqueue`]: the envelope of BabelQueue, and what its programs do with it: dead letters,
//!   redrives, projections to seven brokers, an outbox, checks of the payload.
//! - [`event`]: CloudEvents 1.0, binary and structured, and the recorder that writes the events of a
//!   command in the command's transaction.
//!
//! What does not belong here: a database, a broker's client, and any rule about delivery. What is sent
//! from here is a message of [`sendoff_core`], or bytes.

pub mod babelqueue;
pub mod event;
pub mod json;
