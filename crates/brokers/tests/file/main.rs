//! The publishers to files and to standard output.
#![cfg(feature = "file")]
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

mod suite;
mod trouble;
