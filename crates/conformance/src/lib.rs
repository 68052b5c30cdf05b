//! One suite for every store, one for every publisher, and the private servers that tests start.

pub mod store;
