//! Tests that need the statements themselves.

mod casts;
mod plans;
