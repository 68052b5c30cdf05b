//! Sendoff's publishers, one folder per broker with the same file names in each.
//!
//! A folder has `mod.rs` (how the target is addressed and what a delivery looks like there),
//! `address.rs` (the URL), `publisher.rs` (the [`sendoff_core::Publisher`]) and what only that
//! broker needs. `Target` opens any of them by URL.
//!
//! What does not belong here: retry, order and batches of messages, which are the relay's, and
//! consumers.

#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(feature = "nats", feature = "webhook"))]
mod percent;
#[cfg(any(feature = "nats", feature = "file", feature = "webhook"))]
mod target;
#[cfg(any(feature = "nats", feature = "webhook"))]
mod tls;
#[cfg(feature = "webhook")]
pub mod webhook;

#[cfg(any(feature = "nats", feature = "file", feature = "webhook"))]
pub use target::{Target, TargetOptions};
