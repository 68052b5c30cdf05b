//! What committed: read from the tables, for `sendoff verify`.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sendoff::Result;

use super::order::Order;
use super::writer::{failed, read_order};
use super::{SOURCE, sql};

const DOING: &str = "reading the committed orders";

/// Where in the outbox a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InOutbox {
    /// To be published.
    Pending,
    /// Behind an earlier one of its key.
    Held,
    /// In quarantine.
    Quarantined,
}

/// How a batch stands, read from its barrier's rows.
#[derive(Debug)]
pub(crate) struct BatchState {
    /// Its id.
    pub(crate) id: String,
    /// How many documents were sent.
    pub(crate) documents: u32,
    /// The barrier's state.
    pub(crate) state: String,
    /// Whether its continuation stands in the outbox.
    pub(crate) continuation_waits: bool,
    /// Each document with its outcome (`None`: none yet) and whether it was given up.
    pub(crate) members: Vec<(String, Option<bool>, bool)>,
}

/// The shop's database, read only as far as its tables go.
#[derive(Debug)]
pub(crate) struct Truth(Connection);

impl Truth {
    /// Opens the database, also right after a crash: SQLite then recovers its log first, for which
    /// it has to be opened for writing.
    ///
    /// # Errors
    /// It is not there, or no database.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags)
            .and_then(|connection| {
                connection.busy_timeout(Duration::from_secs(5))?;
                Ok(Self(connection))
            })
            .map_err(|error| failed(DOING, error).subject(path.display().to_string()))
    }

    /// Orders and outbox at one moment: `each` takes the orders in the order of their commits, and
    /// what is given are the messages that the outbox holds, by id.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn snapshot(
        &mut self,
        each: impl FnMut(Order),
    ) -> Result<HashMap<String, InOutbox>> {
        let failed = |error| failed(DOING, error);
        let transaction = self.0.transaction().map_err(failed)?;
        read_after(&transaction, 0, each).map_err(failed)?;
        let outbox = read_outbox(&transaction).map_err(failed)?;
        transaction.finish().map_err(failed)?;
        Ok(outbox)
    }

    /// The batches at one moment.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn batches(&mut self) -> Result<Vec<BatchState>> {
        let failed = |error| failed(DOING, error);
        let transaction = self.0.transaction().map_err(failed)?;
        let batches = read_batches(&transaction).map_err(failed)?;
        transaction.finish().map_err(failed)?;
        Ok(batches)
    }

    /// Orders that committed after order `number`.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn orders_after(&self, number: i64, each: impl FnMut(Order)) -> Result<()> {
        read_after(&self.0, number, each).map_err(|error| failed(DOING, error))
    }
}

fn read_after(
    connection: &Connection,
    number: i64,
    mut each: impl FnMut(Order),
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(sql::ORDERS_AFTER)?;
    for order in select.query_map([number], read_order)? {
        each(order?);
    }
    Ok(())
}

fn read_batches(connection: &Connection) -> rusqlite::Result<Vec<BatchState>> {
    // A folder of an earlier version has none.
    let is_there = connection.table_exists(None, "batches")?;
    if !is_there {
        return Ok(Vec::new());
    }
    let mut members = connection.prepare(sql::BATCH_MEMBERS)?;
    let mut waits = connection.prepare(sql::IS_IN_OUTBOX)?;
    let mut select = connection.prepare(sql::BATCHES)?;
    let mut rows = select.query([])?;
    let mut batches = Vec::new();
    while let Some(row) = rows.next()? {
        let no: i64 = row.get(2)?;
        let continuation: Option<String> = row.get(4)?;
        let continuation_waits = match continuation {
            Some(id) => waits.query_row([id], |row| row.get::<_, i64>(0))? > 0,
            None => false,
        };
        batches.push(BatchState {
            id: row.get(0)?,
            documents: row.get(1)?,
            state: row.get(3)?,
            continuation_waits,
            members: members
                .query_map([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?,
        });
    }
    Ok(batches)
}

fn read_outbox(connection: &Connection) -> rusqlite::Result<HashMap<String, InOutbox>> {
    let mut select = connection.prepare(sql::OUTBOX_IDS)?;
    let rows = select.query_map([SOURCE], |row| {
        let place = match (row.get(1)?, row.get(2)?) {
            (_, true) => InOutbox::Quarantined,
            (true, false) => InOutbox::Held,
            (false, false) => InOutbox::Pending,
        };
        Ok((row.get(0)?, place))
    })?;
    rows.collect()
}
