//! JSON values: what is read is written again as it was.

mod kept;
mod properties;
mod refused;
