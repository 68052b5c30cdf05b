//! Lanes: hash slices of the keys, the unit that relays share out among themselves.
//!
//! A lane is a number from 0 to `lanes - 1`. The hash is the first four bytes, big-endian, of the
//! MD5 of the key's UTF-8 bytes (of the id, where a message has no key), modulo the number of
//! lanes. It is a mixing function here, not a security measure; MD5 was chosen because every
//! database has it, so that a generated column computes the lane and a plain INSERT need not know.

use std::fmt;

use md5::{Digest, Md5};

/// How many lanes a store has unless its table says otherwise.
pub const LANES_DEFAULT: u16 = 64;

/// A lane's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Lane(pub u16);

impl Lane {
    /// The lane of a message with this key, or with this id where it has no key, in a store of
    /// `lanes` lanes. The databases compute the same in a generated column.
    ///
    /// ```
    /// use sendoff_core::lane::Lane;
    /// assert_eq!(Lane::of("customer-7", 64), Lane(41));
    /// assert_eq!(Lane::of("customer-7", 1), Lane(0));
    /// ```
    #[must_use]
    pub fn of(key_or_id: &str, lanes: u16) -> Self {
        let digest = Md5::digest(key_or_id.as_bytes());
        let word = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        let lane = word % u32::from(lanes.max(1));
        Self(u16::try_from(lane).unwrap_or(0))
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
