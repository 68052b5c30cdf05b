//! A shop with an outbox in a folder of its own, and the few steps that most tests begin with.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use sendoff_core::lane::Lane;
use sendoff_core::store::{
    Ask, LaneLease, LaneLook, LeaseGrant, LeaseRequest, Look, OutboxDesk, OutboxStore, Outcome,
    RelayId, Row, Settled, Sight, Verdict,
};
use sendoff_core::{Message, Outbox};
use sendoff_stores::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine; nothing waits for its end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Shop {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) store: SqliteStore,
}

impl Shop {
    /// A migrated store in a new file.
    pub(crate) async fn open() -> Self {
        Self::with(SqliteOptions::default()).await
    }

    pub(crate) async fn with(options: SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let options = SqliteOptions { create: true, ..options };
        let store = SqliteStore::open(&path, options).unwrap();
        store.migrate().await.unwrap();
        Self { folder, path, store }
    }

    /// A connection as a service has it.
    pub(crate) fn connection(&self) -> Connection {
        connection(&self.path)
    }

    pub(crate) async fn send(&self, messages: &[Message]) {
        self.store.send_all(messages).await.unwrap();
    }

    pub(crate) async fn lease(&self, relay: &RelayId, ttl: Duration) -> LeaseGrant {
        self.store.lease(&request(relay, ttl, Ask::Share)).await.unwrap()
    }

    /// Takes the lane and gives the epoch.
    pub(crate) async fn take(&self, relay: &RelayId) -> i64 {
        self.lease(relay, PATIENCE).await.lanes[0].epoch
    }

    /// Everything that is due.
    pub(crate) async fn look(&self) -> Sight {
        self.store.look(&everything()).await.unwrap()
    }

    pub(crate) async fn rows(&self) -> Vec<Row> {
        self.look().await.rows
    }

    pub(crate) async fn settle(
        &self,
        relay: &RelayId,
        epoch: i64,
        row: &Row,
        outcome: Outcome,
    ) -> Settled {
        self.store.settle(relay, &[verdict(epoch, row, outcome)]).await.unwrap()
    }
}

pub(crate) fn connection(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection
}

pub(crate) fn request(relay: &RelayId, ttl: Duration, ask: Ask) -> LeaseRequest {
    LeaseRequest {
        relay: relay.clone(),
        target: None,
        ttl,
        keep: Vec::new(),
        release: Vec::new(),
        ask,
    }
}

pub(crate) fn release(relay: &RelayId, lease: LaneLease) -> LeaseRequest {
    LeaseRequest { release: vec![lease], ..request(relay, PATIENCE, Ask::Leave) }
}

pub(crate) fn everything() -> Look {
    Look {
        reading: sendoff_core::store::Reading::Lanes,
        lanes: vec![LaneLook { lane: Lane(0), after: 0 }],
        ready: true,
        waiting: true,
        background: false,
        known: Vec::new(),
        rows_max: 10_000,
        lane_rows_max: 10_000,
        bytes_max: 64 << 20,
    }
}

pub(crate) fn verdict(epoch: i64, row: &Row, outcome: Outcome) -> Verdict {
    Verdict { seq: row.seq, lane: row.lane, epoch, key: row.key.clone(), outcome }
}

pub(crate) fn message(id: &str) -> Message {
    Outbox::new("shop")
        .message("orders.placed")
        .id(id)
        .body(format!("body of {id}"))
        .build()
        .unwrap()
}

pub(crate) fn keyed(id: &str, key: &str) -> Message {
    Outbox::new("shop").message("orders.placed").id(id).key(key).build().unwrap()
}

pub(crate) fn ids(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| content(row).id().to_owned()).collect()
}

pub(crate) fn content(row: &Row) -> &Message {
    match &row.content {
        sendoff_core::store::Content::Message(message) => message,
        other => panic!("row {} is {other:?}", row.seq),
    }
}

/// Waits until it is so, and fails after [`PATIENCE`].
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
