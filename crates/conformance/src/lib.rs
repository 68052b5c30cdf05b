//! What Sendoff's own tests stand on: one suite for every store, one for its barriers, one for relays, one for every
//! publisher, and the private servers that tests start.
//!
//! What does not belong here: tests of one store or one publisher only; those live beside it.

pub mod barrier;
#[doc(hidden)]
pub mod cases;
pub mod publisher;
pub mod relay;
pub mod servers;
pub mod store;
