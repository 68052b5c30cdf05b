//! From SQLite's errors to the product's: what happened, to which file, and what to do next.
//!
//! What does not belong here: deciding whether to try again. The kind says it.

use std::io;
use std::path::Path;

use rusqlite::ffi;
use sendoff_core::{Error, ErrorKind};

/// The kind of an error of SQLite's, for callers who want to know whether to run their own
/// transaction again: `SQLITE_BUSY`, `SQLITE_BUSY_SNAPSHOT` (somebody wrote since this transaction
/// read) and `SQLITE_LOCKED` are [`ErrorKind::Conflict`], which is retried at once.
///
/// ```
/// use sendoff_core::ErrorKind;
/// use sendoff_stores::sqlite::kind_of;
/// let busy = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(517), None);
/// assert_eq!(kind_of(&busy), ErrorKind::Conflict);
/// ```
#[must_use]
pub fn kind_of(error: &rusqlite::Error) -> ErrorKind {
    let Some((code, message)) = code_of(error) else {
        return match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => ErrorKind::Corrupt,
            _ => ErrorKind::Unexpected,
        };
    };
    match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => ErrorKind::Conflict,
        ffi::SQLITE_FULL => ErrorKind::DiskFull,
        ffi::SQLITE_READONLY => ErrorKind::ReadOnly,
        ffi::SQLITE_CANTOPEN => ErrorKind::Unreachable,
        ffi::SQLITE_NOTADB | ffi::SQLITE_CORRUPT => ErrorKind::Corrupt,
        ffi::SQLITE_PERM | ffi::SQLITE_AUTH => ErrorKind::Denied,
        ffi::SQLITE_TOOBIG => ErrorKind::TooLarge,
        ffi::SQLITE_INTERRUPT => ErrorKind::Timeout,
        ffi::SQLITE_CONSTRAINT => match code {
            // The caller's own tables have constraints too; these are the names of ours.
            ffi::SQLITE_CONSTRAINT_UNIQUE if message.contains("sendoff_message_key") => {
                ErrorKind::Duplicate
            }
            ffi::SQLITE_CONSTRAINT_TRIGGER if message.contains("sendoff:") => ErrorKind::Duplicate,
            _ => ErrorKind::Invalid,
        },
        // SQLite has no code for a table that is not there, only words.
        ffi::SQLITE_ERROR if is_about_schema(message) => ErrorKind::SchemaMissing,
        _ => ErrorKind::Unexpected,
    }
}

fn is_about_schema(message: &str) -> bool {
    (message.contains("no such table: sendoff_") || message.contains("no such index: sendoff_"))
        || message.contains("no such column:")
}

/// The extended code and the words, where SQLite itself failed.
fn code_of(error: &rusqlite::Error) -> Option<(i32, &str)> {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            Some((code.extended_code, message.as_deref().unwrap_or_default()))
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => Some((error.extended_code, msg)),
        _ => None,
    }
}

/// Whether the connection is no longer of use, so that the next job opens another one.
pub(super) fn is_fatal(error: &rusqlite::Error) -> bool {
    code_of(error).is_some_and(|(code, _)| {
        matches!(
            code & 0xff,
            ffi::SQLITE_IOERR
                | ffi::SQLITE_CANTOPEN
                | ffi::SQLITE_NOTADB
                | ffi::SQLITE_CORRUPT
                | ffi::SQLITE_READONLY
                | ffi::SQLITE_NOMEM
        )
    })
}

/// Whether somebody else holds the lock.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    code_of(error).is_some_and(|(code, _)| code & 0xff == ffi::SQLITE_BUSY)
}

/// Why a job failed.
pub(super) enum Failure {
    /// SQLite failed; whoever started the job knows what it was doing.
    Driver(rusqlite::Error),
    /// The job itself says what is wrong.
    Told(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Failure {
    /// The product's error for it.
    pub(super) fn into_error(self, operation: &'static str, path: &Path) -> Error {
        match self {
            Self::Driver(error) => explain(error, operation, path),
            Self::Told(error) => error,
        }
    }
}

/// What people call the store.
pub(super) fn address(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn explain(error: rusqlite::Error, operation: &'static str, path: &Path) -> Error {
    let kind = kind_of(&error);
    let code = code_of(&error).map_or(0, |(code, _)| code);
    // Of an error in a statement the words and the code are enough; the statement is ours.
    let source = match error {
        rusqlite::Error::SqlInputError { error, msg, .. } => in_words(error, Some(msg)),
        rusqlite::Error::SqliteFailure(error, words) => in_words(error, words),
        other => other,
    };
    if code & 0xff == ffi::SQLITE_CANTOPEN
        && let Some(error) = cannot_open(operation, path)
    {
        return error.caused_by(source);
    }
    let told = Error::new(kind, operation).subject(address(path));
    let told = match advice(code) {
        Some(advice) => told.advice(advice),
        None => told,
    };
    told.caused_by(source)
}

/// The words once, where they are those of the code itself.
fn in_words(error: ffi::Error, words: Option<String>) -> rusqlite::Error {
    let words = words.filter(|words| !error.to_string().contains(words));
    rusqlite::Error::SqliteFailure(error, words)
}

fn advice(code: i32) -> Option<&'static str> {
    Some(match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {
            "another connection holds the write lock: try again, keep its transactions short, or \
             raise the busy timeout"
        }
        ffi::SQLITE_READONLY => {
            "let this user write the file and its folder: WAL mode keeps -wal and -shm beside it"
        }
        ffi::SQLITE_NOTADB => "check the path; the file was not touched",
        ffi::SQLITE_CORRUPT => {
            "stop writing, run `PRAGMA integrity_check` on a copy and restore a backup"
        }
        ffi::SQLITE_CANTOPEN => "check the path, its permissions and the limit on open files",
        ffi::SQLITE_IOERR => "check the disk and the file system's log; nothing was committed",
        ffi::SQLITE_CONSTRAINT if code == ffi::SQLITE_CONSTRAINT_CHECK => {
            "the constraint's name says what the table takes"
        }
        _ => return None,
    })
}

/// SQLite says "unable to open database file" to everything; the file system says why.
fn cannot_open(operation: &'static str, path: &Path) -> Option<Error> {
    let about = |kind| Error::new(kind, operation).subject(address(path));
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some(missing(operation, path));
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Some(
                about(ErrorKind::Denied).advice("let this user enter the folder and read the file"),
            );
        }
        Err(error) => return Some(about(ErrorKind::Unreachable).detail(error.to_string())),
    };
    if found.is_dir() {
        return Some(
            about(ErrorKind::Invalid).detail("it is a folder").advice("name a file in it"),
        );
    }
    Some(
        about(ErrorKind::Denied)
            .advice("let this user read and write the file and its folder (SQLite opens both)"),
    )
}

/// The file is not there.
fn missing(operation: &'static str, path: &Path) -> Error {
    let missing = Error::new(ErrorKind::NotFound, operation).subject(address(path));
    let folder = path.parent().filter(|folder| !folder.exists());
    match folder {
        Some(folder) => missing
            .detail(format!("the folder {} is not there", folder.display()))
            .advice("make the folder, or check the path"),
        None => missing
            .detail("the file is not there")
            .advice("check the path, or make the file with `sendoff migrate`"),
    }
}
