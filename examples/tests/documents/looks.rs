//! Looks at what the programs have done: in the database, and in the streams.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt;
use sendoff::barrier::{BarrierDesk, BarrierId, Page, Status, Which};
use sendoff::nats::read_delivery;
use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::store::OutboxDesk;
use sendoff::time::Timestamp;
use tokio_postgres::{Client, NoTls, Row};

/// The advisory lock of those who are held.
const HOLD: u32 = 40_771;

/// The service's database.
pub(crate) struct Documents {
    client: Client,
    store: PostgresStore,
}

/// A document's row.
pub(crate) struct Document {
    pub(crate) answered_by: Option<String>,
    pub(crate) state: String,
    pub(crate) note: Option<String>,
}

/// A row of what the continuation writes.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) done: i64,
    pub(crate) failed: i64,
    pub(crate) missing: i64,
    pub(crate) written_at: Timestamp,
}

impl Documents {
    pub(crate) async fn of(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { client, store: PostgresStore::new(url, PostgresOptions::default()).unwrap() }
    }

    async fn rows(&self, query: &str) -> Vec<Row> {
        self.client.query(query, &[]).await.unwrap()
    }

    /// Holds whoever does `what` in the midst of his transaction, until it is released.
    pub(crate) async fn hold(&self, what: &str) {
        let hold = format!(
            "SELECT pg_advisory_lock({HOLD});
             CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN PERFORM pg_advisory_xact_lock({HOLD}); RETURN NULL; END $$;
             CREATE TRIGGER hold AFTER {what} EXECUTE FUNCTION hold();"
        );
        self.client.batch_execute(&hold).await.unwrap();
    }

    /// Whether somebody is held.
    pub(crate) async fn is_holding(&self) -> bool {
        let query = format!(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = {HOLD} AND NOT granted"
        );
        !self.rows(&query).await.is_empty()
    }

    /// Lets everybody go on, and holds nobody any more.
    pub(crate) async fn release(&self) {
        let release = format!("SELECT pg_advisory_unlock({HOLD}); DROP FUNCTION hold() CASCADE");
        self.client.batch_execute(&release).await.unwrap();
    }

    /// How many documents, messages for them and barriers there are, at one moment.
    pub(crate) async fn sent(&self) -> (i64, i64, i64) {
        let rows = self
            .rows(
                "SELECT (SELECT count(*) FROM documents),
                        (SELECT count(*) FROM sendoff.outbox WHERE topic = 'documents.sent'),
                        (SELECT count(*) FROM sendoff.barrier)",
            )
            .await;
        (rows[0].get(0), rows[0].get(1), rows[0].get(2))
    }

    /// How many documents were answered.
    pub(crate) async fn answered(&self) -> i64 {
        self.rows("SELECT count(answered_by) FROM documents").await[0].get(0)
    }

    /// How many messages have not left yet.
    pub(crate) async fn waiting(&self) -> u64 {
        self.store.stats().await.unwrap().pending
    }

    pub(crate) async fn summaries(&self) -> Vec<Summary> {
        let query = "SELECT done, failed, missing, (extract(epoch FROM written_at) * 1e6)::bigint
                       FROM summaries";
        let summary = |row: &Row| Summary {
            done: row.get(0),
            failed: row.get(1),
            missing: row.get(2),
            written_at: Timestamp::from_microsecond(row.get(3)).unwrap(),
        };
        self.rows(query).await.iter().map(summary).collect()
    }

    pub(crate) async fn states(&self) -> BTreeMap<String, Document> {
        let document = |row: &Row| {
            let document =
                Document { answered_by: row.get(1), state: row.get(2), note: row.get(3) };
            (row.get(0), document)
        };
        let query = "SELECT name, answered_by, state, note FROM documents";
        self.rows(query).await.iter().map(document).collect()
    }

    /// The names that were refused, with the reasons.
    pub(crate) async fn refused(&self) -> BTreeMap<String, String> {
        let rows = self.rows("SELECT name, reason FROM refused").await;
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    pub(crate) async fn status(&self, batch: &str) -> Status {
        let id = BarrierId::new(batch).unwrap();
        self.store.barrier_status(&id).await.unwrap().unwrap()
    }

    /// By which channel each resolved member was acknowledged, as the barrier has it.
    pub(crate) async fn channels(&self, batch: &str) -> BTreeMap<String, String> {
        let id = BarrierId::new(batch).unwrap();
        let mut page = Page { id, which: Which::Resolved, after: None, limit: 1_000, only: None };
        let mut channels = BTreeMap::new();
        loop {
            let outcomes = self.store.barrier_outcomes(&page).await.unwrap().unwrap();
            channels.extend(
                outcomes.members.into_iter().map(|one| (one.member.to_string(), one.channel)),
            );
            page.after = outcomes.next_after;
            if page.after.is_none() {
                return channels;
            }
        }
    }
}

/// The streams.
pub(crate) struct Streams(Context);

impl Streams {
    pub(crate) async fn at(url: &str) -> Self {
        Self(jetstream::new(async_nats::connect(url).await.unwrap()))
    }

    /// The ids of the messages on a subject.
    pub(crate) async fn ids(&self, subject: &str) -> BTreeSet<String> {
        let config = pull::Config { filter_subject: subject.to_owned(), ..pull::Config::default() };
        let consumer = self.0.create_consumer_on_stream(config, "WORK").await.unwrap();
        // So many are there; to ask for more would be to wait for them.
        let count = usize::try_from(consumer.cached_info().num_pending).unwrap();
        let mut messages = consumer.fetch().max_messages(count).messages().await.unwrap();
        let mut ids = BTreeSet::new();
        while let Some(message) = messages.next().await {
            ids.insert(read_delivery(&message.unwrap()).unwrap().dedup_id());
        }
        ids
    }

    /// How many answers the partner has given over NATS.
    pub(crate) async fn answers(&self) -> u64 {
        let stream = self.0.get_stream("ANSWERS").await.unwrap();
        stream.get_info().await.unwrap().state.messages
    }

    /// Makes the stream forget how far a reader is.
    pub(crate) async fn forget(&self, consumer: &str) {
        let stream = self.0.get_stream("WORK").await.unwrap();
        stream.delete_consumer(consumer).await.unwrap();
    }

    /// Whether a reader has acknowledged all that there is for it, and something at all.
    pub(crate) async fn has_read(&self, consumer: &str) -> bool {
        let stream = self.0.get_stream("WORK").await.unwrap();
        stream.consumer_info(consumer).await.is_ok_and(|info| {
            info.delivered.consumer_sequence > 0
                && info.num_pending == 0
                && info.num_ack_pending == 0
        })
    }
}
