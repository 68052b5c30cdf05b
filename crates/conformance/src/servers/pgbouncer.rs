//! A private pgbouncer in transaction mode.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::folder::Folder;
use super::port::free_port;
use super::process::Process;
use super::program::{Account, pgbouncer};

/// A private pgbouncer on a loopback port, in transaction mode, in front of a PostgreSQL. Dropping it
/// stops it.
///
/// Each transaction gets another of the server's connections than the one before it had, so that
/// nothing that a session keeps is found again. It asks nobody for a password.
#[derive(Debug)]
pub struct PgBouncer {
    // Before the folder, so that it ends before its files go.
    _process: Process,
    port: u16,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts one in front of the server at `url`.
    ///
    /// # Errors
    /// Where `pgbouncer` is not installed (the Debian package is named), the URL has another form than
    /// `postgres://user[:password]@host:port/database`, or it does not start (the end of its log is
    /// quoted).
    pub fn start(url: &str) -> io::Result<Self> {
        let server = Server::parse(url)?;
        let mut tries = 0;
        loop {
            match Self::launch(&server, free_port()?) {
                // Somebody may have taken the port since.
                Err(_) if tries < 3 => tries += 1,
                started => return started,
            }
        }
    }

    /// The database of a URL of the server, through this pooler.
    #[must_use]
    pub fn url_of(&self, url: &str) -> String {
        let database = url.split('?').next().and_then(|url| url.rsplit('/').next());
        format!("postgres://pooled@127.0.0.1:{}/{}", self.port, database.unwrap_or_default())
    }

    fn launch(server: &Server, port: u16) -> io::Result<Self> {
        let account = Account::for_postgres()?;
        let folder = Folder::new(&account)?;
        let settings = folder.path().join("pgbouncer.ini");
        fs::write(&settings, server.settings(port))?;
        let mut command = account.command(&pgbouncer()?);
        command.arg(&settings).current_dir(folder.path());
        let log = folder.path().join("pgbouncer.log");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = Process::start(command, folder.pid_file("pgbouncer"), &log, |_| {
            TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok()
        })?;
        Ok(Self { _process: process, port, _folder: folder })
    }
}

/// The URL of a database on the shared PostgreSQL, through a pgbouncer that lives as long as this
/// process.
///
/// # Errors
/// Those of [`PgBouncer::start`].
pub fn pooled(url: &str) -> io::Result<String> {
    static SHARED: Mutex<Option<PgBouncer>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let pooler = match shared.take() {
        Some(pooler) => pooler,
        None => PgBouncer::start(url)?,
    };
    Ok(shared.insert(pooler).url_of(url))
}

/// Where the server is, and as whom the pooler connects.
struct Server {
    user: String,
    password: Option<String>,
    host: String,
    port: u16,
}

impl Server {
    fn parse(url: &str) -> io::Result<Self> {
        let read = || {
            let (_, rest) = url.split_once("://")?;
            let (user, rest) = rest.split_once('@')?;
            let (user, password) = match user.split_once(':') {
                Some((user, password)) => (user, Some(password.to_owned())),
                None => (user, None),
            };
            let (host, port) = rest.split('/').next()?.rsplit_once(':')?;
            let (user, host, port) = (user.to_owned(), host.to_owned(), port.parse().ok()?);
            Some(Self { user, password, host, port })
        };
        read().ok_or_else(|| {
            let form = "a pooler needs a URL like postgres://user:password@host:port/database";
            io::Error::new(io::ErrorKind::InvalidInput, form)
        })
    }

    fn settings(&self, port: u16) -> String {
        let Self { user, password, host, port: server } = self;
        let password = password.as_ref().map_or(String::new(), |word| format!(" password={word}"));
        format!(
            "[databases]\n\
             * = host={host} port={server} user={user}{password}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             server_round_robin = 1\n\
             min_pool_size = 4\n\
             default_pool_size = 15\n\
             max_client_conn = 400\n\
             ignore_startup_parameters = extra_float_digits\n"
        )
    }
}
