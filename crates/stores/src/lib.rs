//! crates/stores
