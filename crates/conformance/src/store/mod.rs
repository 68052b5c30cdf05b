//! One suite for every store.
//!
//! A store's tests say how to make one ([`Subject`]) and instantiate [`store_suite!`](crate::store_suite);
//! every case is then a test of its own there. What differs between stores is a fact of the subject
//! ([`Facts`]): it changes what a case asserts and never removes the case. The number of cases is
//! committed ([`CASES`]), so that a case which is lost on the way turns the run red.
//!
//! What does not belong here: anything that one database has and the others have not. That is
//! tested beside its store.
#![allow(
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "a case panics where the store breaks its contract, and fails where the store fails"
)]

pub mod backlog;
pub mod claim;
pub mod desk;
pub mod fence;
pub mod hold;
pub mod keep;
pub mod lease;
mod list;
pub mod look;
pub mod mend;
pub mod pause;
pub mod policy;
pub mod relay;
pub mod route;
pub mod schema;
pub mod send;
pub mod settle;
pub(crate) mod stage;
mod subject;
pub mod survive;
pub mod wait;

pub use list::{CASES, check_the_list};
pub use sendoff_core::memory::PlainRow;
pub use subject::{Facts, OpenTransaction, Store, Subject};
