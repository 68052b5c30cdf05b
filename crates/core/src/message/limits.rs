//! What a message may weigh. Checked when a message is built, before any SQL.

/// Limits in bytes. The stores hold the ones on names with constraints of their own; the one on
/// bodies is the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest body. 16 MiB unless set otherwise.
    pub body_bytes_max: usize,
    /// All header names and values together. 64 KiB unless set otherwise.
    pub headers_bytes_max: usize,
}

impl Limits {
    /// A topic, an id or a source has at most this many bytes.
    pub const NAME_BYTES_MAX: usize = 255;
    /// A key has at most this many bytes.
    pub const KEY_BYTES_MAX: usize = 1024;
    /// No limit on body and headers: for what a store has kept already.
    pub const UNBOUNDED: Self = Self { body_bytes_max: usize::MAX, headers_bytes_max: usize::MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes_max: 16 << 20, headers_bytes_max: 64 << 10 }
    }
}
