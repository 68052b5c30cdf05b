//! One suite of barriers for every store (G5).
//!
//! A store's tests say how to make one ([`Subject`]) and instantiate
//! [`barrier_suite!`](crate::barrier_suite); every case is then a test of its own there. The number of
//! cases is committed ([`CASES`]).
//!
//! What does not belong here: two acknowledgements that meet at every instant, which each store's race
//! tests bring about; the relay's engine, which core tests.
#![allow(
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "a case panics where the store breaks its contract, and fails where the store fails"
)]

pub mod ack;
pub mod batch;
pub mod change;
pub mod create;
pub mod deadline;
pub mod evidence;
mod keys;
pub mod life;
mod list;
pub mod nest;
pub mod policy;
pub mod probe;
pub mod read;
pub mod reopen;
mod stage;
mod subject;
pub mod transaction;

pub use keys::WrittenKeys;
pub use list::{CASES, check_the_list};
pub use subject::{End, OpenTransaction, Store, Subject};
