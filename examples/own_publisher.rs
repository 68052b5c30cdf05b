//! A target of your own: the accounts department takes messages into a table of its own database,
//! each of them once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, params};
use sendoff::publisher::{PublishClass, PublisherLimits};
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::OutboxDesk;
use sendoff::{Message, Outbox, PublishError, Publisher, Relay};

/// The target. `None` once it is closed.
#[derive(Debug)]
pub(crate) struct Accounts {
    address: String,
    database: Arc<Mutex<Option<Connection>>>,
}

impl Accounts {
    const BODY_BYTES_MAX: usize = 2 << 20;

    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(path)?;
        database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
             CREATE TABLE IF NOT EXISTS arrived (
                 dedup_id TEXT PRIMARY KEY, source TEXT, id TEXT, topic TEXT, key TEXT,
                 headers TEXT, body BLOB);",
        )?;
        let address = format!("accounts:{}", path.display());
        Ok(Self { address, database: Arc::new(Mutex::new(Some(database))) })
    }
}

#[async_trait]
impl Publisher for Accounts {
    fn address(&self) -> &str {
        &self.address
    }

    fn limits(&self) -> PublisherLimits {
        PublisherLimits { in_flight_max: 100, body_bytes_max: Self::BODY_BYTES_MAX }
    }

    fn check(&self, message: &Message) -> Result<(), PublishError> {
        if message.body().len() > Self::BODY_BYTES_MAX {
            return Err(PublishError::permanent("accounts takes no body over 2 MiB"));
        }
        Ok(())
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        self.check(message)?;
        let (database, message) = (Arc::clone(&self.database), message.clone());
        // It blocks. If this future is dropped meanwhile, the row may be there or not: the relay
        // publishes again, and the table keeps one row of an id.
        tokio::task::spawn_blocking(move || insert(&database, &message))
            .await
            .unwrap_or_else(|_| Err(PublishError::new(PublishClass::Lost, "the insert stopped")))
    }

    async fn close(&self) {
        self.database.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Confirmed is what the commit of this one statement has put on the disk.
fn insert(database: &Mutex<Option<Connection>>, message: &Message) -> Result<(), PublishError> {
    let database = database.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(database) = &*database else {
        return Err(PublishError::unreachable("the connection to accounts is closed"));
    };
    let row = params![
        message.dedup_id(),
        message.source(),
        message.id(),
        message.topic(),
        message.key(),
        message.headers().to_json(),
        &message.body()[..],
    ];
    database
        .prepare_cached("INSERT INTO arrived VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING")
        .and_then(|mut statement| statement.execute(row))
        .map(|_rows| ())
        .map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => {
                PublishError::permanent(error.to_string())
            }
            // Busy, full, read-only: the whole target's trouble, not this message's.
            _ => PublishError::unreachable(error.to_string()),
        })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (shop, accounts) = (folder.path().join("shop.db"), folder.path().join("accounts.db"));

    let options = SqliteOptions { create: true, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(&shop, options)?);
    store.migrate().await?;
    let outbox = Outbox::new("shop");
    let mut database = rusqlite::Connection::open(&shop)?;
    let transaction = database.transaction()?;
    for (order, item) in [("1", "a tent"), ("2", "a rope"), ("3", "a lamp")] {
        let placed = outbox.message("orders.placed").id(order).key("customer-7").body(item);
        outbox.send_blocking(&transaction, &placed.build()?)?;
    }
    transaction.commit()?;

    let target = Arc::new(Accounts::open(&accounts)?);
    // As if a relay had died after this publish and before it recorded it.
    let again = outbox.message("orders.placed").id("1").key("customer-7").body("a tent").build()?;
    target.publish(&again).await?;
    let relay = Relay::builder(store.clone(), target).build()?;
    let once = relay.run_once(store, std::future::pending()).await?;
    println!("settled: {}", once.tally.settled);

    let arrived = Connection::open(&accounts)?;
    let mut rows = arrived.prepare("SELECT dedup_id, body FROM arrived ORDER BY rowid")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        println!("{}: {}", row.get::<_, String>(0)?, String::from_utf8(row.get(1)?)?);
    }
    Ok(())
}
