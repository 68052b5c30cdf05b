//! The ground that contenders meet on: one private PostgreSQL and one private NATS server, both on
//! loopback, with the same settings for everybody.
//!
//! It starts the servers, hands out connections and streams, and reads what a stretch of time took.
//! It knows no contender.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, StorageType};
use sendoff_conformance::servers::{Nats, Postgres, PostgresConfig};
use tokio_postgres::{Client, NoTls};

use crate::failure::{Doing, Failure, Result};
use crate::figures::Run;
use crate::machine::{self, Cpu, DiskProbe, DiskRate};
use crate::target::StreamTarget;

/// The stream that everybody publishes to.
const STREAM: &str = "BENCH";

/// What is not PostgreSQL's default, for all contenders alike: room in the log, so that no
/// checkpoint falls into a run by chance. Commits are durable (fsync is on).
const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "256MB"),
    ("max_wal_size", "8GB"),
    ("min_wal_size", "2GB"),
    ("checkpoint_timeout", "30min"),
];

/// The servers of one program run. Dropping it stops them and removes their data.
#[derive(Debug)]
pub(crate) struct Ground {
    admin: Client,
    streams: Context,
    url: String,
    nats_url: String,
    postmaster_pid: u32,
    nats_pid: u32,
    disk: Mutex<DiskProbe>,
    // The servers go last, when nobody is connected any more.
    _postgres: Postgres,
    _nats: Nats,
}

impl Ground {
    /// Starts both servers.
    ///
    /// # Errors
    /// Where a server is not installed or does not start, which names what to install.
    pub(crate) async fn prepare() -> Result<Self> {
        let (postgres, nats) = tokio::task::spawn_blocking(start_servers)
            .await
            .doing("starting the private servers")??;
        let data = postgres.data();
        // The data folder is the server's own; its parent is on the same disk.
        let disk = DiskProbe::new(data.parent().unwrap_or(&data))?;
        let url = postgres.create_database("bench").doing("creating a database")?;
        let pid_file = std::fs::read_to_string(data.join("postmaster.pid"))
            .doing("reading PostgreSQL's process id")?;
        let postmaster_pid = pid_file
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok())
            .ok_or_else(|| Failure::new("PostgreSQL's pid file names no process"))?;
        let nats_url = nats.url();
        let client = async_nats::connect(&nats_url).await.doing("connecting to NATS")?;
        Ok(Self {
            admin: connect(&url).await?,
            streams: async_nats::jetstream::new(client),
            nats_url,
            url,
            postmaster_pid,
            nats_pid: machine::child_named("nats-server")
                .ok_or_else(|| Failure::new("the NATS server is not among the child processes"))?,
            disk: Mutex::new(disk),
            _postgres: postgres,
            _nats: nats,
        })
    }

    /// The database's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection for what is not measured.
    pub(crate) fn admin(&self) -> &Client {
        &self.admin
    }

    /// Samples how many durable page writes a second the disk under PostgreSQL's data makes now.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn sample_disk(&self) -> Result<()> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.sample(Duration::from_millis(200))
    }

    /// Durable page writes a second, of all samples so far.
    pub(crate) fn disk_rate(&self) -> DiskRate {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.per_s()
    }

    /// A new connection.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn connect(&self) -> Result<Client> {
        connect(&self.url).await
    }

    /// Deletes the stream with all it has and makes it anew: on files, one replica, deduplicating.
    ///
    /// # Errors
    /// Those of the broker.
    pub(crate) async fn fresh_stream(&self) -> Result<StreamTarget> {
        self.bounded_stream(-1).await
    }

    /// As [`Ground::fresh_stream`], and the stream drops its oldest messages above so many bytes
    /// (-1: none).
    ///
    /// # Errors
    /// Those of the broker.
    pub(crate) async fn bounded_stream(&self, bytes_max: i64) -> Result<StreamTarget> {
        // It is not there the first time.
        let _ = self.streams.delete_stream(STREAM).await;
        self.streams
            .create_stream(Config {
                name: STREAM.to_owned(),
                subjects: vec![format!("{STREAM}.>")],
                storage: StorageType::File,
                max_bytes: bytes_max,
                ..Config::default()
            })
            .await
            .doing("creating the stream")?;
        let address = format!("{}/{STREAM}", self.nats_url);
        StreamTarget::connect(&self.nats_url, address, STREAM).await
    }

    /// How many messages the stream has.
    ///
    /// # Errors
    /// Those of the broker.
    pub(crate) async fn stream_messages(&self) -> Result<u64> {
        let stream = self.streams.get_stream(STREAM).await.doing("reading the stream")?;
        Ok(stream.cached_info().state.messages)
    }

    /// The state of the counters now, to be given to [`Ground::since`].
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn mark(&self) -> Result<Mark> {
        let wal_bytes = self.wal_bytes().await?;
        Ok(Mark { wal_bytes, cpu: self.cpu(), start: Instant::now() })
    }

    /// What was taken from `mark` until now, in which `count` things were done, the last at `end`.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn since(&self, mark: &Mark, count: u64, end: Instant) -> Result<Run> {
        let cpu = self.cpu().since(mark.cpu);
        let wal_bytes = self.wal_bytes().await?.saturating_sub(mark.wal_bytes);
        Ok(Run { count, took: end.duration_since(mark.start), cpu, wal_bytes })
    }

    fn cpu(&self) -> Cpu {
        Cpu::now(self.postmaster_pid, self.nats_pid)
    }

    async fn wal_bytes(&self) -> Result<u64> {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let row = self.admin.query_one(sql, &[]).await.doing("reading the log's position")?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }
}

/// The counters at one moment.
#[derive(Debug)]
pub(crate) struct Mark {
    cpu: Cpu,
    wal_bytes: u64,
    /// When it was taken.
    pub(crate) start: Instant,
}

fn start_servers() -> Result<(Postgres, Nats)> {
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let postgres = Postgres::start_with(PostgresConfig {
        settings: settings.to_vec(),
        ..PostgresConfig::default()
    })
    .doing("starting a private PostgreSQL")?;
    let nats = Nats::start().doing("starting a private NATS server")?;
    Ok((postgres, nats))
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.doing("connecting to PostgreSQL")?;
    // It ends with its client; a failure reaches whoever waits for an answer.
    tokio::spawn(connection);
    Ok(client)
}
