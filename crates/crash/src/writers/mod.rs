//! The business: several writers whose transactions write orders and messages together.
//!
//! A transaction places a few orders, of several keys or of none; some of them inside savepoints
//! that are kept or rolled back; a tenth of the transactions roll back as a whole, and some stay
//! open for a while, so that rows commit in another order than that of their seqs. Whoever writes to
//! a key holds its row in `key_version` locked, which gives the key's sends an order. What does not
//! belong here: waking relays, which poll.

mod plan;
mod postgres;
mod sqlite;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

pub use plan::{KEYS, key_name};

/// Where writers write to.
#[derive(Debug, Clone)]
pub enum Books {
    /// A PostgreSQL database, by its URL.
    Postgres(String),
    /// An SQLite file.
    Sqlite(PathBuf),
}

/// Writers at work.
#[derive(Debug)]
pub struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What writers share with the harness.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    rolled_back: AtomicU64,
    broken: AtomicU64,
}

impl Shared {
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How one writer is to write.
#[derive(Debug, Clone)]
struct Task {
    books: Books,
    seed: u64,
    /// Orders per second.
    rate: f64,
    shared: Arc<Shared>,
}

/// What writers did, beside what committed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wrote {
    /// Transactions that were rolled back on purpose.
    pub rolled_back: u64,
    /// Transactions that a fault broke, at a point that nobody knows.
    pub broken: u64,
}

impl Writers {
    /// Starts `writers` writers that place `rate` orders a second together.
    ///
    /// # Errors
    /// Where a thread cannot be started.
    pub fn start(books: &Books, writers: u32, rate: f64, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let threads = (0..writers)
            .map(|writer| {
                let task = Task {
                    books: books.clone(),
                    seed: seed.wrapping_mul(1_000).wrapping_add(u64::from(writer)),
                    rate: rate / f64::from(writers),
                    shared: shared.clone(),
                };
                std::thread::Builder::new().name(format!("writer-{writer}")).spawn(move || {
                    match &task.books {
                        Books::Postgres(url) => postgres::write(&task, url),
                        Books::Sqlite(path) => sqlite::write(&task, path),
                    }
                })
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { shared, threads })
    }

    /// Lets each writer end its transaction and stops.
    ///
    /// # Errors
    /// Where a writer failed for another reason than a fault.
    pub fn stop(mut self) -> io::Result<Wrote> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().map_err(|_| io::Error::other("a writer panicked"))??;
        }
        Ok(Wrote {
            rolled_back: self.shared.rolled_back.load(Ordering::Relaxed),
            broken: self.shared.broken.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}
