//! The publisher to NATS JetStream against private servers.
#![cfg(feature = "nats")]
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

mod hand_over;
mod security;
mod server;
mod stream;
mod suite;
mod trouble;
