//! Stores from URLs: `sqlite:shop.db`, `postgres://user@host/database`.
//!
//! What does not belong here: what is done with a store.

use std::path::PathBuf;
use std::sync::Arc;

use sendoff::barrier::BarrierDesk;
use sendoff::file::FolderKeys;
use sendoff::postgres::PostgresStore;
use sendoff::sqlite::SqliteStore;
use sendoff::store::{
    ClaimStore, Doctor, KeptDesk, OutboxDesk, OutboxStore, PauseDesk, SchemaState, TailDesk,
};
use sendoff::{Error, ErrorKind};

use crate::configuration::{Configuration, FILE_DEFAULT, Origin};
use crate::exit::{Exit, Failure};
use crate::secret::masked;

const DOING: &str = "reading the store's URL";
const EXAMPLES: &str =
    "write sqlite:shop.db, sqlite:/data/shop.db or postgres://user:password@host:5432/database";

/// A store, and what to tell where its schema is not as needed.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) outbox: Arc<dyn OutboxStore>,
    pub(crate) claims: Arc<dyn ClaimStore>,
    pub(crate) desk: Arc<dyn OutboxDesk>,
    pub(crate) barriers: Arc<dyn BarrierDesk>,
    pub(crate) kept: Arc<dyn KeptDesk>,
    pub(crate) tail: Arc<dyn TailDesk>,
    pub(crate) doctor: Arc<dyn Doctor>,
    pub(crate) pauses: Arc<dyn PauseDesk>,
    /// The URL, without a password.
    pub(crate) shown: String,
    /// The command that migrates it.
    remedy: String,
}

impl Store {
    /// Opens the store that the configuration names. A SQLite file that is not there is made only
    /// with `create`.
    ///
    /// # Errors
    /// No store is named, its URL is malformed, or its file is not there.
    pub(crate) fn open(configuration: &Configuration, create: bool) -> Result<Self, Failure> {
        let url = named(configuration)?;
        let remedy = remedy(configuration, url);
        match Address::parse(url)? {
            Address::Sqlite(path) => {
                if let Origin::Flag(flag) = configuration.origin("postgres.schema") {
                    let detail = format!("{flag} is given, and SQLite has no schemas");
                    return Err(Error::invalid("opening the store", detail)
                        .advice("name another file for another outbox")
                        .into());
                }
                let store = SqliteStore::open(&path, configuration.sqlite(create)?)
                    .map_err(|error| explained(error, &remedy))
                    .map_err(|error| match error.kind() {
                        ErrorKind::NotFound => Failure::with_exit(Exit::Schema, error),
                        _ => error.into(),
                    })?;
                let store = store.with_key_source(Arc::new(FolderKeys));
                Ok(Self::of(Arc::new(store), url, remedy))
            }
            Address::Postgres(address) => {
                let store = PostgresStore::new(&address, configuration.postgres()?)?
                    .with_key_source(Arc::new(FolderKeys));
                Ok(Self::of(Arc::new(store), url, remedy))
            }
        }
    }

    fn of<S>(store: Arc<S>, url: &str, remedy: String) -> Self
    where
        S: OutboxStore + ClaimStore + OutboxDesk + BarrierDesk + PauseDesk + KeptDesk + TailDesk,
        S: Doctor,
    {
        Self {
            outbox: store.clone(),
            claims: store.clone(),
            desk: store.clone(),
            barriers: store.clone(),
            pauses: store.clone(),
            kept: store.clone(),
            tail: store.clone(),
            doctor: store,
            shown: masked(url),
            remedy,
        }
    }

    /// An error of this store, with the command that mends it where one does.
    pub(crate) fn explain(&self, error: Error) -> Error {
        explained(error, &self.remedy)
    }

    /// Says whether the store's schema is what this program needs.
    ///
    /// # Errors
    /// It is missing, older or newer, with the command to run; and those of the database.
    pub(crate) async fn check_schema(&self) -> Result<(), Error> {
        const DOING: &str = "checking the schema";
        let schema = self.desk.schema().await.map_err(|error| self.explain(error))?;
        match schema.state {
            SchemaState::Current | SchemaState::Newer => Ok(()),
            SchemaState::Missing => {
                let mut detail = match schema.version {
                    0 => "it was never migrated".to_owned(),
                    version => format!("it is at version {version}, {} is needed", schema.needed),
                };
                if schema.version != 0 && !schema.missing.is_empty() {
                    detail.push_str(&format!("; missing: {}", schema.missing.join(", ")));
                }
                Err(self.explain(
                    Error::new(ErrorKind::SchemaMissing, DOING).subject(&self.shown).detail(detail),
                ))
            }
            SchemaState::Changed => Err(Error::new(ErrorKind::SchemaChanged, DOING)
                .subject(&self.shown)
                .detail(schema.changed_words())),
            SchemaState::TooNew => Err(Error::new(ErrorKind::SchemaTooNew, DOING)
                .subject(&self.shown)
                .detail(format!(
                    "it is at version {}, this program knows up to {}",
                    schema.version, schema.needed
                ))),
        }
    }
}

/// The URL of the store that the configuration names.
fn named(configuration: &Configuration) -> Result<&str, Error> {
    configuration.text("store").ok_or_else(|| {
        Error::invalid("opening the store", "no store is named").advice(format!(
            "give --store, set SENDOFF_STORE, or set `store` in {FILE_DEFAULT}; {EXAMPLES}"
        ))
    })
}

/// The store, where it has to be one of PostgreSQL.
///
/// # Errors
/// No store is named, its URL is malformed, or it is another one's.
pub(crate) fn postgres(configuration: &Configuration) -> Result<PostgresStore, Error> {
    let url = named(configuration)?;
    match Address::parse(url)? {
        Address::Postgres(address) => PostgresStore::new(&address, configuration.postgres()?),
        Address::Sqlite(_) => Err(Error::invalid("opening the store", "SQLite has no roles")
            .subject(masked(url))
            .advice("the file's permissions say who may use it")),
    }
}

fn explained(error: Error, remedy: &str) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::SchemaMissing => error.advice(format!("run `{remedy}`")),
        _ => error,
    }
}

/// The command that migrates the configured store, as it would have to be typed here.
fn remedy(configuration: &Configuration, url: &str) -> String {
    let mut command = "sendoff".to_owned();
    if let Some((path, true)) = configuration.file() {
        command.push_str(&format!(" --config {}", quoted(&path.display().to_string())));
    }
    command.push_str(" migrate");
    if let Origin::Flag(_) = configuration.origin("store") {
        command.push_str(&format!(" --store {}", quoted(&masked(url))));
    }
    if let (Origin::Flag(_), Some(schema)) =
        (configuration.origin("postgres.schema"), configuration.text("postgres.schema"))
    {
        command.push_str(&format!(" --schema {}", quoted(schema)));
    }
    command
}

/// A word as a POSIX shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@=-+%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A store's URL, read.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Address {
    fn parse(url: &str) -> Result<Self, Error> {
        let refuse = |detail: &str, advice: &str| {
            Err(Error::invalid(DOING, detail).subject(format!("`{}`", masked(url))).advice(advice))
        };
        let Some((scheme, rest)) = url.split_once(':') else {
            return refuse("it has no scheme", EXAMPLES);
        };
        match scheme {
            "sqlite" => match sqlite_path(rest) {
                Ok(path) => Ok(Self::Sqlite(path)),
                Err(detail) => refuse(detail, "write sqlite:shop.db or sqlite:/data/shop.db"),
            },
            "postgres" | "postgresql" if !rest.starts_with("//") => refuse(
                "two slashes have to follow the scheme",
                "write postgres://user:password@host:5432/database",
            ),
            "postgres" | "postgresql" => Ok(Self::Postgres(url.to_owned())),
            _ => refuse("its scheme is neither sqlite nor postgres", EXAMPLES),
        }
    }
}

/// The path in what follows `sqlite:`; it is taken as it is written, nothing is decoded.
fn sqlite_path(rest: &str) -> Result<PathBuf, &'static str> {
    let path = match rest.strip_prefix("//") {
        // `sqlite://shop.db/x` would have a host; some tools read it as a relative path.
        Some(path) if !path.starts_with('/') => {
            return Err("after two slashes an absolute path has to follow");
        }
        Some(path) => path,
        None => rest,
    };
    if path.is_empty() || path.ends_with('/') {
        return Err("it names no file");
    }
    if path.starts_with(":memory:") {
        return Err("a database in memory would end with this process");
    }
    if path.contains(['?', '#', '\0']) {
        return Err("it takes no parameters, only a path");
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_takes_relative_and_absolute_paths() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite:./a/shop.db", "./a/shop.db"),
            ("sqlite:/data/shop.db", "/data/shop.db"),
            ("sqlite:///data/shop.db", "/data/shop.db"),
            ("sqlite:a b%20.db", "a b%20.db"),
        ] {
            assert_eq!(Address::parse(url).unwrap(), Address::Sqlite(path.into()));
        }
    }

    #[test]
    fn both_names_of_postgres_are_taken() {
        for url in ["postgres://h/d", "postgresql://h/d"] {
            assert_eq!(Address::parse(url).unwrap(), Address::Postgres(url.into()));
        }
    }

    #[test]
    fn malformed_urls_are_refused_with_an_example_and_without_a_password() {
        for url in [
            "",
            "shop.db",
            "sqlite:",
            "sqlite:/",
            "sqlite://shop.db",
            "sqlite::memory:",
            "sqlite:shop.db?mode=ro",
            "postgres:u:secret@h/d",
            "mysql://u:secret@h/d",
            "host=h password=secret",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            let text = error.to_string();
            assert!(text.contains("write sqlite:") || text.contains("write postgres:"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell_where_they_have_to_be() {
        assert_eq!(quoted("sqlite:shop.db"), "sqlite:shop.db");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
