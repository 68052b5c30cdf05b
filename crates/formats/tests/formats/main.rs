//! Formats: one program of tests, a folder for each module of the crate.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod babelqueue;
mod event;
mod json;
