//! The database file: where it is, which file it is, and how a connection to it is opened.
//!
//! This room opens the file through SQLite only. A file descriptor of the database that is closed by
//! anybody else in the process drops SQLite's locks (that is how POSIX locks work).
//!
//! What does not belong here: statements of the outbox.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use sendoff_core::{Error, ErrorKind, Result};

use super::error::{Failure, address, is_busy};
use super::options::SqliteOptions;
use super::schema;

const OPENING: &str = "opening the store";

/// The log is cut back to this size once it is in the database, after a burst or a long reader.
const LOG_BYTES_KEPT: i64 = 64 << 20;

/// A database file, as the threads of one store share it.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    /// Absolute: the process may change its folder, and SQLite reads a name that begins with `file:`
    /// as a URI.
    pub(super) path: PathBuf,
    pub(super) address: String,
    pub(super) options: SqliteOptions,
    /// Commits of this store's own writer, so that its news leave them out.
    own_commits: AtomicU64,
}

/// Which file a path led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Reads,
    /// Statements that others wrote: the connection itself can only read.
    Probes,
    Writes,
}

impl DatabaseFile {
    /// Checks the path, and opens the file once, so that what is wrong with it is told now.
    pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        options.check()?;
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(Error::invalid(
                OPENING,
                "an outbox has to outlive the process and to be shared, so it needs a file",
            ));
        }
        let path = std::path::absolute(path).map_err(|error| {
            Error::new(ErrorKind::Invalid, OPENING).subject(address(path)).caused_by(error)
        })?;
        let file = Self { address: address(&path), path, options, own_commits: AtomicU64::new(0) };
        file.probe().map_err(|failure| failure.into_error(OPENING, &file.path))?;
        Ok(file)
    }

    fn probe(&self) -> Result<(), Failure> {
        let is_new = match self.identity() {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            // SQLite's own attempt fails too and is explained then.
            Err(_) => false,
        };
        // Without the flag a file that is not there stays so, and SQLite's error is explained.
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, self.options.create);
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(self.options.busy_timeout)?;
        // The first statement that reads the file's head: here it shows whether this is a database.
        connection.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0))?;
        if is_new {
            self.ensure_wal(&connection)?;
            drop(connection);
            self.sync_folder()?;
        }
        Ok(())
    }

    /// Puts the file's name on the disk too: a synced file in a folder that was not synced can be
    /// gone after a power cut.
    fn sync_folder(&self) -> Result<(), Failure> {
        let sync = || -> io::Result<()> {
            let real = std::fs::canonicalize(&self.path)?;
            let folder = real.parent().unwrap_or(Path::new("/"));
            std::fs::File::open(folder)?.sync_all()
        };
        sync().map_err(|error| {
            Failure::Told(
                Error::new(ErrorKind::Unexpected, "syncing the folder")
                    .subject(self.address.clone())
                    .caused_by(error),
            )
        })
    }

    /// Which file is at the path now.
    pub(super) fn identity(&self) -> io::Result<Identity> {
        let found = std::fs::metadata(&self.path)?;
        Ok(Identity { device: found.dev(), inode: found.ino() })
    }

    /// A connection to the file, which has to be there.
    pub(super) fn connect(&self, role: Role) -> Result<(Connection, Identity), Failure> {
        let identity = self.identity().map_err(|_| self.gone())?;
        let access = match role {
            Role::Reads | Role::Writes => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Role::Probes => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let connection =
            Connection::open_with_flags(&self.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        // Another file may have been put there in between; the next job sees that and opens again.
        connection.busy_timeout(self.options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.pragma_update(None, "synchronous", self.options.synchronous.as_sql())?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
        match role {
            Role::Reads | Role::Probes => connection.pragma_update(None, "query_only", true)?,
            Role::Writes => self.mend_mode(&connection)?,
        }
        Ok((connection, identity))
    }

    /// A file that was restored from a dump comes back without WAL mode.
    fn mend_mode(&self, connection: &Connection) -> Result<(), Failure> {
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode != "wal" && schema::schema(connection)?.version > 0 {
            self.ensure_wal(connection)?;
        }
        Ok(())
    }

    /// Turns WAL mode on, which stays with the file. Others that use the file are waited for.
    pub(super) fn ensure_wal(&self, connection: &Connection) -> Result<(), Failure> {
        let deadline = Instant::now() + self.options.busy_timeout;
        loop {
            // Changing the mode needs the file for itself; SQLite does not wait for that by itself.
            let mode = connection
                .query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
            match mode {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    return Err(Error::new(ErrorKind::Invalid, "turning on WAL mode")
                        .subject(self.address.clone())
                        .detail(format!("the file stays in mode {mode}"))
                        .advice("use a local file system: WAL needs shared memory")
                        .into());
                }
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The file was there and is no longer.
    pub(super) fn gone(&self) -> Failure {
        Error::new(ErrorKind::Unreachable, OPENING)
            .subject(self.address.clone())
            .detail("the file is not there any more")
            .advice("put it back (with its -wal file, if that is still there)")
            .into()
    }

    /// The store's own writer has committed.
    pub(super) fn committed(&self) {
        self.own_commits.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn own_commits(&self) -> u64 {
        self.own_commits.load(Ordering::SeqCst)
    }
}
