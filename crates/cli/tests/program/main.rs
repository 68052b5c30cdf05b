//! The built program as its users run it: real processes, SQLite files, a file as the target.

#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

mod bad_input;
mod completions;
mod configuration;
mod folder;
mod http;
mod postgres;
mod quarantine;
mod relay;
mod send;
mod up;
mod verify;
mod webhook;
