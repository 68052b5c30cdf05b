//! crates/sendoff
