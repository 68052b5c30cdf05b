//! A connection on a thread of its own, which takes jobs from a bounded queue.
//!
//! A job runs whole or not at all: dropping the future that waits for it changes nothing about one
//! that has begun, and one that nobody waits for any more is not begun.
//!
//! What does not belong here: statements of the outbox.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use sendoff_core::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

use super::error::{Failure, is_busy, is_fatal};
use super::file::{DatabaseFile, Identity, Role};
use super::{schema, sql};

/// Jobs that may wait. A relay has a handful at most; senders through the desk wait their turn.
const JOBS_MAX: usize = 64;

type Job = Box<dyn FnOnce(&mut Seat) + Send>;

/// The handle on a thread with a connection. The thread ends once the handle is dropped and the jobs
/// that were queued are done.
pub(super) struct Worker {
    jobs: mpsc::Sender<Job>,
    file: Arc<DatabaseFile>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("file", &self.file.address).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts the thread. The connection is opened by the first job.
    pub(super) fn start(name: &str, file: &Arc<DatabaseFile>, role: Role) -> Result<Self> {
        let (jobs, mut queue) = mpsc::channel::<Job>(JOBS_MAX);
        let mut seat = Seat { file: Arc::clone(file), role, open: None };
        thread::Builder::new()
            .name(format!("sqlite-{name}"))
            .spawn(move || {
                while let Some(job) = queue.blocking_recv() {
                    job(&mut seat);
                }
                seat.close();
            })
            .map_err(|error| {
                Error::new(ErrorKind::Unexpected, "starting a thread")
                    .subject(file.address.clone())
                    .caused_by(error)
            })?;
        Ok(Self { jobs, file: Arc::clone(file) })
    }

    /// Runs a job on the thread and waits for what it gives.
    pub(super) async fn run<T, J>(&self, operation: &'static str, job: J) -> Result<T>
    where
        T: Send + 'static,
        J: FnOnce(&Session<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |seat| {
            if reply.is_closed() {
                return;
            }
            // Nobody may wait any more by now; then what the job gave is of no use to anybody.
            let _ = reply.send(seat.run(operation, job));
        });
        let ended = || {
            Error::new(ErrorKind::Unexpected, operation)
                .subject(self.file.address.clone())
                .detail("the store's thread has ended")
        };
        self.jobs.send(job).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

/// The thread's place: the connection, while there is one.
struct Seat {
    file: Arc<DatabaseFile>,
    role: Role,
    open: Option<(Connection, Identity)>,
}

impl Seat {
    fn run<T>(
        &mut self,
        operation: &'static str,
        job: impl FnOnce(&Session<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        let done =
            self.connection().and_then(|(connection, file)| job(&Session { connection, file }));
        if let Err(Failure::Driver(error)) = &done
            && is_fatal(error)
        {
            self.open = None;
        }
        done.map_err(|failure| failure.into_error(operation, &self.file.path))
    }

    /// The connection, opened anew where the path leads to another file by now: SQLite would go on
    /// with the deleted one, and what it commits there is lost.
    fn connection(&mut self) -> Result<(&Connection, &DatabaseFile), Failure> {
        if let Some((_, opened)) = &self.open {
            match self.file.identity() {
                Ok(now) if now == *opened => {}
                Ok(_) => self.open = None,
                Err(_) => {
                    self.open = None;
                    return Err(self.file.gone());
                }
            }
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => self.file.connect(self.role)?,
        };
        Ok((&self.open.insert(open).0, &self.file))
    }

    /// Cuts the log, if nobody else is using the file. SQLite does the rest as the last one closes.
    fn close(self) {
        if let (Role::Writes, Some((connection, _))) = (self.role, &self.open) {
            let cut = connection
                .busy_timeout(Duration::ZERO)
                .and_then(|()| connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
            if let Err(error) = cut {
                tracing::debug!(store = %self.file.address, %error, "the log was not cut at the end");
            }
        }
    }
}

/// What a job works with.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    pub(super) file: &'a DatabaseFile,
}

impl Session<'_> {
    /// Reads the outbox in one snapshot, if its schema is the one that this program knows.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.snapshot(|snapshot| {
            schema::need(snapshot, self.file)?;
            work(snapshot)
        })
    }

    /// Writes the outbox in one transaction, if its schema is the one that this program knows.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.transaction(|transaction| {
            schema::need(transaction, self.file)?;
            work(transaction)
        })
    }

    /// Reads whatever there is in one snapshot.
    pub(super) fn snapshot<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let snapshot = Transaction::new_unchecked(self.connection, TransactionBehavior::Deferred)?;
        let done = work(&snapshot)?;
        snapshot.commit()?;
        Ok(done)
    }

    /// Writes in one short transaction. It is begun as a writer, so that it never has to be run again
    /// because somebody wrote between its reads and its writes (`SQLITE_BUSY_SNAPSHOT`).
    pub(super) fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let transaction = self.begin()?;
        let done = work(&transaction)?;
        transaction.commit()?;
        self.file.committed();
        Ok(done)
    }

    /// Takes the write lock.
    ///
    /// SQLite's own wait sleeps up to 100 ms between two tries, and a relay beside busy senders would
    /// hardly ever meet a free moment. So the tries are made here, close together.
    fn begin(&self) -> Result<Transaction<'_>, Failure> {
        let deadline = Instant::now() + self.file.options.busy_timeout;
        self.connection.busy_timeout(Duration::ZERO)?;
        let mut tries = 0_u32;
        let begun = loop {
            match Transaction::new_unchecked(self.connection, TransactionBehavior::Immediate) {
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    tries += 1;
                    let nap = if tries < 200 { 300 } else { 2_000 };
                    thread::sleep(Duration::from_micros(nap));
                }
                other => break other,
            }
        };
        self.connection.busy_timeout(self.file.options.busy_timeout)?;
        Ok(begun?)
    }

    /// SQLite's clock, in microseconds since 1970.
    pub(super) fn now(connection: &Connection) -> Result<i64, rusqlite::Error> {
        connection.prepare_cached(sql::NOW)?.query_row([], |row| row.get(0))
    }
}
