//! Due times: RFC 3339, or from now.

use sendoff::time::{Clock, Timestamp};
use sendoff::{Error, Result};

use crate::configuration::parse_duration;
use crate::output::shown;

/// Reads `2030-01-31T09:00:00Z` or `+5m`. What is from now is by this machine's clock.
///
/// # Errors
/// Neither of the two, or out of range.
pub(super) fn parse(text: &str) -> Result<Timestamp> {
    let refuse = |why: String| {
        Error::invalid("reading --at", why)
            .advice("write a time as 2030-01-31T09:00:00Z, or from now as +5m")
    };
    if let Some(after) = text.strip_prefix('+') {
        let after = parse_duration(after).map_err(refuse)?;
        return Clock::system()
            .now()
            .checked_add(after)
            .map_err(|_| refuse(format!("`{}` is out of range", shown(text))));
    }
    text.parse().map_err(|_| refuse(format!("`{}` is not a time", shown(text))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_absolute_with_an_offset_or_from_now() {
        let parsed = parse("2030-01-31T10:00:00+01:00").unwrap();
        assert_eq!(parsed.to_string(), "2030-01-31T09:00:00Z");
        let from_now = parse("+5m").unwrap().duration_since(Clock::system().now());
        let from_now = Duration::try_from(from_now).unwrap();
        assert!((290..=300).contains(&from_now.as_secs()), "{from_now:?}");
    }

    #[test]
    fn a_time_without_an_offset_and_other_texts_are_refused() {
        for text in ["", "+", "+5", "5m", "-5m", "tomorrow", "2030-01-31T09:00:00", "+999999999d"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("+5m"), "{text}: {error}");
        }
    }
}
