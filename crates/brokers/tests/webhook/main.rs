//! The webhook publisher against HTTP servers of the tests' own.
#![cfg(feature = "webhook")]
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

mod answers;
mod network;
mod outlandish;
mod receiver;
mod relay;
mod signature;
mod suite;
mod tls;
