//! One suite for every publisher.
//!
//! A publisher's tests say how to make one and how to read back what arrived ([`Subject`]) and
//! instantiate [`publisher_suite!`](crate::publisher_suite); every case is then a test of its own
//! there. A target that can be killed and paused ([`Breakable`]) also gets
//! [`publisher_outage_suite!`](crate::publisher_outage_suite). What differs between publishers is a
//! fact of the subject ([`Facts`]): it changes what a case asserts and never removes the case. The
//! numbers of cases are committed ([`CASES`], [`OUTAGE_CASES`]), so that a case which is lost on the
//! way turns the run red.
//!
//! What does not belong here: what only one broker has (a missing stream, a full disk). That is
//! tested beside its publisher.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "a case's name is the sentence that it proves; it panics where that does not hold"
)]

pub mod delivery;
pub mod limits;
mod list;
pub mod outage;
mod stage;
pub mod stop;
mod subject;

pub use list::{CASES, OUTAGE_CASES, check_the_list, check_the_outage_list};
pub use subject::{Arrival, Breakable, Facts, Subject};
