//! The suite of relays: what a relay promises its owner, on every store and for every kind of relay.
//!
//! A case is named by the sentence that it checks. What a store promises a relay is the store's suite.
#![allow(
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    clippy::expect_used,
    missing_docs,
    reason = "a case panics where a relay breaks its contract, fails where the store fails, and is named \
              by the sentence that it checks"
)]

pub mod batch;
pub mod drain;
pub mod gate;
mod list;
pub mod modes;
pub mod report;
mod scene;
pub mod time;

pub use list::{CASES, check_the_list};
