//! What can be set about the store's connections, and what the URL says.

use std::time::Duration;

use sendoff_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::schema_name::SchemaName;
use super::tls::TlsParameters;

/// How a [`super::PostgresStore`] uses its server. Start from the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// How long one attempt to connect may take, authentication included. Default 5 s.
    pub connect_timeout: Duration,
    /// How long the relay's own statements may take, the wait for a connection included. A
    /// connection that gives no answer in this time is discarded. Default 10 s.
    pub answer_timeout: Duration,
    /// The same for what an operator asks for (counts, mending, migrations). Default 5 minutes.
    pub desk_timeout: Duration,
    /// How often the connection that listens is asked for a sign of life. Default 5 s.
    pub heartbeat: Duration,
    /// How long a pair of source and id stays unique after it was sent. Default 24 h.
    pub horizon: Duration,
    /// Whether to LISTEN for wake-ups of other processes. Turn it off behind a pooler in
    /// transaction mode, which cannot pass them on; polling finds everything. Default true.
    pub listen: bool,
    /// Whether a pooler that hands the server's connections from transaction to transaction stands in
    /// between. Default none.
    pub pooler: Pooler,
    /// The schema that the outbox lives in. Default `sendoff`.
    pub schema: SchemaName,
    /// How the connections name themselves in `pg_stat_activity`. Default `sendoff`.
    pub application_name: String,
}

/// What stands between this program and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pooler {
    /// Nothing, or a pooler in session mode: a connection is the server's own for as long as it lasts.
    #[default]
    None,
    /// A pooler in transaction mode, such as pgbouncer with `pool_mode = transaction`. Every call is a
    /// transaction that brings its settings along, no statement is prepared, and there is no LISTEN:
    /// polling finds what was sent.
    Transaction,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            desk_timeout: Duration::from_secs(300),
            heartbeat: Duration::from_secs(5),
            horizon: Duration::from_secs(86_400),
            listen: true,
            pooler: Pooler::None,
            schema: SchemaName::default(),
            application_name: "sendoff".to_owned(),
        }
    }
}

impl PostgresOptions {
    /// Whether the store listens: a pooler in transaction mode passes no wake-ups on.
    pub(super) fn listens(&self) -> bool {
        self.listen && self.pooler == Pooler::None
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] names the first setting that is out of range.
    pub fn check(&self) -> Result<()> {
        const LEAST: Duration = Duration::from_millis(10);
        const MOST: Duration = Duration::from_secs(86_400);
        let refuse = |what: &str| Err(Error::invalid("checking the PostgreSQL options", what));
        for (name, value) in [
            ("connect timeout", self.connect_timeout),
            ("answer timeout", self.answer_timeout),
            ("desk timeout", self.desk_timeout),
            ("heartbeat", self.heartbeat),
        ] {
            if value < LEAST || value > MOST {
                return refuse(&format!("the {name} has to be between 10 ms and a day"));
            }
        }
        if self.horizon > MOST * 3650 {
            return refuse("the horizon has to be at most ten years");
        }
        Ok(())
    }
}

/// What a URL says.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    /// The address for people: no password.
    pub(super) address: String,
}

/// Reads the URL. What is wrong with it is said without quoting it: it holds a password.
pub(super) fn parse(url: &str, options: &PostgresOptions) -> Result<Server> {
    const DOING: &str = "reading the PostgreSQL URL";
    let form = "it has to look like postgres://user:password@host:5432/database";
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(Error::invalid(DOING, form));
    }
    let (tls, url) = TlsParameters::take(url)?;
    let mut config: Config = url.parse().map_err(|_| {
        Error::invalid(DOING, format!("it does not parse: {form}")).advice(
            "write special characters of the user and password percent-encoded, as %40 for @",
        )
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(Error::invalid(DOING, format!("it names no host: {form}")));
    }
    let address = address(&config);
    config
        .ssl_mode(tls.mode())
        .connect_timeout(options.connect_timeout)
        // The kernel gives up on a peer that is gone at about the time that we do.
        .tcp_user_timeout(options.answer_timeout)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
    if config.get_application_name().is_none() {
        config.application_name(options.application_name.as_str());
    }
    Ok(Server { config, tls: tls.connect()?, address })
}

/// The address for people: no password.
fn address(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(at, host)| {
            let port = ports.get(at).or_else(|| ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        })
        .collect();
    let user = config.get_user().map_or_else(String::new, |user| format!("{user}@"));
    let database = config.get_dbname().or(config.get_user()).unwrap_or("");
    format!("postgres://{user}{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::{PostgresOptions, parse};

    #[test]
    fn the_address_has_no_password() {
        let server = parse(
            "postgres://me:s3cret@db.example:6432/shop?options=-csearch_path%3Dx",
            &PostgresOptions::default(),
        )
        .unwrap();
        assert_eq!(server.address, "postgres://me@db.example:6432/shop");
    }

    #[test]
    fn a_malformed_url_is_refused_without_being_quoted() {
        for url in [
            "mysql://u:s3cret@h/d",
            "postgres://u:s3cret@h:port/d",
            "postgres://u:s3cret@/d",
            "postgres://u:s3cret@h/d?sslmode=verify-full&sslrootcert=/no/such/file",
            "postgres://u:s3cret@h/d?s3cret=1",
        ] {
            let error = parse(url, &PostgresOptions::default()).err().unwrap();
            assert_eq!(error.kind(), sendoff_core::ErrorKind::Invalid, "{url}");
            assert!(!format!("{error} {error:?}").contains("cret"), "{error:?}");
        }
    }
}
