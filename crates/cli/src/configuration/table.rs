//! The table of settings: every key, variable, kind and default, once.

/// What a setting's text has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text that is not empty.
    Text,
    /// Texts that nobody but this program may see, separated by commas, each of so many visible ASCII
    /// characters at least. Never shown.
    Secret(usize),
    /// A number with a unit: `200ms`, `10s`, `5m`, `1h`.
    Duration,
    /// The same, or `never`.
    DurationOrNever,
    /// A whole number, at least 1.
    Count,
    /// A whole number at least 1, or `never`.
    CountOrNever,
    /// A whole number of bytes, or with a unit: `64KiB`, `16MiB`.
    Bytes,
    /// A pattern of topics: `orders.placed`, `orders.*`, `orders.>`.
    Topics,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Secrets of webhooks, with white space or commas between. Never shown.
    WebhookSecrets,
}

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its key in the file; a point stands for a table.
    pub(crate) key: &'static str,
    /// Its variable in the environment.
    pub(crate) variable: &'static str,
    /// What its text has to be.
    pub(crate) kind: Kind,
    /// What it is where nobody sets it.
    pub(crate) default: Option<&'static str>,
}

const fn setting(
    key: &'static str,
    variable: &'static str,
    kind: Kind,
    default: Option<&'static str>,
) -> Setting {
    Setting { key, variable, kind, default }
}

/// Every setting. `docs/reference/cli.md` says what each is for.
#[rustfmt::skip]
pub(crate) const SETTINGS: &[Setting] = &[
    setting("store", "SENDOFF_STORE", Kind::Text, None),
    setting("to", "SENDOFF_TO", Kind::Text, None),
    setting("source", "SENDOFF_SOURCE", Kind::Text, Some("sendoff")),
    setting("body_bytes_max", "SENDOFF_BODY_BYTES_MAX", Kind::Bytes, Some("16MiB")),
    setting("horizon", "SENDOFF_HORIZON", Kind::Duration, Some("24h")),
    setting("postgres.listen", "SENDOFF_POSTGRES_LISTEN", Kind::Word(&["on", "off"]), Some("on")),
    setting("postgres.schema", "SENDOFF_POSTGRES_SCHEMA", Kind::Text, Some("sendoff")),
    setting("postgres.pooler", "SENDOFF_POSTGRES_POOLER", Kind::Word(&["none", "transaction"]), Some("none")),
    setting("sqlite.synchronous", "SENDOFF_SQLITE_SYNCHRONOUS", Kind::Word(&["full", "normal"]), Some("full")),
    setting("webhook.secrets", "SENDOFF_WEBHOOK_SECRETS", Kind::WebhookSecrets, None),
    setting("webhook.ca_file", "SENDOFF_WEBHOOK_CA_FILE", Kind::Text, None),
    setting("webhook.redirects", "SENDOFF_WEBHOOK_REDIRECTS", Kind::Word(&["refuse", "follow"]), Some("refuse")),
    setting("webhook.private", "SENDOFF_WEBHOOK_PRIVATE", Kind::Word(&["never", "target", "always"]), Some("target")),
    setting("webhook.in_flight", "SENDOFF_WEBHOOK_IN_FLIGHT", Kind::Count, Some("64")),
    setting("webhook.connect_timeout", "SENDOFF_WEBHOOK_CONNECT_TIMEOUT", Kind::Duration, Some("2s")),
    setting("webhook.answer_timeout", "SENDOFF_WEBHOOK_ANSWER_TIMEOUT", Kind::Duration, Some("30s")),
    setting("relay.mode", "SENDOFF_RELAY_MODE", Kind::Word(&["lanes", "row-locks"]), Some("lanes")),
    setting("relay.batch", "SENDOFF_RELAY_BATCH", Kind::Count, Some("1")),
    setting("relay.lease", "SENDOFF_RELAY_LEASE", Kind::Duration, Some("10s")),
    setting("relay.publish_timeout", "SENDOFF_RELAY_PUBLISH_TIMEOUT", Kind::Duration, Some("5s")),
    setting("relay.poll", "SENDOFF_RELAY_POLL", Kind::Duration, Some("200ms")),
    setting("relay.in_flight", "SENDOFF_RELAY_IN_FLIGHT", Kind::Count, Some("2000")),
    setting("relay.window_rows", "SENDOFF_RELAY_WINDOW_ROWS", Kind::Count, Some("12000")),
    setting("relay.window_bytes", "SENDOFF_RELAY_WINDOW_BYTES", Kind::Bytes, Some("32MiB")),
    setting("relay.settle_rows", "SENDOFF_RELAY_SETTLE_ROWS", Kind::Count, Some("1000")),
    setting("relay.backoff_first", "SENDOFF_RELAY_BACKOFF_FIRST", Kind::Duration, Some("200ms")),
    setting("relay.backoff_max", "SENDOFF_RELAY_BACKOFF_MAX", Kind::Duration, Some("60s")),
    setting("relay.attempts_max", "SENDOFF_RELAY_ATTEMPTS_MAX", Kind::CountOrNever, Some("never")),
    setting("relay.hold", "SENDOFF_RELAY_HOLD", Kind::Word(&["key", "all", "none"]), Some("key")),
    setting("relay.drain", "SENDOFF_RELAY_DRAIN", Kind::Duration, Some("0s")),
    setting("relay.cancel_after", "SENDOFF_RELAY_CANCEL_AFTER", Kind::Duration, Some("10s")),
    setting("relay.listen", "SENDOFF_RELAY_LISTEN", Kind::Text, None),
    setting("relay.alert_every", "SENDOFF_RELAY_ALERT_EVERY", Kind::Duration, Some("10s")),
    setting("relay.alert_age", "SENDOFF_RELAY_ALERT_AGE", Kind::DurationOrNever, Some("5m")),
    setting("relay.alert_backlog", "SENDOFF_RELAY_ALERT_BACKLOG", Kind::CountOrNever, Some("100000")),
    setting("relay.alert_held", "SENDOFF_RELAY_ALERT_HELD", Kind::CountOrNever, Some("10000")),
    setting("relay.alert_quarantined", "SENDOFF_RELAY_ALERT_QUARANTINED", Kind::CountOrNever, Some("1")),
    setting("serve.listen", "SENDOFF_SERVE_LISTEN", Kind::Text, Some("127.0.0.1:8080")),
    setting("serve.tokens", "SENDOFF_SERVE_TOKENS", Kind::Secret(16), None),
    setting("serve.callback_secret", "SENDOFF_SERVE_CALLBACK_SECRET", Kind::Secret(32), None),
    setting("serve.public_url", "SENDOFF_SERVE_PUBLIC_URL", Kind::Text, None),
    setting("serve.connections", "SENDOFF_SERVE_CONNECTIONS", Kind::Count, Some("256")),
    setting("serve.request_timeout", "SENDOFF_SERVE_REQUEST_TIMEOUT", Kind::Duration, Some("30s")),
    setting("log.format", "SENDOFF_LOG_FORMAT", Kind::Word(&["text", "json"]), Some("text")),
    setting("log.level", "SENDOFF_LOG_LEVEL", Kind::Word(&["off", "error", "warn", "info", "debug", "trace"]), Some("info")),
];

/// A list of tables in the file, `[[key]]`. It has no variable, no flag and no default.
#[derive(Debug)]
pub(crate) struct List {
    /// Its key in the file.
    pub(crate) key: &'static str,
    /// What each table may say: the whole key, and what the text has to be. The first has to be there.
    pub(crate) entries: &'static [(&'static str, Kind)],
}

/// Every list.
pub(crate) const LISTS: &[List] = &[List {
    key: "relay.override",
    entries: &[
        ("relay.override.topics", Kind::Topics),
        ("relay.override.hold", Kind::Word(&["key", "none"])),
        ("relay.override.backoff_first", Kind::Duration),
        ("relay.override.backoff_max", Kind::Duration),
        ("relay.override.attempts_max", Kind::CountOrNever),
        ("relay.override.publish_timeout", Kind::Duration),
    ],
}];

impl List {
    /// The name of an entry inside its table.
    pub(crate) fn name_of(&self, entry: &'static str) -> &'static str {
        entry.strip_prefix(self.key).map_or(entry, |name| name.trim_start_matches('.'))
    }
}

/// The setting with this key.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_its_key_in_capitals() {
        for setting in SETTINGS {
            let expected = format!("SENDOFF_{}", setting.key.to_uppercase().replace('.', "_"));
            assert_eq!(setting.variable, expected);
        }
    }

    #[test]
    fn every_list_is_in_the_reference() {
        let reference = include_str!("../../../../docs/reference/configuration.md");
        for list in LISTS {
            assert!(reference.contains(&format!("[[{}]]", list.key)), "{}", list.key);
            for (entry, _) in list.entries {
                let name = list.name_of(entry);
                assert!(entry.ends_with(&format!("{}.{name}", list.key)), "{entry}");
                assert!(reference.contains(&format!("`{name}`")), "{entry}");
            }
        }
    }

    #[test]
    fn every_setting_is_in_the_reference() {
        let reference = include_str!("../../../../docs/reference/cli.md");
        for setting in SETTINGS {
            assert!(reference.contains(setting.variable), "{}", setting.variable);
            if let Some(default) = setting.default {
                assert!(reference.contains(&format!("`{default}`")), "{}", setting.key);
            }
        }
    }
}
