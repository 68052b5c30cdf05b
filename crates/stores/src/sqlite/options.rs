//! How a store is opened.
//!
//! What does not belong here: reading options from a file or a URL; the command line does that.

use std::time::Duration;

use sendoff_core::{Error, Result};

/// How a [`super::SqliteStore`] is opened. Start from the default and change what you need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Make the file where there is none. Default: no, a missing file is an error, so that a wrong
    /// path does not become an empty outbox.
    pub create: bool,
    /// How long to wait for the write lock that another connection holds. Default 5 s, at most 1 h.
    /// The caller's own connections have a `busy_timeout` of their own; give them one too.
    pub busy_timeout: Duration,
    /// What a commit of the relay's waits for. Default [`Synchronous::Full`]. What a *send* waits for
    /// is set on the caller's own connection.
    pub synchronous: Synchronous,
    /// How long a pair of source and id is kept after its send, to refuse a second one. Default 24 h.
    pub horizon: Duration,
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Until the log is on the disk: a commit survives a power cut.
    #[default]
    Full,
    /// Until the operating system has it: a commit survives the end of the process, but a power cut
    /// can take the last ones back. Of the relay's commits that means messages that are delivered
    /// again.
    Normal,
}

impl Synchronous {
    pub(super) fn as_sql(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            create: false,
            busy_timeout: Duration::from_secs(5),
            synchronous: Synchronous::default(),
            horizon: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl SqliteOptions {
    pub(super) fn check(&self) -> Result<()> {
        if self.busy_timeout > Duration::from_secs(3_600) {
            return Err(Error::invalid(
                "checking the options of a SQLite store",
                "the busy timeout has to be at most 1 h",
            ));
        }
        Ok(())
    }
}
