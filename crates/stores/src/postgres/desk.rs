//! The operator's side: look and mend.

use async_trait::async_trait;
use sendoff_core::message::Headers;
use sendoff_core::store::{
    Holder, Mended, OutboxDesk, Place, QuarantinedMessage, Schema, Standing, Stats, Which,
};
use sendoff_core::time::Timestamp;
use sendoff_core::{Message, Result};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::pool::Checkout;
use super::send::insert_all;
use super::statement::Whole;
use super::store::PostgresStore;
use super::wire::{Json, Time};
use super::{schema, sql};

#[async_trait]
impl OutboxDesk for PostgresStore {
    async fn migrate(&self) -> Result<Schema> {
        let migrated = schema::migrate(&self.desk, self.connector.address());
        self.desk.bounded("migrating the schema", migrated).await
    }

    async fn schema(&self) -> Result<Schema> {
        let read = schema::schema(&self.desk);
        self.desk.bounded("reading the schema version", read).await
    }

    async fn send_all(&self, messages: &[Message]) -> Result<()> {
        const DOING: &str = "sending messages";
        let sent = async {
            let mut checkout = self.desk.checkout(DOING).await?;
            let notify = sql::notify(checkout.schema());
            if let Err(error) = send_all(&mut checkout, messages).await {
                return Err(checkout.failed(error));
            }
            self.connector.warn_of_weak_commits();
            // After the commit, as the waker does. It is a hint: what was sent is sent.
            if !self.connector.options().listen {
                checkout.keep();
            } else if let Err(error) = checkout.client().batch_execute(&notify).await {
                tracing::debug!(%error, "a wake-up was not sent; polling goes on");
            } else {
                checkout.keep();
            }
            Ok(())
        };
        self.desk.bounded(DOING, sent).await
    }

    async fn stats(&self) -> Result<Stats> {
        let rows = self.read("counting messages", sql::STATS, &[]).await?;
        Ok(rows.first().map(stats).unwrap_or_default())
    }

    async fn find(&self, id: &str, source: Option<&str>) -> Result<Vec<Standing>> {
        let rows = self.read("finding a message", sql::FIND, &[&id, &source]).await?;
        Ok(rows.iter().map(standing).collect())
    }

    async fn quarantined(&self, after_seq: i64, rows_max: u32) -> Result<Vec<QuarantinedMessage>> {
        let params: [&(dyn ToSql + Sync); 2] = [&after_seq, &i64::from(rows_max)];
        let rows = self.read("reading the quarantine", sql::QUARANTINED, &params).await?;
        Ok(rows.iter().map(quarantined).collect())
    }

    async fn holders(&self, rows_max: u32) -> Result<Vec<Holder>> {
        let rows = self.read("reading what holds", sql::HOLDERS, &[&i64::from(rows_max)]).await?;
        Ok(rows.iter().map(holder).collect())
    }

    async fn requeue(&self, which: &Which) -> Result<Mended> {
        const DOING: &str = "requeueing messages";
        let requeued = async {
            let mut checkout = self.desk.checkout(DOING).await?;
            let statement = checkout.statement(sql::REQUEUE).await?;
            let (id, source, reason) = chosen(which);
            let params: [&(dyn ToSql + Sync); 3] = [&id, &source, &reason];
            let requeued = checkout.alone(statement.execute(checkout.client(), &params)).await;
            let messages = requeued.map_err(|error| checkout.failed(error))?;
            checkout.keep();
            Ok(Mended { messages, released: 0 })
        };
        self.desk.bounded(DOING, requeued).await
    }

    async fn discard(&self, which: &Which) -> Result<Mended> {
        const DOING: &str = "discarding messages";
        let discarded = async {
            let mut checkout = self.desk.checkout(DOING).await?;
            let mended = match discard(&mut checkout, which).await {
                Ok(mended) => mended,
                Err(error) => return Err(checkout.failed(error)),
            };
            checkout.keep();
            Ok(mended)
        };
        self.desk.bounded(DOING, discarded).await
    }
}

impl PostgresStore {
    pub(super) async fn read(
        &self,
        operation: &'static str,
        statement: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let read = async {
            let mut checkout = self.desk.checkout(operation).await?;
            let rows = checkout.query(statement, params).await?;
            checkout.keep();
            Ok(rows)
        };
        self.desk.bounded(operation, read).await
    }
}

async fn send_all(
    checkout: &mut Checkout<'_>,
    messages: &[Message],
) -> std::result::Result<(), tokio_postgres::Error> {
    let schema = checkout.schema().clone();
    let transaction = checkout.transaction().await?;
    insert_all(&transaction, &schema, messages).await?;
    transaction.commit().await
}

async fn discard(
    checkout: &mut Checkout<'_>,
    which: &Which,
) -> std::result::Result<Mended, tokio_postgres::Error> {
    let (id, source, reason) = chosen(which);
    let [discard, count_stuck, promote] = [sql::DISCARD, sql::COUNT_STUCK, sql::PROMOTE]
        .map(|template| Whole::new(checkout.schema().sql(template)));
    let transaction = checkout.transaction().await?;
    let client = transaction.client();
    let rows = discard.query(client, &[&id, &source, &reason]).await?;
    let mut lanes: Vec<i16> = Vec::new();
    let mut keys: Vec<&str> = Vec::new();
    for row in &rows {
        if let Some(key) = row.get(1) {
            lanes.push(row.get(0));
            keys.push(key);
        }
    }
    let stuck = count_stuck.query(client, &[&lanes, &keys]).await?;
    let released: i64 = stuck.first().map_or(0, |row| row.get(0));
    promote.query(client, &[&lanes, &keys]).await?;
    transaction.commit().await?;
    Ok(Mended {
        messages: u64::try_from(rows.len()).unwrap_or(u64::MAX),
        released: u64::try_from(released).unwrap_or(0),
    })
}

fn chosen(which: &Which) -> (Option<&str>, Option<&str>, Option<&'static str>) {
    match which {
        Which::Id { id, source } => (Some(id), source.as_deref(), None),
        Which::Reason(reason) => (None, None, Some(reason.as_str())),
        Which::All => (None, None, None),
    }
}

pub(super) fn count(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

pub(super) fn time(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<_, Option<Time>>(column).map(|Time(time)| time)
}

fn stats(row: &Row) -> Stats {
    Stats {
        pending: count(row, 0),
        due: count(row, 1),
        retrying: count(row, 2),
        postponed: count(row, 3),
        held: count(row, 4),
        paused: count(row, 5),
        quarantined: count(row, 6),
        oldest_due_ms: row.get::<_, Option<i64>>(7).map(|age| u64::try_from(age).unwrap_or(0)),
        published: count(row, 8),
        lanes: count(row, 9),
        lanes_leased: count(row, 10),
        relays: count(row, 11),
    }
}

pub(super) fn standing(row: &Row) -> Standing {
    let place = match row.get::<_, &str>(14) {
        "gone" => Place::Gone,
        "quarantined" => Place::Quarantined,
        "held" => Place::Held,
        "paused" => Place::Paused,
        "postponed" => Place::Postponed,
        "retrying" => Place::Retrying,
        "due_later" => Place::DueLater,
        _ => Place::Ready,
    };
    Standing {
        id: row.get(0),
        source: row.get(1),
        place,
        topic: row.get::<_, Option<String>>(4).unwrap_or_default(),
        key: row.get(5),
        seq: row.get(3),
        lane: row.get::<_, Option<i16>>(6).and_then(|lane| u16::try_from(lane).ok()),
        body_bytes: row.get::<_, Option<i64>>(7).and_then(|bytes| u64::try_from(bytes).ok()),
        sent_at: time(row, 8).or_else(|| time(row, 2)),
        due_at: time(row, 9),
        retry_at: time(row, 10),
        attempts: row
            .get::<_, Option<i32>>(11)
            .and_then(|attempts| u32::try_from(attempts).ok())
            .unwrap_or(0),
        last_error: row.get(12),
        owner: row.get(13),
        held_behind: row.get(15),
    }
}

fn holder(row: &Row) -> Holder {
    Holder {
        seq: row.get(0),
        id: row.get(1),
        source: row.get(2),
        topic: row.get(3),
        key: row.get(4),
        place: if row.get(5) { Place::Quarantined } else { Place::Retrying },
        attempts: u32::try_from(row.get::<_, i32>(6)).unwrap_or(0),
        retry_at: time(row, 7),
        error: row.get(8),
        holds: count(row, 9),
    }
}

fn quarantined(row: &Row) -> QuarantinedMessage {
    let headers = row
        .try_get::<_, Json<&[u8]>>(5)
        .ok()
        .and_then(|Json(text)| Headers::from_json(text).ok())
        .unwrap_or_default();
    QuarantinedMessage {
        seq: row.get(0),
        id: row.get(1),
        source: row.get(2),
        topic: row.get(3),
        key: row.get(4),
        headers,
        body_bytes: count(row, 6),
        reason: row.get(7),
        error: row.get(8),
        attempts: u32::try_from(row.get::<_, i32>(9)).unwrap_or(0),
        quarantined_at: time(row, 10).unwrap_or(Timestamp::UNIX_EPOCH),
        holds: count(row, 11),
    }
}
