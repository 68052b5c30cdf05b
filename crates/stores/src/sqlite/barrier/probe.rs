//! A probe: a query, or a prefix of keys, that finds lost acknowledgements.
//!
//! A query runs on a connection of its own that can only read, for at most [`PROBE_TIME`]. What it finds is
//! acknowledged while it runs, a page in each transaction, so neither the rows nor the write lock are
//! held for long.

use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use sendoff_core::barrier::plain;
use sendoff_core::barrier::{
    Ack, AckedBatch, Answer, BarrierId, Json, KeyProbe, MemberName, Outcome, Probe, Refusal,
    RefusalCode,
};
use sendoff_core::{Error, ErrorKind, Result};
use tokio::sync::mpsc;

use super::blocking::now;
use crate::sqlite::error::Failure;
use crate::sqlite::file::Role;
use crate::sqlite::store::SqliteStore;
use crate::sqlite::worker::Worker;

/// For how long a probe may run: well under the relay's publish timeout.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// How many steps of SQLite's machine lie between two looks at the clock.
const STEPS_BETWEEN: i32 = 10_000;
/// How many rows are acknowledged at once.
const PAGE_ROWS: usize = 1_000;
const PROBING: &str = "running a barrier's probe";

impl SqliteStore {
    pub(super) async fn reconcile(&self, id: &BarrierId) -> Result<Answer<AckedBatch>> {
        let own = id.clone();
        let header = self.read_barrier(move |desk| now(plain::readable(desk, &own))).await?;
        match header.map(|header| header.probe) {
            None => Ok(Err(Refusal::not_found(id))),
            Some(Some(probe)) => self.probe(id, probe, false).await,
            Some(None) => Ok(Err(Refusal::new(
                RefusalCode::Invalid,
                format!("the barrier {id} was created without a probe"),
            ))),
        }
    }

    /// Acknowledges what is pending and found.
    pub(super) async fn probe(
        &self,
        id: &BarrierId,
        probe: Probe,
        at_deadline: bool,
    ) -> Result<Answer<AckedBatch>> {
        match probe {
            Probe::Sql(query) => self.probe_sql(id, query).await,
            Probe::Keys(prefix) => self.probe_keys(id, &prefix, at_deadline).await,
        }
    }

    async fn probe_sql(&self, id: &BarrierId, query: String) -> Result<Answer<AckedBatch>> {
        let (pages, mut found) = mpsc::channel::<Vec<Ack>>(1);
        let worker = Worker::start("probe", &self.file, Role::Probes)?;
        let running = worker.run(PROBING, move |session| {
            look(session.connection, &query, &pages, &session.file.address)
        });
        let taking = async {
            // It may find nothing: how the barrier stands is told all the same.
            let mut whole = self.take(id, Vec::new()).await?;
            while let Ok(whole) = &mut whole
                && let Some(acks) = found.recv().await
            {
                match self.take(id, acks).await? {
                    Ok(acked) => whole.join(acked),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Ok::<_, Error>(whole)
        };
        // Whoever still looks is told by the channel's end that nobody takes it.
        let (ran, taken) = futures_util::future::join(running, taking).await;
        let taken = taken?;
        if taken.is_ok() {
            ran?;
        }
        Ok(taken)
    }

    async fn probe_keys(
        &self,
        id: &BarrierId,
        prefix: &str,
        at_deadline: bool,
    ) -> Result<Answer<AckedBatch>> {
        KeyProbe::run(self.keys.as_ref(), id, prefix, at_deadline, |acks| self.take(id, acks)).await
    }

    async fn take(&self, id: &BarrierId, acks: Vec<Ack>) -> Result<Answer<AckedBatch>> {
        let id = id.clone();
        self.write_barrier(PROBING, move |desk| now(plain::ack_found(desk, &id, acks))).await
    }
}

/// Runs the query and hands its rows on.
fn look(
    connection: &Connection,
    query: &str,
    pages: &mpsc::Sender<Vec<Ack>>,
    address: &str,
) -> Result<(), Failure> {
    let until = Instant::now() + PROBE_TIME;
    connection.progress_handler(STEPS_BETWEEN, Some(move || Instant::now() >= until))?;
    let mut statement = connection.prepare(query)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Error::invalid(PROBING, "it has to be one query that only reads").into());
    }
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        if Instant::now() >= until {
            return Err(Error::new(ErrorKind::Timeout, PROBING)
                .subject(address)
                .detail(format!("it did not end within {PROBE_TIME:?}"))
                .into());
        }
        page.extend(ack(row, columns)?);
        if page.len() == PAGE_ROWS && pages.blocking_send(std::mem::take(&mut page)).is_err() {
            return Ok(());
        }
    }
    // Nobody takes it any more where the barrier has ended meanwhile.
    let _ = pages.blocking_send(page);
    Ok(())
}

/// A row of member, ok, error and result, of which only the first is needed. A row without a possible
/// name is passed over.
fn ack(row: &Row<'_>, columns: usize) -> Result<Option<Ack>, Failure> {
    let at = |column: usize| -> rusqlite::Result<ValueRef<'_>> {
        if column < columns { row.get_ref(column) } else { Ok(ValueRef::Null) }
    };
    let name = match at(0)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Null | ValueRef::Real(_) => return Ok(None),
    };
    let Ok(member) = MemberName::new(name) else { return Ok(None) };
    let failed = match at(1)? {
        ValueRef::Integer(number) => number == 0,
        ValueRef::Text(text) => matches!(text, b"false" | b"f" | b"0"),
        _ => false,
    };
    let mut outcome = if failed { Outcome::failed() } else { Outcome::ok() };
    if let Some(error) = text(at(2)?) {
        outcome = outcome.with_error(error);
    }
    if let Some(result) = text(at(3)?) {
        // Text that is no JSON is taken as a string.
        let result = Json::parse(result.as_str())
            .or_else(|_| Json::parse(serde_json::Value::from(result).to_string()))?;
        outcome = outcome.with_result(result);
    }
    Ok(Some(Ack { member, outcome }))
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}
