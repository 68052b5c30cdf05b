//! The memory store and publisher, in what the suite of every store and every publisher cannot ask.
#![allow(clippy::expect_used, reason = "a test fails where it cannot go on")]

mod publisher;
mod transactions;
