//! The built program as its users run it: real processes, SQLite files, a file as the target.

#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

mod bad_input;
mod barrier;
mod barrier_change;
mod barrier_lines;
mod barrier_refusals;
mod completions;
mod configuration;
mod doctor;
mod folder;
mod http;
mod job;
mod job_partner;
mod keep;
mod pause;
mod postgres;
mod quarantine;
mod relay;
mod routes;
mod row_locks;
mod send;
mod serve;
mod serve_callback;
mod stores;
mod up;
mod up_batch;
mod verify;
mod watch;
mod webhook;
