//! The Rust blocks of the README and of `docs/`, compiled as doc tests.
//!
//! The programs of this folder are one level up. What does not belong here: anything but pages.

#![allow(
    rustdoc::invalid_codeblock_attributes,
    reason = "`no-run: reason` is for the test of the pages, rustdoc takes it for a slip of `no_run`"
)]

#[doc = include_str!("../../README.md")]
#[cfg(doctest)]
pub mod readme {}

#[doc = include_str!("../../docs/how-to/send-from-rust.md")]
#[cfg(doctest)]
pub mod send_from_rust {}

// Its blocks are excerpts of a program in this folder, which is compiled as it is.
#[doc = include_str!("../../docs/how-to/barriers.md")]
#[cfg(doctest)]
pub mod wait_for_acknowledgements {}

#[doc = include_str!("../../docs/how-to/send-to-several-targets.md")]
#[cfg(doctest)]
pub mod send_to_several_targets {}

#[doc = include_str!("../../docs/how-to/run-the-relay.md")]
#[cfg(doctest)]
pub mod run_the_relay {}

#[doc = include_str!("../../docs/how-to/write-a-publisher.md")]
#[cfg(doctest)]
pub mod write_a_publisher {}

#[doc = include_str!("../../docs/reference/barriers.md")]
#[cfg(doctest)]
pub mod barriers {}

#[doc = include_str!("../../docs/how-to/secure-the-database.md")]
#[cfg(doctest)]
pub mod secure_the_database {}

#[doc = include_str!("../../docs/how-to/babelqueue.md")]
#[cfg(doctest)]
pub mod babelqueue {}

#[doc = include_str!("../../docs/reference/cloudevents.md")]
#[cfg(doctest)]
pub mod cloudevents {}
