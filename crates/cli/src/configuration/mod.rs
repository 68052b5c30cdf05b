//! The configuration: flags, environment, `sendoff.toml` and defaults, in this order of precedence.
//!
//! One table ([`table::SETTINGS`]) names every setting; a value keeps where it came from, so that
//! an error and `config show` can say it. What does not belong here: what a setting is used for.

mod environment;
mod file;
mod list;
mod routes;
mod row_locks;
mod table;
mod value;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sendoff::postgres::{Pooler, PostgresOptions, SchemaName};
use sendoff::relay::{AlertSettings, Backoff, Hold, RelaySettings};
use sendoff::sqlite::{SqliteOptions, Synchronous};
use sendoff::webhook::{Private, Redirects, WebhookOptions, WebhookSecret};
use sendoff::{Error, Limits, Result, TargetOptions};

pub(crate) use list::Item;
pub(crate) use routes::{RouteTable, TargetEntry};
pub(crate) use table::{Kind, LISTS, SETTINGS};
pub(crate) use value::{duration_text, parse_duration};

/// The file that is read from the current folder where `--config` names no other.
pub(crate) const FILE_DEFAULT: &str = "sendoff.toml";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag on the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// A line (from 1) of the configuration file.
    File(PathBuf, usize),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(name) => f.write_str(name),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One value that was set: its setting's key, its text and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) key: &'static str,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// What a verb's flags say about settings. A flag that was not given is `None`.
pub(crate) type Flags<'a> = Vec<(&'static str, &'static str, Option<&'a str>)>;

/// The configuration of one run.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// What was set, later ones winning.
    values: Vec<Value>,
    /// Tables of lists, in the file's order.
    items: Vec<Item>,
    /// The file that was named or found.
    file: Option<PathBuf>,
    /// Whether `--config` (or `SENDOFF_CONFIG`) named it.
    file_named: bool,
    /// The file's targets and routes.
    routes: RouteTable,
    /// Variables that look like ours and are not.
    pub(crate) strays: Vec<String>,
}

impl Configuration {
    /// Reads every source. `named` is the file that `--config` names.
    ///
    /// # Errors
    /// A file that was named and cannot be read, that is no TOML, or that has a key that is not a
    /// setting; a value that is not of its setting's kind, wherever it came from.
    pub(crate) fn read(named: Option<&Path>, flags: &Flags<'_>) -> Result<Self> {
        let named = named
            .map(Path::to_path_buf)
            .or_else(|| std::env::var_os("SENDOFF_CONFIG").map(PathBuf::from));
        let file_named = named.is_some();
        let path = named.unwrap_or_else(|| PathBuf::from(FILE_DEFAULT));
        let (contents, file) = match file::read(&path, file_named)? {
            Some(contents) => (contents, Some(path)),
            None => (file::Contents::default(), None),
        };
        let file::Contents { mut values, items, routes } = contents;
        let environment = environment::read()?;
        values.extend(environment.values);
        for (key, flag, text) in flags {
            if let Some(text) = text {
                values.push(Value { key, text: (*text).to_owned(), origin: Origin::Flag(flag) });
            }
        }
        let strays = environment.strays;
        let configuration = Self { values, items, file, file_named, routes, strays };
        configuration.check()?;
        Ok(configuration)
    }

    /// Every value that was set has to be of its setting's kind, also where another one wins over
    /// it: a mistake is told while somebody looks at it.
    fn check(&self) -> Result<()> {
        for value in &self.values {
            if let Some(setting) = table::find(value.key) {
                value::check(setting.kind, &value.text).map_err(|why| wrong(value, &why))?;
            }
        }
        let entries = LISTS.iter().flat_map(|list| list.entries);
        for value in self.items.iter().flat_map(|item| &item.values) {
            if let Some((_, kind)) = entries.clone().find(|(key, _)| *key == value.key) {
                value::check(*kind, &value.text).map_err(|why| wrong(value, &why))?;
            }
        }
        Ok(())
    }

    /// The winning value of a setting, where somebody set it.
    pub(crate) fn set(&self, key: &str) -> Option<&Value> {
        self.values.iter().rev().find(|value| value.key == key)
    }

    /// The text of a setting: the winning value's, else the default.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.set(key)
            .map(|value| value.text.as_str())
            .or_else(|| table::find(key).and_then(|setting| setting.default))
    }

    /// Where a setting's value came from.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        self.set(key).map_or(Origin::Default, |value| value.origin.clone())
    }

    /// The file that was read, and whether it was named rather than found.
    pub(crate) fn file(&self) -> Option<(&Path, bool)> {
        self.file.as_deref().map(|path| (path, self.file_named))
    }

    /// The file's targets and routes; none where it has none.
    pub(crate) fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// The configuration as one target of the file sees it: its own settings win over all others.
    pub(crate) fn of_target(&self, target: &TargetEntry) -> Self {
        Self {
            values: self.values.iter().chain(&target.values).cloned().collect(),
            items: self.items.clone(),
            file: self.file.clone(),
            file_named: self.file_named,
            routes: RouteTable::default(),
            strays: Vec::new(),
        }
    }

    /// A value that may be `never`, which is none.
    fn unless_never<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Self, &'static str) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.text(key) {
            Some("never") | None => Ok(None),
            Some(_) => read(self, key).map(Some),
        }
    }

    fn duration(&self, key: &'static str) -> Result<Duration> {
        self.parsed(key, parse_duration)
    }

    fn count<T: FromStr>(&self, key: &'static str) -> Result<T> {
        self.parsed(key, |text| {
            text.parse::<T>().map_err(|_| format!("`{text}` is not a whole number in range"))
        })
    }

    fn bytes(&self, key: &'static str) -> Result<usize> {
        self.parsed(key, value::parse_bytes)
    }

    fn parsed<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> std::result::Result<T, String>,
    ) -> Result<T> {
        let text = self.text(key).unwrap_or_default();
        parse(text).map_err(|why| {
            wrong(&Value { key, text: text.to_owned(), origin: self.origin(key) }, &why)
        })
    }

    /// The limits of what may be sent.
    ///
    /// # Errors
    /// A value that is out of range.
    pub(crate) fn limits(&self) -> Result<Limits> {
        Ok(Limits { body_bytes_max: self.bytes("body_bytes_max")?, ..Limits::default() })
    }

    /// How a PostgreSQL store is used.
    ///
    /// # Errors
    /// A value that is out of range.
    pub(crate) fn postgres(&self) -> Result<PostgresOptions> {
        Ok(PostgresOptions {
            horizon: self.duration("horizon")?,
            listen: self.text("postgres.listen") != Some("off"),
            pooler: match self.text("postgres.pooler") {
                Some("transaction") => Pooler::Transaction,
                _ => Pooler::None,
            },
            schema: self.parsed("postgres.schema", |name| {
                SchemaName::new(name).map_err(|error| error.to_string())
            })?,
            ..PostgresOptions::default()
        })
    }

    /// How a SQLite store is opened.
    ///
    /// # Errors
    /// A value that is out of range.
    pub(crate) fn sqlite(&self, create: bool) -> Result<SqliteOptions> {
        Ok(SqliteOptions {
            create,
            synchronous: match self.text("sqlite.synchronous") {
                Some("normal") => Synchronous::Normal,
                _ => Synchronous::Full,
            },
            horizon: self.duration("horizon")?,
            ..SqliteOptions::default()
        })
    }

    /// A setting's secrets, where somebody set them.
    ///
    /// # Errors
    /// One is too short. It is not quoted.
    pub(crate) fn secrets(&self, key: &'static str) -> Result<Vec<String>> {
        let Some(Kind::Secret(length_min)) = table::find(key).map(|setting| setting.kind) else {
            return Ok(Vec::new());
        };
        match self.text(key) {
            Some(_) => self.parsed(key, |text| value::secrets(text, length_min)),
            None => Ok(Vec::new()),
        }
    }

    /// The most connections that HTTP has at once, and how long one request may take.
    ///
    /// # Errors
    /// A value that is out of range.
    pub(crate) fn serve_bounds(&self) -> Result<(usize, Duration)> {
        Ok((self.count("serve.connections")?, self.duration("serve.request_timeout")?))
    }

    /// How targets are published to.
    ///
    /// # Errors
    /// A value that is out of range.
    pub(crate) fn target(&self) -> Result<TargetOptions> {
        let webhook = WebhookOptions {
            secrets: WebhookSecret::parse_list(self.text("webhook.secrets").unwrap_or_default())?,
            ca_file: self.text("webhook.ca_file").map(PathBuf::from),
            redirects: match self.text("webhook.redirects") {
                Some("follow") => Redirects::Follow,
                _ => Redirects::Refuse,
            },
            private: match self.text("webhook.private") {
                Some("never") => Private::Never,
                Some("always") => Private::Always,
                _ => Private::Target,
            },
            in_flight_max: self.count("webhook.in_flight")?,
            connect_timeout: self.duration("webhook.connect_timeout")?,
            answer_timeout: self.duration("webhook.answer_timeout")?,
            ..WebhookOptions::default()
        };
        Ok(TargetOptions { webhook, ..TargetOptions::default() })
    }

    /// The relay's settings, checked against each other.
    ///
    /// # Errors
    /// A value that is out of range, by itself or beside another.
    pub(crate) fn relay(&self) -> Result<RelaySettings> {
        let hold =
            self.parsed("relay.hold", |text| text.parse::<Hold>().map_err(|e| e.to_string()))?;
        let mut settings = RelaySettings {
            lease: self.duration("relay.lease")?,
            publish_timeout: self.duration("relay.publish_timeout")?,
            poll: self.duration("relay.poll")?,
            in_flight_max: self.count("relay.in_flight")?,
            window_rows: self.count("relay.window_rows")?,
            window_bytes: self.bytes("relay.window_bytes")?,
            settle_rows_max: self.count("relay.settle_rows")?,
            backoff: Backoff {
                first: self.duration("relay.backoff_first")?,
                max: self.duration("relay.backoff_max")?,
            },
            attempts_max: self.unless_never("relay.attempts_max", Self::count)?,
            hold,
            drain: self.duration("relay.drain")?,
            cancel_after: self.duration("relay.cancel_after")?,
            alerts: AlertSettings {
                every: self.duration("relay.alert_every")?,
                age: self.unless_never("relay.alert_age", Self::duration)?,
                backlog: self.unless_never("relay.alert_backlog", Self::count)?,
                held: self.unless_never("relay.alert_held", Self::count)?,
                quarantined: self.unless_never("relay.alert_quarantined", Self::count)?,
            },
            ..RelaySettings::default()
        };
        settings.check()?;
        settings.overrides = self.overrides(&settings)?;
        Ok(settings)
    }
}

/// The error for a value that is not of its setting's kind. A secret is not quoted.
fn wrong(value: &Value, why: &str) -> Error {
    Error::invalid("reading the configuration", format!("{} ({}): {why}", value.key, value.origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn empty() -> Configuration {
        Configuration {
            values: Vec::new(),
            items: Vec::new(),
            file: None,
            file_named: false,
            routes: RouteTable::default(),
            strays: Vec::new(),
        }
    }

    #[test]
    fn the_tables_defaults_are_the_libraries_defaults() {
        // Whoever embeds the relay has a monitoring of his own; the program's log is all there is.
        let RelaySettings { alerts, .. } = empty().relay().unwrap();
        assert!(alerts.age.is_some() && alerts.quarantined == Some(1));
        let relay = RelaySettings { alerts: AlertSettings::default(), ..empty().relay().unwrap() };
        assert_eq!(relay, RelaySettings::default());
        assert_eq!(empty().limits().unwrap(), Limits::default());
        assert_eq!(empty().postgres().unwrap(), PostgresOptions::default());
        assert_eq!(empty().sqlite(false).unwrap(), SqliteOptions::default());
        let target = format!("{:?}", empty().target().unwrap());
        assert_eq!(target, format!("{:?}", TargetOptions::default()));
    }

    #[test]
    fn the_last_source_wins_and_keeps_its_origin() {
        let mut configuration = empty();
        for (text, origin) in [
            ("1s", Origin::File("sendoff.toml".into(), 3)),
            ("2s", Origin::Environment("SENDOFF_RELAY_POLL")),
        ] {
            configuration.values.push(Value { key: "relay.poll", text: text.into(), origin });
        }
        assert_eq!(configuration.relay().unwrap().poll, Duration::from_secs(2));
        assert_eq!(configuration.origin("relay.poll"), Origin::Environment("SENDOFF_RELAY_POLL"));
    }

    #[test]
    fn two_settings_that_do_not_go_together_are_refused() {
        let mut configuration = empty();
        configuration.values.push(Value {
            key: "relay.publish_timeout",
            text: "10s".into(),
            origin: Origin::Flag("--publish-timeout"),
        });
        let error = configuration.relay().unwrap_err();
        assert!(error.to_string().contains("shorter than the lease"), "{error}");
    }
}
