//! crates/conformance
