//! Servers that the tests of one process, or of one whole run, share.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::nats::Nats;
use super::postgres::{Postgres, create_database_sql, psql};

/// Points the tests at a PostgreSQL that runs already, as a superuser's (or a database creator's)
/// URL. The tests make databases there whose names begin with `sendoff_test_`.
pub const POSTGRES_URL: &str = "SENDOFF_TEST_POSTGRES_URL";

/// Points the tests at a NATS server with JetStream that runs already. The tests make streams
/// there.
pub const NATS_URL: &str = "SENDOFF_TEST_NATS_URL";

/// The URL of a PostgreSQL to share: the one that [`POSTGRES_URL`] names, or else a private one
/// that lives as long as this process.
///
/// Do not kill what is shared: start a [`Postgres`] of your own for that.
///
/// # Errors
/// Those of [`Postgres::start`].
pub fn postgres() -> io::Result<String> {
    static SHARED: Mutex<Option<Postgres>> = Mutex::new(None);
    shared(POSTGRES_URL, &SHARED, Postgres::start, Postgres::url)
}

/// The URL of a NATS server to share: the one that [`NATS_URL`] names, or else a private one that
/// lives as long as this process.
///
/// # Errors
/// Those of [`Nats::start`].
pub fn nats() -> io::Result<String> {
    static SHARED: Mutex<Option<Nats>> = Mutex::new(None);
    shared(NATS_URL, &SHARED, Nats::start, Nats::url)
}

/// The URL of a new, empty database on the shared PostgreSQL.
///
/// # Errors
/// Those of [`postgres`] and of `CREATE DATABASE`.
pub fn fresh_database() -> io::Result<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server = postgres()?;
    let name = format!(
        "sendoff_test_{}_{}_{:08x}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed),
        // Two runs against one server may have the same process ids.
        fastrand::u32(..),
    );
    psql(&server, &create_database_sql(&name))?;
    with_database(&server, &name)
}

fn shared<S>(
    variable: &str,
    slot: &Mutex<Option<S>>,
    start: fn() -> io::Result<S>,
    url: fn(&S) -> String,
) -> io::Result<String> {
    if let Some(url) = std::env::var(variable).ok().filter(|url| !url.is_empty()) {
        return Ok(url);
    }
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = slot.as_ref() {
        return Ok(url(server));
    }
    Ok(url(slot.insert(start()?)))
}

/// The URL with another database.
fn with_database(url: &str, name: &str) -> io::Result<String> {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (url, None),
    };
    let authority = base.find("://").map(|at| at + 3).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{POSTGRES_URL} has to be a URL: postgres://user@host:port/database"),
        )
    })?;
    let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    let mut with = format!("{}/{name}", &base[..end]);
    if let Some(query) = query {
        with.push('?');
        with.push_str(query);
    }
    Ok(with)
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn a_url_gets_another_database_and_keeps_the_rest() {
        for (url, with) in [
            ("postgres://u@h:1/a", "postgres://u@h:1/new"),
            ("postgres://u@h:1", "postgres://u@h:1/new"),
            ("postgres://u:p@h/a?sslmode=disable", "postgres://u:p@h/new?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "new").unwrap(), with);
        }
        assert!(with_database("host=localhost", "new").is_err());
    }
}
