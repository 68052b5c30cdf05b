//! What is said of a message that was not taken, where that is known before the stream answers.

use sendoff_core::PublishError;

use crate::nats::address::NatsAddress;

/// What the client library does not even send.
pub(super) fn refusal(error: &async_nats::PublishError) -> PublishError {
    match error.kind() {
        async_nats::PublishErrorKind::MaxPayloadExceeded
        | async_nats::PublishErrorKind::InvalidSubject => {
            PublishError::permanent(error.to_string())
        }
        async_nats::PublishErrorKind::Send => not_sent("the connection ended"),
    }
}

pub(super) fn oversize(bytes: usize, max: usize) -> PublishError {
    PublishError::permanent(format!(
        "the message has {bytes} bytes with its headers, and the server takes {max} (max_payload)"
    ))
}

pub(super) fn not_sent(ending: &str) -> PublishError {
    PublishError::unreachable(format!("{ending}; the message was not sent"))
}

pub(super) fn unreachable_at(address: &NatsAddress, reason: &str) -> PublishError {
    PublishError::unreachable(format!("cannot connect to {address}: {reason}"))
}
