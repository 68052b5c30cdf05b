//! The crash harness: it kills what can be killed, at points picked at random, and compares what
//! committed with what arrived.
//!
//! The truth is a business table, `orders`, written in the same transactions as the messages. A
//! relay runs in a process of its own, built from the library as a user would build one, with thin
//! wrappers that mark what it does with each message ([`marks`], [`watched`]). A round kills the
//! relay, the database or the broker, or stops a relay past its lease; it counts only where
//! something was under way. Between stretches of rounds everything drains and is compared: what was
//! lost, what arrived without a commit, what overtook its key, and which duplicates no fault
//! explains.
//!
//! Read it from the top down: [`run`] is the whole run, [`round`] one round, [`ledger`] the
//! comparison, [`ground`] the database and the broker, [`writers`] the business, [`relays`] the
//! processes. What does not belong here: a test of one behaviour, which needs no crash.

pub mod ground;
pub mod ledger;
pub mod marks;
pub mod order;
pub mod outcome;
pub mod relay;
pub mod relays;
pub mod round;
pub mod run;
pub mod watched;
pub mod writers;

use std::fmt::Display;
use std::io;

/// An error with what was being done.
fn failed(doing: &str, error: impl Display) -> io::Error {
    io::Error::other(format!("{doing}: {error}"))
}
