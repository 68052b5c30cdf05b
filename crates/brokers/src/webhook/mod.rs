//! Webhooks: an HTTP POST for each message, with the headers of Standard Webhooks 1.0.
//!
//! # Address
//!
//! `https://[user:password@]host[:port]/path[?query]`, or `http://`. The whole URL belongs to the
//! receiver; how to publish is in [`WebhookOptions`]. User and password go out as basic
//! authorization. Where the target is shown, they are left out, the query is `***`, and so is each
//! segment of the path that looks like a token (20 characters or more, letters and digits).
//!
//! # Request
//!
//! The body is the message's, byte for byte. HTTP/1.1; connections are kept and used again.
//!
//! | header | value |
//! | --- | --- |
//! | `webhook-id` | [`sendoff_core::Message::dedup_id`], the same at every attempt. What is not an ASCII letter, a digit or one of `-_~/:` is percent-encoded, byte by byte of its UTF-8; so it has no dot, and no two messages share one |
//! | `webhook-timestamp` | when this attempt began, in whole seconds since 1970 |
//! | `webhook-signature` | for each secret `v1,` and the Base64 of HMAC-SHA256 over id, `.`, timestamp, `.`, body; with spaces between. Absent without secrets |
//! | `content-type` | the message's header of this name, in any case; else `application/octet-stream` |
//! | `sendoff-id`, `sendoff-source`, `sendoff-topic` | as sent |
//! | `sendoff-key` | as sent; absent where the message has no key |
//! | `sendoff-headers` | the names of the message's own headers that stand in headers of their own, as sent, with spaces between |
//! | `sendoff-encoded` | the names of the headers whose values are percent-encoded, with spaces between |
//!
//! A header of the message's own keeps its name, in lower case, where the name consists of ASCII
//! letters, digits and `-`, is not reserved, and no other header has taken it. Any other stands in
//! `sendoff-header-` and the hexadecimal digits of its name's bytes. Reserved is what frames,
//! routes or authorizes a request, so that no message can forge it: `webhook-*`, `sendoff-*`,
//! `proxy-*`, `x-forwarded-*`, `authorization`, `connection`, `content-encoding`, `content-length`,
//! `cookie`, `expect`, `forwarded`, `host`, `keep-alive`, `te`, `trailer`, `transfer-encoding`,
//! `upgrade`, `user-agent`, `x-http-method`, `x-http-method-override`, `x-method-override`,
//! `x-real-ip`.
//!
//! A value that HTTP would change or refuse (white space at its ends, control characters, what is
//! not ASCII) is percent-encoded, `%` included, and its header is named in `sendoff-encoded`; every
//! other value is carried as it is. [`read_delivery`] undoes all of it.
//!
//! # What counts
//!
//! | what happens | class |
//! | --- | --- |
//! | 2xx | published, whatever the body of the answer |
//! | no connection, no valid certificate, an address that may not be connected to | `Unreachable` |
//! | 301 to 308 that is not followed, 401, 403, 404, 405, 407, 421, 426, 503 | `Unreachable`: the address or the access is wrong for every message. Where one message is refused so several times in a row (3, then 6, 12 … until something is confirmed) it is `Failed`, so that others have their turn |
//! | 429, and 503 with `Retry-After` | `Throttled`, for as long as asked: at least 1 s, at most 1 h; 1 s where a 429 does not say |
//! | 408, 425, 500 and other 5xx | `Failed` |
//! | 502, 504, 520 to 524 | `Lost`: a gateway answers, and what the receiver did is unknown |
//! | 410 and any other 4xx | `Permanent`: the receiver will not take this message |
//! | the connection ends after the request has begun, or the answer is no HTTP | `Lost` |
//! | no answer within [`WebhookOptions::answer_timeout`] | `TimedOut` |
//!
//! Of an answer's body at most 64 KiB are read, and nothing of it is ever shown: it may quote the
//! message.
//!
//! # Where a request may go
//!
//! Redirects are followed when [`WebhookOptions::redirects`] says so: 307 and 308, as the same
//! POST, at most three, never from https to http, and with the basic authorization for the
//! target's own host only. Whether an address may be private ([`Private`]) is decided on the
//! address that is connected to, after the name was resolved. No proxy is used, whatever the
//! environment says.
//!
//! What does not belong here: receiving webhooks, and a queue per receiver.

mod address;
mod answer;
mod connection;
mod doctor;
mod headers;
mod network;
mod pool;
mod publisher;
mod redirect;
mod refusals;
mod secret;

use std::path::PathBuf;
use std::time::Duration;

use sendoff_core::time::Clock;

pub use address::WebhookAddress;
pub(crate) use doctor::examine;
pub use headers::read_delivery;
pub use network::Private;
pub use publisher::WebhookPublisher;
pub use redirect::Redirects;
pub use secret::WebhookSecret;

/// How a [`WebhookPublisher`] publishes.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// What requests are signed with, at most [`WebhookSecret::MAX`]. With several, each gives a
    /// signature, so that a receiver can change from one to another. None unless set.
    pub secrets: Vec<WebhookSecret>,
    /// A PEM file with the certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether redirects are followed. Refused unless set otherwise.
    pub redirects: Redirects,
    /// Which hosts may have a private address. The target alone unless set otherwise.
    pub private: Private,
    /// The most requests at once, each on a connection of its own. 64 unless set otherwise.
    pub in_flight_max: usize,
    /// How long connecting may take, with TLS. 2 s unless set otherwise.
    pub connect_timeout: Duration,
    /// How long the answer may take once connected, with redirects. 30 s unless set otherwise; the
    /// relay's publish timeout ends a publish earlier.
    pub answer_timeout: Duration,
    /// The clock of `webhook-timestamp`.
    pub clock: Clock,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            secrets: Vec::new(),
            ca_file: None,
            redirects: Redirects::default(),
            private: Private::default(),
            in_flight_max: 64,
            connect_timeout: Duration::from_secs(2),
            answer_timeout: Duration::from_secs(30),
            clock: Clock::system(),
        }
    }
}
