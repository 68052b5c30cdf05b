//! Tests that need the statements themselves.

mod plans;
