//! Lanes: hash slices of the keys, the unit that relays share out among themselves.
//!
//! A lane is a number from 0 to `lanes - 1`. The hash is the first four bytes, big-endian, of the
//! MD5 of the key's UTF-8 bytes (of the id, where a message has no key), modulo the number of
//! lanes. It is a mixing function here, not a security measure; MD5 was chosen because every
//! database has it, so that a generated column computes the lane and a plain INSERT need not know.

use std::fmt;

/// How many lanes a store has unless its table says otherwise.
pub const LANES_DEFAULT: u16 = 64;

/// A lane's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Lane(pub u16);

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
