//! crates/brokers
