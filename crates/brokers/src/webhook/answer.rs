//! What an answer means: the one table of statuses, and `Retry-After`.

use std::time::{Duration, UNIX_EPOCH};

use hyper::StatusCode;
use sendoff_core::PublishError;
use sendoff_core::publisher::PublishClass;
use sendoff_core::time::Timestamp;

/// The shortest and the longest wait that a receiver can ask for.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// What a status means for the message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The receiver has it.
    Done,
    /// It is elsewhere; whether to follow is not the table's to say.
    Moved,
    /// This message's own trouble, or a wait that was asked for.
    Refused(PublishError),
    /// The address or the access is wrong for every message, as far as one answer can tell.
    Everything(String),
}

/// Reads a status and, where the answer had one, `Retry-After`. Nothing else of an answer is
/// shown: it may quote the message.
pub(super) fn read(
    status: StatusCode,
    retry_after: Option<&str>,
    shown: &str,
    now: Timestamp,
) -> Verdict {
    let asked = retry_after.and_then(|text| parse_retry_after(text, now));
    let throttled = |wait: Duration| {
        let class = PublishClass::Throttled { wait };
        let said = format!("{shown} answered {} and asks to wait {wait:?}", named(status));
        Verdict::Refused(PublishError::new(class, said))
    };
    let everything =
        |next: &str| Verdict::Everything(format!("{shown} answered {}: {next}", named(status)));
    let failed = || {
        let said = format!("{shown} answered {}: see its log", named(status));
        Verdict::Refused(PublishError::failed(said))
    };
    match status.as_u16() {
        200..=299 => Verdict::Done,
        301..=303 | 307 | 308 => Verdict::Moved,
        300..=399 => everything("it is no answer to a POST; correct the address"),
        401 | 407 => everything("correct the secret, or the user and password in the address"),
        403 => everything("give this sender access, or correct the address"),
        404 | 405 | 421 => everything("correct the address"),
        426 => everything("it wants another protocol than HTTP/1.1; correct the address"),
        408 | 425 => failed(),
        429 => throttled(asked.unwrap_or(WAIT_MIN)),
        410 => Verdict::Refused(PublishError::permanent(format!(
            "{shown} answered {}: the receiver is gone and wants nothing any more; remove the \
             target, or correct its address and requeue",
            named(status)
        ))),
        400..=499 => Verdict::Refused(PublishError::permanent(format!(
            "{shown} answered {}: it will not take this message; mend it or the receiver, then \
             requeue or discard",
            named(status)
        ))),
        502 | 504 | 520..=524 => Verdict::Refused(PublishError::new(
            PublishClass::Lost,
            format!(
                "a gateway in front of {shown} answered {}; it is unknown whether the message \
                 arrived",
                named(status)
            ),
        )),
        503 => match asked {
            Some(wait) => throttled(wait),
            None => everything("it takes nothing now"),
        },
        _ => failed(),
    }
}

/// The status in digits, with the standard's own words, never the receiver's.
pub(super) fn named(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Seconds, or an HTTP date in any of its three forms; from 1 s to 1 h. `None` for anything else.
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let asked = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number can have are a long wait all the same.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        date.duration_since(UNIX_EPOCH).ok()?.saturating_sub(now)
    };
    Some(asked.clamp(WAIT_MIN, WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::StatusCode;
    use proptest::prelude::*;
    use sendoff_core::publisher::PublishClass;
    use sendoff_core::time::{Clock, Timestamp};

    use super::{Verdict, parse_retry_after, read};

    fn now() -> Timestamp {
        // 2030-01-01T00:00:00Z.
        Clock::manual().now()
    }

    #[test]
    fn retry_after_is_read_in_every_form_and_kept_within_bounds() {
        for (text, seconds) in [
            ("2", Some(2)),
            (" 2 ", Some(2)),
            ("0", Some(1)),
            ("86400", Some(3_600)),
            ("99999999999999999999999", Some(3_600)),
            ("Tue, 01 Jan 2030 00:01:00 GMT", Some(60)),
            ("Tuesday, 01-Jan-30 00:01:00 GMT", Some(60)),
            ("Tue Jan  1 00:01:00 2030", Some(60)),
            ("Mon, 31 Dec 2029 23:00:00 GMT", Some(1)),
            ("Sat, 01 Jan 2050 00:00:00 GMT", Some(3_600)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("+2", None),
            ("2s", None),
        ] {
            let wait = parse_retry_after(text, now());
            assert_eq!(wait, seconds.map(Duration::from_secs), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn any_retry_after_is_a_bounded_wait_or_none(
            text in "\\PC{0,40}|[0-9]{1,30}|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT",
        ) {
            if let Some(wait) = parse_retry_after(&text, now()) {
                prop_assert!((1..=3_600).contains(&wait.as_secs()), "{:?}", wait);
            }
        }
    }

    #[test]
    fn every_status_has_its_class() {
        let class = |status: u16, retry_after: Option<&str>| match read(
            StatusCode::from_u16(status).unwrap(),
            retry_after,
            "https://h/",
            now(),
        ) {
            Verdict::Done => "done".to_owned(),
            Verdict::Moved => "moved".to_owned(),
            Verdict::Everything(detail) => {
                assert!(detail.contains(&status.to_string()), "{detail}");
                "everything".to_owned()
            }
            Verdict::Refused(error) => {
                assert!(error.detail().contains(&status.to_string()), "{error}");
                match error.class() {
                    PublishClass::Throttled { wait } => format!("wait {}", wait.as_secs()),
                    class => format!("{class:?}").to_lowercase(),
                }
            }
        };
        for status in 100..=999_u16 {
            let expected = match status {
                200..=299 => "done",
                301..=303 | 307 | 308 => "moved",
                300..=399 | 401 | 403 | 404 | 405 | 407 | 421 | 426 | 503 => "everything",
                429 => "wait 1",
                408 | 425 => "failed",
                400..=499 => "permanent",
                502 | 504 | 520..=524 => "lost",
                _ => "failed",
            };
            assert_eq!(class(status, None), expected, "{status}");
        }
        assert_eq!(class(429, Some("7")), "wait 7");
        assert_eq!(class(503, Some("7")), "wait 7");
        assert_eq!(class(503, Some("soon")), "everything");
        assert_eq!(class(500, Some("7")), "failed");
    }
}
