//! The texts of values: durations, sizes, numbers and words.

use std::time::Duration;

use sendoff::message::TopicPattern;
use sendoff::webhook::WebhookSecret;

use super::table::Kind;

type Parsed<T> = std::result::Result<T, String>;

/// Says what is wrong with a text of this kind.
pub(super) fn check(kind: Kind, text: &str) -> Parsed<()> {
    match kind {
        Kind::Text if text.trim().is_empty() => Err("it is empty".to_owned()),
        Kind::Text => Ok(()),
        Kind::Secret(length_min) => secrets(text, length_min).map(drop),
        Kind::DurationOrNever if text == "never" => Ok(()),
        Kind::Duration | Kind::DurationOrNever => parse_duration(text).map(drop),
        Kind::Bytes => parse_bytes(text).map(drop),
        Kind::CountOrNever if text == "never" => Ok(()),
        Kind::Count | Kind::CountOrNever => match text.parse::<u32>() {
            Ok(count) if count > 0 => Ok(()),
            _ => Err(format!("`{text}` is not a whole number from 1 to {}", u32::MAX)),
        },
        Kind::WebhookSecrets => {
            WebhookSecret::parse_list(text).map(drop).map_err(|error| error.to_string())
        }
        Kind::Topics => text.parse::<TopicPattern>().map(drop).map_err(|error| error.to_string()),
        Kind::Word(words) if words.contains(&text) => Ok(()),
        Kind::Word(words) => Err(format!("`{text}` is none of {}", words.join(", "))),
    }
}

/// Reads secrets, separated by commas. What is wrong with one is told without quoting it.
pub(super) fn secrets(text: &str, length_min: usize) -> Parsed<Vec<String>> {
    let secrets: Vec<String> = text.split(',').map(|secret| secret.trim().to_owned()).collect();
    for (index, secret) in secrets.iter().enumerate() {
        if secret.len() < length_min {
            return Err(format!(
                "secret {} of {} has fewer than {length_min} characters; make one with \
                 `openssl rand -hex 32`",
                index + 1,
                secrets.len()
            ));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "secret {} of {} has a character that is not visible ASCII",
                index + 1,
                secrets.len()
            ));
        }
    }
    Ok(secrets)
}

/// Reads a duration: a whole number and one of `ms`, `s`, `m`, `h`, `d`.
pub(crate) fn parse_duration(text: &str) -> Parsed<Duration> {
    let refuse =
        || format!("`{text}` is not a duration; write a number and a unit: 200ms, 10s, 5m, 1h");
    let (number, unit) = split(text).ok_or_else(refuse)?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(refuse()),
    };
    let whole_ms = number.checked_mul(unit_ms).ok_or_else(refuse)?;
    Ok(Duration::from_millis(whole_ms))
}

/// Reads a size in bytes: a whole number, alone or with `KiB`, `MiB` or `GiB`; at least 1.
pub(super) fn parse_bytes(text: &str) -> Parsed<usize> {
    let refuse = || format!("`{text}` is not a size; write bytes or a unit: 1048576, 64KiB, 16MiB");
    let (number, unit) = split(text).ok_or_else(refuse)?;
    let unit_bytes: u64 = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(refuse()),
    };
    let size = number.checked_mul(unit_bytes).filter(|size| *size > 0);
    size.and_then(|size| usize::try_from(size).ok()).ok_or_else(refuse)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..digits].parse().ok()?;
    Some((number, &text[digits..]))
}

/// A duration as people read it, in at most two units.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_do_not_overflow() {
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        for bad in
            ["", "10", "s", "-1s", "1.5s", "10 s", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_long_and_never_quoted() {
        assert_eq!(secrets("aaaa, bbbb", 4), Ok(vec!["aaaa".to_owned(), "bbbb".to_owned()]));
        for bad in ["short", "long-enough,short", "", "long-enough,", "with space"] {
            let why = secrets(bad, 8).unwrap_err();
            assert!(!why.contains("short") && !why.contains("space"), "{why}");
        }
    }

    #[test]
    fn sizes_take_binary_units_and_are_not_zero() {
        assert_eq!(parse_bytes("16MiB"), Ok(16 << 20));
        assert_eq!(parse_bytes("7"), Ok(7));
        for bad in ["", "0", "16MB", "x", "18446744073709551615GiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
