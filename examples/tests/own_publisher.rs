//! The suite of every publisher on the example of a publisher of one's own.
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

#[path = "../own_publisher.rs"]
#[expect(dead_code, reason = "its `main` is run by the other tests")]
mod own_publisher;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use sendoff::{Headers, Message, Publisher, Result};
use sendoff_conformance::publisher::{Arrival, Facts, Subject};

use own_publisher::Accounts;

struct Own(tempfile::TempDir);

impl Own {
    fn path(&self) -> PathBuf {
        self.0.path().join("accounts.db")
    }
}

#[async_trait]
impl Subject for Own {
    const FACTS: Facts =
        Facts { deduplicates: true, body_bytes_max: Some(2 << 20), exclusive: false };

    async fn empty() -> Result<Self> {
        Ok(Self(tempfile::tempdir().unwrap()))
    }

    async fn publisher(&self) -> Result<Arc<dyn Publisher>> {
        Ok(Arc::new(Accounts::open(&self.path()).unwrap()))
    }

    async fn arrived(&self) -> Result<Vec<Arrival>> {
        let database = Connection::open(self.path()).unwrap();
        let table = database
            .query_row("SELECT 1 FROM sqlite_master WHERE name = 'arrived'", [], |_| Ok(()))
            .optional()
            .unwrap();
        if table.is_none() {
            return Ok(Vec::new());
        }
        let mut rows = database.prepare("SELECT * FROM arrived ORDER BY rowid").unwrap();
        let rows = rows.query_map([], |row| {
            let mut message = Message::builder(row.get::<_, String>(1)?, row.get::<_, String>(3)?)
                .id(row.get::<_, String>(2)?)
                .headers(Headers::from_json(row.get_ref(5)?.as_str()?.as_bytes()).unwrap())
                .body(row.get::<_, Vec<u8>>(6)?);
            if let Some(key) = row.get::<_, Option<String>>(4)? {
                message = message.key(key);
            }
            Ok(Arrival { dedup_id: row.get(0)?, message: message.build().unwrap() })
        });
        Ok(rows.unwrap().map(std::result::Result::unwrap).collect())
    }
}

mod own {
    use super::Own;
    sendoff_conformance::publisher_suite!(Own);
}
