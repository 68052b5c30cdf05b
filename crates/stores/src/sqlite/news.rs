//! News: other connections' commits, seen by asking SQLite for its data version.
//!
//! The question costs a look into shared memory and no disk. A thread asks it every few
//! milliseconds, and only while somebody waits.
//!
//! What does not belong here: the wake-up inside a process. See [`sendoff_core::Wake`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sendoff_core::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::error::{Failure, is_busy};
use super::file::{DatabaseFile, Identity, Role};
use super::sql;

/// Between two questions while there is traffic.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Between two questions when there has been none for a tenth of a second.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// After an error.
const PAUSE_ERROR: Duration = Duration::from_millis(100);

/// The handle on the thread that asks. The thread starts with the first wait.
#[derive(Debug)]
pub(super) struct News {
    file: Arc<DatabaseFile>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    woken: Condvar,
    /// Goes up with each piece of news.
    told: watch::Sender<u64>,
    /// The last one that somebody took: what came while nobody waited is told to the next who does.
    taken: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    started: bool,
    ended: bool,
    waiting: usize,
    /// The thread sleeps until somebody waits.
    parked: bool,
}

impl News {
    pub(super) fn new(file: &Arc<DatabaseFile>) -> Self {
        Self {
            file: Arc::clone(file),
            shared: Arc::new(Shared {
                state: Mutex::default(),
                woken: Condvar::new(),
                told: watch::Sender::new(0),
                taken: AtomicU64::new(0),
            }),
        }
    }

    /// Waits until another connection has committed, or returns at once if one has since the last
    /// wait. An error of the file's is waited out: whoever reads meets it, and after it there is news.
    pub(super) async fn wait(&self) -> Result<()> {
        self.start()?;
        let _waiting = Waiting::new(&self.shared);
        let mut told = self.shared.told.subscribe();
        let last = *told.borrow_and_update();
        if self.shared.taken.swap(last, Ordering::SeqCst) == last {
            // The sender is part of the handle that waits, so it is there.
            let _ = told.changed().await;
            self.shared.taken.fetch_max(*told.borrow(), Ordering::SeqCst);
        }
        Ok(())
    }

    fn start(&self) -> Result<()> {
        let mut state = self.shared.lock();
        if state.started {
            return Ok(());
        }
        let (file, shared) = (Arc::clone(&self.file), Arc::clone(&self.shared));
        thread::Builder::new()
            .name("sqlite-news".to_owned())
            .spawn(move || shared.watch(&file))
            .map_err(|error| {
                Error::new(ErrorKind::Unexpected, "starting a thread")
                    .subject(self.file.address.clone())
                    .caused_by(error)
            })?;
        state.started = true;
        Ok(())
    }
}

impl Drop for News {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.woken.notify_all();
    }
}

/// Somebody waits, until it is dropped.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        let mut state = shared.lock();
        state.waiting += 1;
        if state.parked {
            shared.woken.notify_all();
        }
        drop(state);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, file: &DatabaseFile) {
        let mut eye: Option<Eye> = None;
        let mut pause = Duration::ZERO;
        while self.sleep(pause) {
            match Eye::see(&mut eye, file) {
                Ok(true) => {
                    self.told.send_modify(|news| *news += 1);
                    pause = PAUSE_MIN;
                }
                Ok(false) => pause = (pause.max(PAUSE_MIN) * 6 / 5).min(PAUSE_MAX),
                Err(Failure::Driver(error)) if is_busy(&error) => pause = PAUSE_MAX,
                Err(_) => {
                    eye = None;
                    pause = PAUSE_ERROR;
                }
            }
        }
    }

    /// Sleeps for this long, and then until somebody waits. False once the handle is gone.
    fn sleep(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = self.lock();
        loop {
            if state.ended {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && state.waiting > 0 {
                return true;
            }
            state = if left.is_zero() {
                state.parked = true;
                let mut state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.parked = false;
                state
            } else {
                self.woken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

/// The connection that asks, and what it saw last.
struct Eye {
    connection: Connection,
    identity: Identity,
    version: i64,
    seq: i64,
    own_commits: u64,
}

impl Eye {
    /// Whether there is news. A new connection is news: nobody knows what it missed.
    fn see(eye: &mut Option<Self>, file: &DatabaseFile) -> Result<bool, Failure> {
        if let Some(open) = eye
            && file.identity().ok() == Some(open.identity)
        {
            return open.look(file);
        }
        *eye = None;
        let (connection, identity) = file.connect(Role::Reads)?;
        let mut open = Self { connection, identity, version: 0, seq: 0, own_commits: 0 };
        open.look(file)?;
        *eye = Some(open);
        Ok(true)
    }

    /// Every commit changes the version, those of the relay's own settlements too. News are those
    /// that brought new rows, and those of others, who may have let something go.
    fn look(&mut self, file: &DatabaseFile) -> Result<bool, Failure> {
        let version =
            self.connection.prepare_cached(sql::DATA_VERSION)?.query_row([], |row| row.get(0))?;
        if version == self.version {
            return Ok(false);
        }
        self.version = version;
        let own_commits = file.own_commits();
        // Before the first migration there is no such table.
        let seq = self
            .connection
            .prepare_cached(sql::SEQ_LAST)
            .and_then(|mut seq| seq.query_row([], |row| row.get(0)))
            .unwrap_or(0);
        let is_news = seq != self.seq || own_commits == self.own_commits;
        self.seq = seq;
        self.own_commits = own_commits;
        Ok(is_news)
    }
}
