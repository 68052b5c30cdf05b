//! The database: the outbox, and the business's own tables beside it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::OutboxDesk;
use sendoff_conformance::servers::Postgres;
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::verdicts;
use crate::failed;
use crate::ledger::Committed;
use crate::order::Order;
use crate::writers::{Books, KEYS, key_name};

/// The business's own tables. `version` is the key's, counted under a lock on its `key_version`.
const POSTGRES_TABLES: &str = "
    CREATE TABLE orders (
        pos bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text NOT NULL UNIQUE, key text, version bigint NOT NULL,
        seed bigint NOT NULL, length int NOT NULL,
        UNIQUE (key, version));
    CREATE TABLE key_version (key text PRIMARY KEY, n bigint NOT NULL DEFAULT 0);";
const SQLITE_TABLES: &str = "
    CREATE TABLE orders (
        pos INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE, key TEXT, version INTEGER NOT NULL,
        seed INTEGER NOT NULL, length INTEGER NOT NULL);
    CREATE TABLE key_version (key TEXT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0);";
const COMMITTED: &str =
    "SELECT pos, id, key, version, seed, length FROM orders WHERE pos > $1 ORDER BY pos";

/// The database of a run.
pub(super) struct Store {
    kind: Kind,
    desk: Arc<dyn OutboxDesk>,
    seen: i64,
}

enum Kind {
    Postgres { server: Box<Postgres>, url: String },
    Sqlite { path: PathBuf },
}

impl Store {
    pub(super) async fn postgres() -> io::Result<Self> {
        let server = Postgres::start()?;
        let url = server.create_database("shop")?;
        let desk = PostgresStore::new(&url, PostgresOptions::default())
            .map_err(|error| failed("opening the store", error))?;
        migrate(&desk).await?;
        server.execute(
            "shop",
            &format!("{POSTGRES_TABLES} {} {}", insert_keys(), verdicts::IN_POSTGRES),
        )?;
        Ok(Self {
            kind: Kind::Postgres { server: Box::new(server), url },
            desk: Arc::new(desk),
            seen: 0,
        })
    }

    pub(super) async fn sqlite(folder: &Path) -> io::Result<Self> {
        let path = folder.join("shop.db");
        let options = SqliteOptions { create: true, ..SqliteOptions::default() };
        let desk = SqliteStore::open(&path, options)
            .map_err(|error| failed("opening the store", error))?;
        migrate(&desk).await?;
        let doing = "making the orders";
        let connection = Connection::open(&path).map_err(|error| failed(doing, error))?;
        connection
            .execute_batch(&format!(
                "BEGIN; {SQLITE_TABLES} {} {} COMMIT",
                insert_keys(),
                verdicts::IN_SQLITE
            ))
            .map_err(|error| failed(doing, error))?;
        Ok(Self { kind: Kind::Sqlite { path }, desk: Arc::new(desk), seen: 0 })
    }

    pub(super) fn url(&self) -> String {
        match &self.kind {
            Kind::Postgres { url, .. } => url.clone(),
            Kind::Sqlite { path } => format!("sqlite:{}", path.display()),
        }
    }

    pub(super) fn books(&self) -> Books {
        match &self.kind {
            Kind::Postgres { url, .. } => Books::Postgres(url.clone()),
            Kind::Sqlite { path } => Books::Sqlite(path.clone()),
        }
    }

    pub(super) fn desk(&self) -> Arc<dyn OutboxDesk> {
        self.desk.clone()
    }

    pub(super) async fn committed(&mut self) -> io::Result<Vec<Committed>> {
        let rows = match &self.kind {
            Kind::Postgres { url, .. } => committed_in_postgres(url, self.seen)
                .await
                .map_err(|error| failed("reading the orders", error))?,
            Kind::Sqlite { path } => committed_in_sqlite(path, self.seen)
                .map_err(|error| failed("reading the orders", error))?,
        };
        let mut committed = Vec::with_capacity(rows.len());
        for row in rows {
            self.seen = row.pos;
            let id = Uuid::try_parse(&row.id).map_err(|error| failed("reading an id", error))?;
            committed.push(Committed {
                order: Order { id, key: row.key, seed: row.seed, length: row.length },
                version: row.version,
            });
        }
        Ok(committed)
    }

    pub(super) async fn foreign_verdicts(&self) -> io::Result<Vec<String>> {
        let doing = "reading whose verdicts were taken";
        match &self.kind {
            Kind::Postgres { url, .. } => {
                let rows = query(url, verdicts::FOREIGN, &[]).await;
                let rows = rows.map_err(|error| failed(doing, error))?;
                Ok(rows.iter().map(|row| row.get(0)).collect())
            }
            Kind::Sqlite { path } => {
                let words = || {
                    let connection = Connection::open(path)?;
                    let mut statement = connection.prepare(verdicts::FOREIGN)?;
                    let rows = statement.query_map([], |row| row.get(0))?;
                    rows.collect::<rusqlite::Result<Vec<String>>>()
                };
                words().map_err(|error| failed(doing, error))
            }
        }
    }

    pub(super) fn crash(&mut self, hard: bool, down: Duration) -> io::Result<()> {
        let Kind::Postgres { server, .. } = &mut self.kind else {
            return Err(io::Error::other("SQLite has no server to crash"));
        };
        if hard {
            server.kill_hard()?;
        } else {
            server.kill()?;
        }
        std::thread::sleep(down);
        server.restart()
    }
}

fn insert_keys() -> String {
    let rows: Vec<String> = (0..KEYS).map(|key| format!("('{}')", key_name(key))).collect();
    format!("INSERT INTO key_version (key) VALUES {};", rows.join(", "))
}

async fn migrate(desk: &dyn OutboxDesk) -> io::Result<()> {
    desk.migrate().await.map(drop).map_err(|error| failed("migrating the store", error))
}

struct Row {
    pos: i64,
    id: String,
    key: Option<String>,
    version: i64,
    seed: i64,
    length: i32,
}

async fn query(
    url: &str,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driving = tokio::spawn(connection);
    let rows = client.query(sql, params).await;
    driving.abort();
    rows
}

async fn committed_in_postgres(url: &str, after: i64) -> Result<Vec<Row>, tokio_postgres::Error> {
    let rows = query(url, COMMITTED, &[&after]).await?;
    Ok(rows
        .into_iter()
        .map(|row| Row {
            pos: row.get(0),
            id: row.get(1),
            key: row.get(2),
            version: row.get(3),
            seed: row.get(4),
            length: row.get(5),
        })
        .collect())
}

fn committed_in_sqlite(path: &Path, after: i64) -> rusqlite::Result<Vec<Row>> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(20))?;
    let mut statement = connection.prepare(COMMITTED)?;
    let rows = statement.query_map([after], |row| {
        Ok(Row {
            pos: row.get(0)?,
            id: row.get(1)?,
            key: row.get(2)?,
            version: row.get(3)?,
            seed: row.get(4)?,
            length: row.get(5)?,
        })
    })?;
    rows.collect()
}
