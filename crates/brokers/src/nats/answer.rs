//! What answers a publish, and what it means: the one table of NATS' errors.

use std::time::Duration;

use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;
use serde::Deserialize;

/// What came back for one publish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The named stream has the message, now or since an earlier publish of the same id.
    Stored,
    /// Nobody listens on the subject: no stream takes it.
    NoResponders,
    /// Anything else.
    Refused(PublishError),
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    error: Option<ApiError<'a>>,
    #[serde(borrow)]
    stream: Option<std::borrow::Cow<'a, str>>,
    seq: Option<u64>,
}

#[derive(Deserialize)]
struct ApiError<'a> {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    err_code: u16,
    #[serde(borrow, default)]
    description: std::borrow::Cow<'a, str>,
}

/// Reads an answer. Only an acknowledgement with `stream` and a sequence number is success.
pub(crate) fn read(status: Option<u16>, payload: &[u8], stream: &str, subject: &str) -> Answer {
    match status {
        None => {}
        Some(503) => return Answer::NoResponders,
        Some(status) => {
            return Answer::Refused(PublishError::failed(format!(
                "publishing to {subject} was answered with status {status}"
            )));
        }
    }
    let Ok(reply) = serde_json::from_slice::<Reply<'_>>(payload) else {
        return Answer::Refused(not_a_stream(subject));
    };
    if let Some(error) = reply.error {
        return Answer::Refused(PublishError::new(
            class_of(error.code, error.err_code, &error.description),
            format!(
                "stream {stream} refused the message: {} (error {})",
                error.description, error.err_code
            ),
        ));
    }
    match (reply.stream, reply.seq) {
        (Some(by), Some(1..)) if by == stream => Answer::Stored,
        (Some(by), Some(1..)) => Answer::Refused(PublishError::failed(format!(
            "stream {by} has taken {subject}, but it belongs to {stream}: give the subject to one \
             of them only, or use another prefix"
        ))),
        _ => Answer::Refused(not_a_stream(subject)),
    }
}

fn not_a_stream(subject: &str) -> PublishError {
    PublishError::failed(format!(
        "something other than a stream answered on {subject}: its reply is no acknowledgement"
    ))
}

/// What a stream's error means, by JetStream's error code, else by its HTTP-like code.
fn class_of(code: u16, err_code: u16, description: &str) -> PublishClass {
    /// How long a full stream is given before the next try.
    const FULL_WAIT: Duration = Duration::from_secs(1);
    const BUSY_WAIT: Duration = Duration::from_millis(250);
    match err_code {
        // The message is larger than the stream takes; its headers are.
        10054 | 10097 => PublishClass::Permanent,
        // The stream is full and discards what is new. Only one of the reasons is the message's.
        10077 if description.contains("per subject") => PublishClass::Failed,
        10077 if description.contains("maximum") => PublishClass::Throttled { wait: FULL_WAIT },
        // Its disk is full or broken; no resources left for the account or the server.
        10077 | 10002 | 10023 | 10028 | 10047 => PublishClass::Unreachable,
        // No stream, sealed, offline; JetStream off; the cluster has no leader or no quorum.
        10059 | 10109 | 10118 | 10194 | 10039 | 10076 | 10004..=10010 => PublishClass::Unreachable,
        // Too many requests.
        10167 => PublishClass::Throttled { wait: BUSY_WAIT },
        _ => match code {
            429 => PublishClass::Throttled { wait: BUSY_WAIT },
            503 => PublishClass::Unreachable,
            _ => PublishClass::Failed,
        },
    }
}

#[derive(Deserialize)]
struct StreamInfo<'a> {
    #[serde(borrow)]
    error: Option<ApiError<'a>>,
    config: Option<StreamConfig>,
}

#[derive(Deserialize)]
struct StreamConfig {
    #[serde(default)]
    subjects: Vec<String>,
}

/// Reads what the server says of a stream: its subjects, or `None` where it is not there.
///
/// # Errors
/// The server's words where it says anything else.
pub(crate) fn read_stream_info(payload: &[u8]) -> Result<Option<Vec<String>>, String> {
    let info: StreamInfo<'_> = serde_json::from_slice(payload)
        .map_err(|_| "JetStream's answer could not be read".to_owned())?;
    match (info.error, info.config) {
        (Some(error), _) if error.err_code == 10059 || error.code == 404 => Ok(None),
        (Some(error), _) => Err(error.description.into_owned()),
        (None, Some(config)) => Ok(Some(config.subjects)),
        (None, None) => Err("JetStream's answer could not be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sendoff_core::publisher::PublishClass;

    use super::{Answer, read, read_stream_info};

    fn class(payload: &str) -> PublishClass {
        match read(None, payload.as_bytes(), "ORDERS", "ORDERS.a") {
            Answer::Refused(error) => error.class(),
            other => panic!("{payload}: {other:?}"),
        }
    }

    #[test]
    fn only_the_named_streams_acknowledgement_counts() {
        for ack in [
            r#"{"stream":"ORDERS", "seq":1}"#,
            r#"{"stream":"ORDERS", "seq":7,"duplicate": true}"#,
            r#"{"stream":"ORDERS","seq":7,"domain":"hub"}"#,
        ] {
            assert_eq!(read(None, ack.as_bytes(), "ORDERS", "ORDERS.a"), Answer::Stored);
        }
        for no_ack in [
            "",
            "+OK",
            "ok",
            "{}",
            "null",
            "1",
            "[]",
            r#"{"stream":"ORDERS"}"#,
            r#"{"stream":"ORDERS","seq":0}"#,
            r#"{"stream":"ORDERS","seq":"1"}"#,
            r#"{"seq":1}"#,
            r#"{"stream":"OTHER","seq":1}"#,
            r#"{"stream":"orders","seq":1}"#,
            r#"{"error":{"code":500},"stream":"ORDERS","seq":1}"#,
        ] {
            assert_eq!(class(no_ack), PublishClass::Failed, "{no_ack}");
        }
        assert_eq!(read(Some(503), b"", "ORDERS", "a"), Answer::NoResponders);
        assert!(matches!(read(Some(408), b"", "ORDERS", "a"), Answer::Refused(_)));
    }

    /// HTTP-like code, JetStream's code, JetStream's words, and what they mean here.
    const TABLE: [(u16, u16, &str, PublishClass); 16] = {
        use PublishClass::{Failed, Permanent, Throttled, Unreachable};
        const FULL: PublishClass = Throttled { wait: Duration::from_secs(1) };
        const BUSY: PublishClass = Throttled { wait: Duration::from_millis(250) };
        [
            (400, 10054, "message size exceeds maximum allowed", Permanent),
            (400, 10097, "header size exceeds maximum allowed of 64k", Permanent),
            (404, 10059, "stream not found", Unreachable),
            (503, 10077, "no space left on device", Unreachable),
            (503, 10077, "maximum messages exceeded", FULL),
            (503, 10077, "maximum bytes exceeded", FULL),
            (503, 10077, "maximum messages per subject exceeded", Failed),
            (503, 10023, "insufficient resources", Unreachable),
            (503, 10008, "JetStream system temporarily unavailable", Unreachable),
            (503, 10076, "JetStream not enabled", Unreachable),
            (400, 10109, "invalid operation on sealed stream", Unreachable),
            (400, 10071, "wrong last sequence: 4", Failed),
            (429, 10167, "too many requests", BUSY),
            (429, 0, "", BUSY),
            (503, 0, "", Unreachable),
            (418, 0, "", Failed),
        ]
    };

    #[test]
    fn the_servers_errors_have_the_class_of_the_table() {
        for (code, err_code, description, expected) in TABLE {
            let payload = format!(
                r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"{description}"}},"stream":"ORDERS","seq":0}}"#
            );
            assert_eq!(class(&payload), expected, "{err_code} {description}");
        }
    }

    #[test]
    fn a_streams_subjects_are_told_from_its_absence() {
        assert_eq!(
            read_stream_info(br#"{"config":{"name":"S","subjects":["a.>"]},"state":{}}"#),
            Ok(Some(vec!["a.>".to_owned()]))
        );
        assert_eq!(
            read_stream_info(
                br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#
            ),
            Ok(None)
        );
        for no_answer in [
            &br#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#[..],
            b"{}",
            b"",
        ] {
            assert!(read_stream_info(no_answer).is_err());
        }
    }
}
