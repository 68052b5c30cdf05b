//! A private PostgreSQL cluster.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::folder::Folder;
use super::port::free_port;
use super::process::{PATIENCE, Process, pause_pid, run, signal_pid};
use super::program::{Account, postgres_folder};

/// A private PostgreSQL cluster on a loopback port, the superuser being `postgres` without a
/// password. Dropping it stops it and removes its data.
#[derive(Debug)]
pub struct Postgres {
    // Before the folder, so that the server ends before its data goes.
    process: Option<Process>,
    programs: PathBuf,
    account: Account,
    config: PostgresConfig,
    port: u16,
    folder: Folder,
}

/// How to run a private PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresConfig {
    /// Whether commits are made durable. On by default, as users have it.
    pub fsync: bool,
    /// Further settings, as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// Files in its data directory, by name, such as certificates and `pg_hba.conf`. Only the server can
    /// read them.
    pub files: Vec<(String, String)>,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self { fsync: true, settings: Vec::new(), files: Vec::new() }
    }
}

impl Postgres {
    /// Starts a new cluster with the default [`PostgresConfig`].
    ///
    /// # Errors
    /// Where no PostgreSQL 15 or later is installed (the Debian package is named), or it does not
    /// start (the end of its log is quoted).
    pub fn start() -> io::Result<Self> {
        Self::start_with(PostgresConfig::default())
    }

    /// Starts a new cluster.
    ///
    /// # Errors
    /// Those of [`Postgres::start`].
    pub fn start_with(config: PostgresConfig) -> io::Result<Self> {
        let programs = postgres_folder()?;
        let account = Account::for_postgres()?;
        let folder = Folder::new(&account)?;
        copy_new_cluster(&programs, account, &folder.path().join("data"))?;
        for (name, text) in &config.files {
            let path = folder.path().join("data").join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            account.own(&path)?;
        }
        let mut postgres = Self { process: None, programs, account, config, port: 0, folder };
        let mut tries = 0;
        loop {
            postgres.port = free_port()?;
            match postgres.launch() {
                Ok(process) => postgres.process = Some(process),
                // Somebody may have taken the port since.
                Err(_) if tries < 3 => {
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            return Ok(postgres);
        }
    }

    /// The URL of the database `postgres`, as superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Creates a database and gives its URL.
    ///
    /// # Errors
    /// Those of `CREATE DATABASE`.
    pub fn create_database(&self, name: &str) -> io::Result<String> {
        self.execute("postgres", &create_database_sql(name))?;
        Ok(self.url_of(name))
    }

    /// Runs SQL in a database, with `psql`, and gives what it prints (unaligned, tuples only).
    ///
    /// # Errors
    /// Those of the SQL; the first failing command ends it.
    pub fn execute(&self, database: &str, sql: &str) -> io::Result<String> {
        psql(&self.url_of(database), sql)
    }

    /// Crashes the server: an immediate stop. No checkpoint, no goodbye to clients; the next start
    /// recovers from the log.
    ///
    /// # Errors
    /// Where the signal cannot be sent. A server that is down already stays down.
    pub fn kill(&mut self) -> io::Result<()> {
        self.end(Signal::QUIT)
    }

    /// Kills the postmaster with SIGKILL; its backends notice and end on their own.
    ///
    /// # Errors
    /// Where the signal cannot be sent. A server that is down already stays down.
    pub fn kill_hard(&mut self) -> io::Result<()> {
        self.end(Signal::KILL)
    }

    /// Stops it in good order (a fast shutdown).
    ///
    /// # Errors
    /// Where the signal cannot be sent. A server that is down already stays down.
    pub fn stop(&mut self) -> io::Result<()> {
        self.end(Signal::INT)
    }

    /// Starts it again on the same port and data, after a crash if it runs still, and returns when
    /// it accepts connections.
    ///
    /// # Errors
    /// Where it does not start; the end of its log is quoted.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        let begun = Instant::now();
        loop {
            match self.launch() {
                Ok(process) => {
                    self.process = Some(process);
                    return Ok(());
                }
                // Backends of a postmaster that was killed hold its shared memory for a moment.
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Stops every process of the server in its tracks (SIGSTOP): connections stay open, nothing
    /// answers.
    ///
    /// # Errors
    /// Where the server is down or a signal cannot be sent.
    pub fn pause(&self) -> io::Result<()> {
        let process = self.running()?;
        // The postmaster first, so that it starts no backend meanwhile.
        pause_pid(process.pid())?;
        for backend in children(process.pid())? {
            pause_pid(backend)?;
        }
        Ok(())
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// Where the server is down or a signal cannot be sent.
    pub fn resume(&self) -> io::Result<()> {
        let process = self.running()?;
        for backend in children(process.pid())? {
            signal_pid(backend, Signal::CONT)?;
        }
        process.signal(Signal::CONT)
    }

    /// Kills one backend with SIGKILL. The server ends the others, recovers and accepts again.
    ///
    /// # Errors
    /// Where the server is down, the process is not one of its own, or it cannot be signalled.
    pub fn kill_backend(&self, pid: u32) -> io::Result<()> {
        if !children(self.running()?.pid())?.contains(&pid) {
            return Err(io::Error::other(format!("{pid} is no backend of the private PostgreSQL")));
        }
        signal_pid(pid, Signal::KILL)
    }

    fn running(&self) -> io::Result<&Process> {
        self.process.as_ref().ok_or_else(|| io::Error::other("the private PostgreSQL is down"))
    }

    fn end(&mut self, signal: Signal) -> io::Result<()> {
        match self.process.take() {
            Some(process) => process.end(signal),
            None => Ok(()),
        }
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    fn launch(&self) -> io::Result<Process> {
        let data = self.data();
        let mut command = self.account.command(&self.programs.join("postgres"));
        command.arg("-D").arg(&data);
        let port = self.port.to_string();
        let fsync = if self.config.fsync { "on" } else { "off" };
        let own = [
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", ""),
            ("fsync", fsync),
            ("max_connections", "300"),
        ];
        let further = self.config.settings.iter();
        for (name, value) in
            own.into_iter().chain(further.map(|(name, value)| (name.as_str(), value.as_str())))
        {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // The folder is the account's, and the account may not be allowed into ours.
        command.current_dir(self.folder.path());
        let status = data.join("postmaster.pid");
        Process::start(
            command,
            self.folder.pid_file("postgres"),
            &self.folder.path().join("postgres.log"),
            |pid| accepts(&status, pid),
        )
    }
}

/// Whether the postmaster says in its pid file that it accepts connections: pid on line 1, state on
/// line 8, as `pg_ctl` reads it.
fn accepts(status: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(status).unwrap_or_default();
    let mut lines = text.lines().map(str::trim);
    lines.next() == Some(pid.to_string().as_str()) && lines.nth(6) == Some("ready")
}

/// The processes that a process has started.
fn children(pid: u32) -> io::Result<Vec<u32>> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(list.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// Copies a cluster that `initdb` made once for this process: a copy takes a fifth of the time.
fn copy_new_cluster(programs: &Path, account: Account, to: &Path) -> io::Result<()> {
    static NEW_CLUSTER: Mutex<Option<Folder>> = Mutex::new(None);
    let mut made = NEW_CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_none() {
        let folder = Folder::new(&account)?;
        let mut initdb = account.command(&programs.join("initdb"));
        initdb
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--no-locale", "--no-sync", "--no-instructions"])
            .arg("-D")
            .arg(folder.path().join("data"))
            .current_dir(folder.path());
        run(initdb, "making a private PostgreSQL cluster")?;
        *made = Some(folder);
    }
    let Some(folder) = made.as_ref() else {
        return Err(io::Error::other("the new cluster is gone"));
    };
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(folder.path().join("data")).arg(to);
    run(copy, "copying a private PostgreSQL cluster").map(drop)
}

/// `CREATE DATABASE` with the name quoted.
pub(super) fn create_database_sql(name: &str) -> String {
    format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""))
}

/// Runs SQL with `psql`.
pub(super) fn psql(url: &str, sql: &str) -> io::Result<String> {
    let mut command = Command::new(super::program::psql()?);
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]).args([
        "--set",
        "ON_ERROR_STOP=1",
        "--dbname",
        url,
        "--command",
        sql,
    ]);
    run(command, "running SQL on a private PostgreSQL")
}
