//! One connection: how it is made, set up and ended.
//!
//! A [`Session`] that is dropped closes its socket at once, whatever it was waiting for: the server
//! rolls back what was open. So a call that is cancelled or timed out can leave nothing behind for
//! the next one, as long as it does not give the session back.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sendoff_core::{Error, ErrorKind, Result};
use tokio::task::JoinHandle;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, SimpleQueryMessage, Socket, tls::TlsStream,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::from_driver;
use super::options::{Pooler, PostgresOptions, Server, parse};
use super::schema::{VERSION, usable};
use super::schema_name::SchemaName;
use super::sql;
use super::statement::{Prepared, Whole};

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The relay's statements: plans that do not depend on statistics, short timeouts.
    Relay,
    /// The same for what may walk far: long timeouts.
    Walk,
    /// An operator's: the server's own settings, long timeouts.
    Desk,
    /// LISTEN and NOTIFY: works without our schema.
    News,
}

/// Makes connections to one server.
pub(super) struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
    address: String,
    options: PostgresOptions,
    failures: Mutex<Failures>,
    /// The last connection's `synchronous_commit` was off.
    weak_commits: AtomicBool,
    warned: AtomicBool,
}

/// Attempts to connect that failed in a row.
#[derive(Default)]
struct Failures {
    count: u32,
    last: Option<Instant>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(url: &str, options: PostgresOptions) -> Result<Self> {
        options.check()?;
        let Server { config, tls, address } = parse(url, &options)?;
        Ok(Self {
            config,
            tls,
            address,
            options,
            failures: Mutex::default(),
            weak_commits: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn schema(&self) -> &SchemaName {
        &self.options.schema
    }

    pub(super) fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// Connects and sets the connection up. After failures it waits first, 1 s at most, so that
    /// callers who try again at once do not hammer a server that is starting.
    pub(super) async fn connect(&self, usage: Use, on_news: Option<OnNews>) -> Result<Session> {
        const DOING: &str = "connecting to the database";
        let wait = self.wait_before_connecting();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let limit = self.options.connect_timeout;
        let connected = tokio::time::timeout(limit, self.connect_now(usage, on_news))
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Unreachable, DOING)
                    .subject(self.address.as_str())
                    .detail(format!("no connection within {} ms", limit.as_millis())))
            });
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match &connected {
            Ok(_) => *failures = Failures::default(),
            Err(_) => {
                failures.count = failures.count.saturating_add(1);
                failures.last = Some(Instant::now());
            }
        }
        connected
    }

    /// Says, one time, that a crash of the server can lose commits here that it has acknowledged.
    pub(super) fn warn_of_weak_commits(&self) {
        if self.weak_commits.load(Ordering::Relaxed) && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                store = self.address,
                "synchronous_commit is off: a crash of the server can lose commits that it has \
                 acknowledged, also of messages that have left; set it to on for whoever sends"
            );
        }
    }

    fn wait_before_connecting(&self) -> Duration {
        const FIRST: Duration = Duration::from_millis(25);
        const LONGEST: Duration = Duration::from_secs(1);
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = failures.last else {
            return Duration::ZERO;
        };
        let doublings = failures.count.saturating_sub(1).min(10);
        let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
        wait.saturating_sub(last.elapsed())
    }

    async fn connect_now(&self, usage: Use, on_news: Option<OnNews>) -> Result<Session> {
        const DOING: &str = "connecting to the database";
        let failed = |error| from_driver(DOING, &self.address, error);
        let (client, connection) = self.config.connect(self.tls.clone()).await.map_err(failed)?;
        let session = Session {
            client,
            schema: self.options.schema.clone(),
            statements: HashMap::new(),
            locals: self.locals(usage),
            driver: Driver(tokio::spawn(drive(connection, on_news))),
        };
        let answer = session.client.simple_query(&self.set_up(usage)).await.map_err(failed)?;
        self.check(usage, &answer)?;
        Ok(session)
    }

    /// The settings of a connection's transactions, where the connection can have none of its own.
    fn locals(&self, usage: Use) -> Option<String> {
        let timeout = match usage {
            Use::Relay | Use::News => self.options.answer_timeout,
            Use::Walk | Use::Desk => self.options.desk_timeout,
        };
        let settings = match usage {
            Use::Relay | Use::Walk => sql::relay_settings(timeout),
            Use::Desk | Use::News => sql::desk_settings(timeout),
        };
        match self.options.pooler {
            Pooler::None => None,
            Pooler::Transaction => Some(sql::set("SET LOCAL", &settings)),
        }
    }

    /// What a new connection is told and asked.
    fn set_up(&self, usage: Use) -> String {
        let answer = self.options.answer_timeout;
        let desk = self.options.desk_timeout;
        let text = match (self.options.pooler, usage) {
            (Pooler::None, Use::Relay) => sql::relay_session(answer),
            (Pooler::None, Use::Walk) => sql::relay_session(desk),
            (Pooler::None, Use::Desk) => sql::desk_session(desk),
            (Pooler::None, Use::News) => sql::desk_session(answer),
            (Pooler::Transaction, Use::Relay | Use::Walk) => sql::relay_questions(),
            (Pooler::Transaction, Use::Desk | Use::News) => sql::SERVER.to_owned(),
        };
        self.options.schema.sql_of(text)
    }

    /// Refuses a server or a database that cannot hold an outbox, and for the relay a schema that
    /// is not the one it needs.
    fn check(&self, usage: Use, answer: &[SimpleQueryMessage]) -> Result<()> {
        const DOING: &str = "checking the database";
        let mut rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let server = rows.next();
        let text = |column| server.and_then(|row| row.try_get(column).ok().flatten()).unwrap_or("");
        if let Err((found, needed)) = suits(text(0), text(1)) {
            return Err(Error::new(ErrorKind::Invalid, DOING)
                .subject(self.address.as_str())
                .detail(found)
                .advice(needed));
        }
        self.weak_commits.store(text(2) == "off", Ordering::Relaxed);
        if !matches!(usage, Use::Relay | Use::Walk) {
            return Ok(());
        }
        self.warn_of_weak_commits();
        let schema = rows.next();
        let number = |column| {
            let text = schema.and_then(|row| row.try_get(column).ok().flatten());
            text.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0)
        };
        let (version, usable_from) = (number(0), number(1));
        if usable(version, usable_from) {
            return Ok(());
        }
        let kind =
            if version > VERSION { ErrorKind::SchemaTooNew } else { ErrorKind::SchemaMissing };
        Err(Error::new(kind, DOING)
            .subject(self.address.as_str())
            .detail(format!("its schema has version {version}, this program needs {VERSION}")))
    }
}

/// The oldest server that has what the statements use, as `server_version_num`.
const SERVER_MIN: u32 = 150_000;

/// Whether a server of this `server_version_num` and a database of this encoding can hold an outbox;
/// otherwise what it is, and what is needed. In a database of another encoding text does not come
/// back as it was sent, or cannot be sent.
fn suits(version: &str, encoding: &str) -> std::result::Result<(), (String, String)> {
    let number: u32 = version.parse().unwrap_or(0);
    if number < SERVER_MIN {
        // 9.6.24 was 90624; since 10 it is 100023 for 10.23.
        let (major, minor) = (number / 10_000, number % 10_000);
        let found = match major {
            0..10 => format!("{major}.{}", minor / 100),
            _ => format!("{major}.{minor}"),
        };
        return Err((
            format!("the server is PostgreSQL {found}"),
            format!("PostgreSQL {} or later is needed", SERVER_MIN / 10_000),
        ));
    }
    if encoding != "UTF8" {
        return Err((
            format!("the database has the encoding {encoding}, and UTF8 is needed"),
            "create a database with ENCODING 'UTF8' TEMPLATE template0".to_owned(),
        ));
    }
    Ok(())
}

/// Called for every notification.
pub(super) type OnNews = Box<dyn Fn() + Send>;

/// The task that moves a connection's bytes; ended with it.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn drive<S: TlsStream + Unpin>(
    mut connection: Connection<Socket, S>,
    on_news: Option<OnNews>,
) {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(_))) => {
                if let Some(on_news) = &on_news {
                    on_news();
                }
            }
            Some(Ok(_)) => {}
            // Whoever waits for an answer is told; whoever does not finds the client closed.
            Some(Err(_)) | None => return,
        }
    }
}

/// A connection with the statements that were prepared on it.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    schema: SchemaName,
    statements: HashMap<&'static str, Prepared>,
    /// What every transaction sets for itself, behind a pooler.
    locals: Option<String>,
    driver: Driver,
}

impl Session {
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits for the connection's end.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.driver.0).await;
    }

    pub(super) fn locals(&self) -> Option<&str> {
        self.locals.as_deref()
    }

    /// The statement, written for `sendoff`; prepared on the first call, except behind a pooler. The
    /// types are those of its casts, so that nothing is guessed.
    pub(super) async fn statement(
        &mut self,
        template: &'static str,
    ) -> std::result::Result<Prepared, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(template) {
            return Ok(statement.clone());
        }
        let whole = Whole::new(self.schema.sql(template));
        let prepared = match self.locals {
            Some(_) => Prepared::Whole(whole),
            None => Prepared::Named(self.client.prepare_typed(&whole.text, &whole.types).await?),
        };
        self.statements.insert(template, prepared.clone());
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::suits;

    #[test]
    fn a_server_that_is_too_old_is_refused_by_the_version_found_and_the_one_needed() {
        for (number, found) in
            [("140021", "14.21"), ("100023", "10.23"), ("90624", "9.6"), ("149999", "14.9999")]
        {
            let (detail, advice) = suits(number, "UTF8").unwrap_err();
            assert_eq!(detail, format!("the server is PostgreSQL {found}"));
            assert_eq!(advice, "PostgreSQL 15 or later is needed");
        }
        for number in ["150000", "150014", "180001"] {
            assert_eq!(suits(number, "UTF8"), Ok(()), "{number}");
        }
    }

    #[test]
    fn a_database_of_another_encoding_is_refused() {
        for encoding in ["SQL_ASCII", "LATIN1", ""] {
            let (detail, advice) = suits("150000", encoding).unwrap_err();
            assert!(detail.contains(encoding), "{detail}");
            assert!(advice.contains("UTF8"), "{advice}");
        }
    }
}
