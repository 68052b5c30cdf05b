//! The built program as its users run it: real processes, SQLite files, a file as the target.

mod bad_input;
mod completions;
mod configuration;
mod folder;
mod http;
mod quarantine;
mod relay;
mod send;
mod up;
mod verify;
