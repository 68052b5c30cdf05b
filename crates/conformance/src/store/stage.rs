//! What the cases act with: a migrated store, and relays reduced to their three verbs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::memory::PlainRow;
use sendoff_core::store::{
    Ask, Content, LaneLease, LaneLook, LeaseGrant, LeaseRequest, Look, Outcome, Place,
    QuarantineReason, RelayId, Row, Settled, Sight, Standing, Verdict,
};
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, Message, Result};

use super::subject::{Store, Subject};

/// Longer than any case takes.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// Short enough to sit out.
pub(crate) const SHORT: Duration = Duration::from_millis(20);
/// The source of the suite's messages.
pub(crate) const SOURCE: &str = "suite";
/// How long a case waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A migrated store on data of its own.
pub(crate) struct Stage<S> {
    pub(crate) subject: S,
    pub(crate) store: Arc<dyn Store>,
}

impl<S: Subject> Stage<S> {
    pub(crate) async fn new() -> Result<Self> {
        let subject = S::empty().await?;
        let store = subject.open().await?;
        store.migrate().await?;
        Ok(Self { subject, store })
    }

    /// Commits messages in one transaction of a caller's.
    pub(crate) async fn send(&self, messages: &[Message]) -> Result<()> {
        let mut transaction = self.subject.begin().await?;
        transaction.send(messages).await?;
        transaction.commit().await
    }

    /// Commits messages with these ids and one key.
    pub(crate) async fn send_keyed(&self, key: &str, ids: &[&str]) -> Result<()> {
        let messages =
            ids.iter().map(|id| message(id).key(key).build()).collect::<Result<Vec<_>>>()?;
        self.send(&messages).await
    }

    /// A relay on a handle of its own, which holds nothing yet.
    pub(crate) async fn relay(&self) -> Result<Owner> {
        Ok(Owner { store: self.subject.open().await?, id: RelayId::new(), lanes: Vec::new() })
    }

    /// A relay that holds what it got, for long.
    pub(crate) async fn owner(&self) -> Result<Owner> {
        let mut owner = self.relay().await?;
        owner.lease(LONG).await?;
        Ok(owner)
    }

    /// Lets the relay's leases lapse, and its own row with them.
    pub(crate) async fn lapse(&self, owner: &Owner) -> Result<()> {
        let request = owner.request(SHORT, Ask::Nothing);
        owner.store.lease(&request).await?;
        self.subject.pass(SHORT * 2).await;
        Ok(())
    }

    /// Waits, letting the database's time pass, until `found` gives something.
    ///
    /// # Panics
    /// Where it does not come in time.
    pub(crate) async fn eventually<T, F>(
        &self,
        what: &str,
        mut found: impl FnMut() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let begun = std::time::Instant::now();
        loop {
            if let Some(found) = found().await? {
                return Ok(found);
            }
            assert!(begun.elapsed() < PATIENCE, "it did not come: {what}");
            self.subject.pass(SHORT / 4).await;
        }
    }

    /// A time by the database's clock.
    pub(crate) async fn time_in(&self, wait: Duration) -> Result<Timestamp> {
        let now = self.subject.now().await?;
        now.checked_add(wait).map_err(|error| Error::invalid("making a time", error.to_string()))
    }

    /// Where the one message with this id is; `None` where it is nowhere.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Standing>> {
        let mut found = self.store.find(id, None).await?;
        assert!(found.len() < 2, "{id} is in two places");
        Ok(found.pop())
    }

    pub(crate) async fn place(&self, id: &str) -> Result<Option<Place>> {
        Ok(self.find(id).await?.map(|standing| standing.place))
    }
}

/// Begins a message of the suite.
pub(crate) fn message(id: &str) -> sendoff_core::message::MessageBuilder {
    Message::builder(SOURCE, "suite.topic").id(id)
}

/// A relay, reduced to its verbs.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) id: RelayId,
    pub(crate) lanes: Vec<LaneLease>,
}

impl Owner {
    pub(crate) fn request(&self, ttl: Duration, ask: Ask) -> LeaseRequest {
        LeaseRequest {
            relay: self.id.clone(),
            target: None,
            ttl,
            keep: self.lanes.clone(),
            release: Vec::new(),
            ask,
        }
    }

    /// Renews what it has and takes up to its share.
    pub(crate) async fn lease(&mut self, ttl: Duration) -> Result<LeaseGrant> {
        let grant = self.store.lease(&self.request(ttl, Ask::Share)).await?;
        self.lanes.clone_from(&grant.lanes);
        Ok(grant)
    }

    /// Gives back lanes beyond `keep` of them, and renews the rest.
    pub(crate) async fn shrink_to(&mut self, keep: usize) -> Result<LeaseGrant> {
        let mut request = self.request(LONG, Ask::Share);
        request.release = request.keep.split_off(keep.min(request.keep.len()));
        let grant = self.store.lease(&request).await?;
        self.lanes.clone_from(&grant.lanes);
        Ok(grant)
    }

    /// A look at everything that is due in its lanes.
    pub(crate) fn look_at_all(&self) -> Look {
        Look {
            reading: sendoff_core::store::Reading::Lanes,
            lanes: self.lanes.iter().map(|lease| LaneLook { lane: lease.lane, after: 0 }).collect(),
            ready: true,
            waiting: true,
            background: false,
            known: Vec::new(),
            rows_max: 1_000,
            lane_rows_max: 1_000,
            bytes_max: 64 << 20,
        }
    }

    pub(crate) async fn look(&self) -> Result<Sight> {
        self.store.look(&self.look_at_all()).await
    }

    pub(crate) async fn rows(&self) -> Result<Vec<Row>> {
        Ok(self.look().await?.rows)
    }

    /// The ids of what a look gives as messages, in its order.
    pub(crate) async fn ids(&self) -> Result<Vec<String>> {
        Ok(ids_of(&self.rows().await?))
    }

    /// The row of a message that is to be seen now.
    ///
    /// # Panics
    /// Where it is not.
    pub(crate) async fn row(&self, id: &str) -> Result<Row> {
        let row = self.seen(id).await?;
        assert!(row.is_some(), "a look does not give {id}");
        row.ok_or_else(|| Error::invalid("looking", "not seen"))
    }

    /// The row of a message, where a look gives it.
    pub(crate) async fn seen(&self, id: &str) -> Result<Option<Row>> {
        let rows = self.rows().await?;
        Ok(rows.into_iter().find(|row| id_of(row) == Some(id)))
    }

    /// The verdict on a row, under the epoch at which this relay holds (or held) its lane.
    pub(crate) fn verdict(&self, row: &Row, outcome: Outcome) -> Verdict {
        let held = self.lanes.iter().find(|lease| lease.lane == row.lane);
        Verdict {
            seq: row.seq,
            lane: row.lane,
            epoch: held.map_or(-1, |lease| lease.epoch),
            key: row.key.clone(),
            outcome,
        }
    }

    pub(crate) async fn settle(&self, row: &Row, outcome: Outcome) -> Result<Settled> {
        let verdict = self.verdict(row, outcome);
        self.store.settle(&self.id, &[verdict]).await
    }

    /// Settles as held what a look gives as blocked, as a relay does: so many rows.
    pub(crate) async fn hold_blocked(&self, expected: usize) -> Result<()> {
        let rows = self.rows().await?;
        let blocked: Vec<Verdict> = rows
            .iter()
            .filter(|row| matches!(row.content, Content::Blocked))
            .map(|row| self.verdict(row, Outcome::Held))
            .collect();
        assert_eq!(blocked.len(), expected, "so many are blocked");
        self.store.settle(&self.id, &blocked).await.map(drop)
    }

    /// Publishes everything that it sees, in rounds, until nothing is left. Gives the ids in order.
    ///
    /// # Panics
    /// Where a look gives anything but messages.
    pub(crate) async fn drain(&self) -> Result<Vec<String>> {
        self.drain_rows(false).await
    }

    /// The same, and what is blocked is held, as a relay does.
    pub(crate) async fn drain_holding(&self) -> Result<Vec<String>> {
        self.drain_rows(true).await
    }

    async fn drain_rows(&self, holding: bool) -> Result<Vec<String>> {
        let mut drained = Vec::new();
        loop {
            let rows = self.rows().await?;
            if rows.is_empty() {
                return Ok(drained);
            }
            // What is blocked is held before what blocks it goes, as it is found in one look.
            let (messages, rest): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| matches!(row.content, Content::Message(_)));
            assert!(holding || rest.is_empty(), "only messages are to be drained here");
            let held = rest.iter().map(|row| self.verdict(row, Outcome::Held));
            let gone = messages.iter().map(|row| self.verdict(row, published(row.blocker)));
            let verdicts: Vec<Verdict> = held.chain(gone).collect();
            drained.extend(ids_of(&messages));
            self.store.settle(&self.id, &verdicts).await?;
        }
    }
}

pub(crate) fn id_of(row: &Row) -> Option<&str> {
    match &row.content {
        Content::Message(message) => Some(message.id()),
        Content::Undecodable(_) | Content::Blocked => None,
    }
}

pub(crate) fn ids_of(rows: &[Row]) -> Vec<String> {
    rows.iter().filter_map(id_of).map(str::to_owned).collect()
}

pub(crate) fn published(releases: bool) -> Outcome {
    Outcome::Published { releases }
}

/// A failure that counts and holds the key.
pub(crate) fn retry(after: Duration) -> Outcome {
    Outcome::Retry { after, error: "the target said no".to_owned(), counts: true, holds: true }
}

/// Set aside for good, holding the key.
pub(crate) fn quarantined() -> Outcome {
    Outcome::Quarantined {
        reason: QuarantineReason::Permanent,
        error: "the target can never take it".to_owned(),
        holds: true,
    }
}

/// A row as another program writes it.
pub(crate) fn plain(id: &str) -> PlainRow {
    PlainRow {
        id: id.to_owned(),
        source: SOURCE.to_owned(),
        topic: "suite.topic".to_owned(),
        headers: "{}".to_owned(),
        ..PlainRow::default()
    }
}

/// What a task came back with.
pub(crate) fn joined<T>(
    ended: std::result::Result<Result<T>, tokio::task::JoinError>,
) -> Result<T> {
    match ended {
        Ok(result) => result,
        Err(panicked) => panic!("a task ended badly: {panicked}"),
    }
}
