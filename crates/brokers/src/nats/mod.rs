//! NATS JetStream.
//!
//! # Address
//!
//! `nats://[user:password@]host[:port]/STREAM[?parameters]`, or `tls://` for a connection that says
//! nothing without TLS. A token stands in place of user and password (`token@`). The port is 4222
//! unless given. Paths are percent-decoded, and the files are read at each connect.
//!
//! | parameter | meaning |
//! | --- | --- |
//! | `prefix=subject` | what subjects begin with; the stream's name unless given, empty for none |
//! | `create=true` | creates the stream where it is not there: subjects `PREFIX.>`, file storage, a duplicate window of [`NatsOptions::duplicate_window`]. A stream that is there is never changed |
//! | `credentials=path` | a credentials file (JWT and seed) |
//! | `nkey=path` | a file with the seed of an nkey |
//! | `ca=path` | with `tls://`: PEM certificates to trust instead of the system's |
//! | `cert=path`, `key=path` | with `tls://`: the client's certificate and its key, in PEM |
//!
//! Without `create=true` the stream has to be there:
//!
//! ```text
//! nats stream add ORDERS --subjects='ORDERS.>' --storage=file --defaults
//! ```
//!
//! # Subjects
//!
//! The subject is the prefix (the stream's name unless the URL says otherwise), a dot and the
//! topic. An empty prefix (`?prefix=`) means the topic alone. In a topic these are percent-encoded,
//! byte by byte of their UTF-8, everything else stays as it is, so that no two topics share a
//! subject and every topic is a valid one:
//!
//! - `%`, `*`, `>`, `$`, white space and control characters;
//! - a dot that would leave an empty token: the first character, the last, or after another dot;
//! - with an empty prefix, a `_` at the beginning, so that no topic names somebody's inbox.
//!
//! # Headers
//!
//! | header | value |
//! | --- | --- |
//! | `Nats-Msg-Id` | [`sendoff_core::Message::dedup_id`], by which the stream recognises a repetition. One that begins or ends with white space stands in `%(` and `)` |
//! | `Sendoff-Id`, `Sendoff-Source`, `Sendoff-Topic` | as sent |
//! | `Sendoff-Key` | as sent; absent where the message has no key |
//! | `Sendoff-Encoded` | the names of the headers whose values are percent-encoded, with spaces between; absent where there are none |
//! | every header of the message | as sent |
//!
//! A value that NATS would change (white space at its ends, control characters) or that would hide
//! the dedup id from the server (it contains `Nats-Msg-Id`) is percent-encoded, and its header is
//! named in `Sendoff-Encoded`; every other value is carried as it is. In names, `%` and what is
//! not printable ASCII is percent-encoded; so is the first character of a name that begins with
//! `Nats-` or `Sendoff-` in any case: those are the contract's, and a message's own headers can
//! neither replace them nor command the server (`Nats-Rollup`). [`read_delivery`] undoes all of it.
//!
//! # What counts
//!
//! Only an acknowledgement by the stream that the URL names; one that says `duplicate` counts too.
//!
//! | what happens | class |
//! | --- | --- |
//! | no connection, wrong user or certificate; no stream; JetStream off; stream sealed or offline; disk full; no quorum | `Unreachable` |
//! | the stream is full and discards what is new; too many requests | `Throttled` |
//! | larger than the server's `max_payload` (told before, once connected) or the stream's `max_msg_size` | `Permanent` |
//! | the subject belongs to another stream, is not among the stream's, or may not be published to; full per subject; another error | `Failed` |
//! | the connection ended before the answer | `Lost` |
//!
//! A publish does not wait longer for a connection than [`NatsOptions::connect_timeout`], and
//! nothing is kept for later while there is none.
//!
//! What does not belong here: changing streams, and consumers.

mod address;
mod answer;
mod connection;
mod doctor;
mod headers;
mod in_flight;
mod life;
mod parameters;
mod publisher;
mod refusal;
mod security;
mod standing;
mod stream;
mod subject;

use std::time::Duration;

pub use address::NatsAddress;
pub(crate) use doctor::examine;
pub use headers::read_delivery;
pub use publisher::NatsPublisher;
pub use subject::{subject_of, topic_of};

/// How a [`NatsPublisher`] connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsOptions {
    /// How long a publish waits for a connection to be there. 2 s unless set otherwise.
    pub connect_timeout: Duration,
    /// The most publishes in flight at once, which the relay keeps. 2,000 unless set otherwise.
    pub in_flight_max: usize,
    /// How often an idle connection is tested; it is given up after three tests without an answer.
    /// 10 s unless set otherwise.
    pub ping_interval: Duration,
    /// For how long a stream that is created here recognises a repetition (`create=true`). 10 min
    /// unless set otherwise.
    pub duplicate_window: Duration,
    /// The name under which the server lists the connection.
    pub client_name: String,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            in_flight_max: 2_000,
            ping_interval: Duration::from_secs(10),
            duplicate_window: Duration::from_secs(600),
            client_name: "sendoff".to_owned(),
        }
    }
}
