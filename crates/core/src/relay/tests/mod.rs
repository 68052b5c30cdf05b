//! Tests of the relay's pure parts. The whole relay is tested in `crates/core/tests` and in the
//! conformance suite, against stores.

mod alerts;
mod backoff;
mod breaker;
mod holds;
mod lanes;
mod line;
mod overlap;
mod retries;
mod settings;
mod window;
