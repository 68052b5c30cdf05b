//! The store's handle: its pools of connections, and the relay's side of the port.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sendoff_core::barrier::{KeySource, attend};
use sendoff_core::publisher::PublishError;
use sendoff_core::store::{
    Backlog, LeaseGrant, LeaseRequest, Look, OutboxStore, RelayId, Settled, Sight, Tend, Tended,
    Verdict,
};
use sendoff_core::time::whole_micros;
use sendoff_core::{Message, Result};

use super::barrier::Rounds;
use super::lease::Walk;
use super::listen::Listener;
use super::options::PostgresOptions;
use super::pool::Pool;
use super::session::{Connector, Use};
use super::{backlog, keep, lease, look, pause, settle, sql};

/// So many claims of one handle are open at once, at most.
const CLAIMS_MAX: usize = 8;

/// An outbox in PostgreSQL 15 or later.
///
/// It connects when it is first used and again whenever it has to. Looks, settlements, leases, news
/// and the desk have connections of their own; a call that gets no answer within
/// [`PostgresOptions::answer_timeout`] (the desk: `desk_timeout`) ends in
/// [`sendoff_core::ErrorKind::Timeout`], and its connection is discarded. A call that is cancelled
/// takes its connection with it, so it leaves no transaction behind.
///
/// ```no_run
/// use sendoff_core::store::OutboxDesk;
/// use sendoff_stores::postgres::{PostgresOptions, PostgresStore};
/// # async fn example() -> sendoff_core::Result<()> {
/// let store = PostgresStore::new("postgres://shop@localhost/shop", PostgresOptions::default())?;
/// store.migrate().await?;
/// # Ok(()) }
/// ```
pub struct PostgresStore {
    pub(super) connector: Arc<Connector>,
    looks: Pool,
    walks: Pool,
    settles: Pool,
    pub(super) claims: Pool,
    leases: Pool,
    pub(super) desk: Pool,
    listener: Listener,
    walk: Mutex<Walk>,
    barriers: Rounds,
    bulk: look::Bulk,
    keeping: settle::Keeping,
    pub(super) keys: Option<Arc<dyn KeySource>>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("address", &self.connector.address())
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// A store at `url`, such as `postgres://user:password@host:5432/database`. Nothing is sent
    /// before the first call.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] where the URL or an option is not acceptable. The
    /// message does not quote the URL.
    pub fn new(url: &str, options: PostgresOptions) -> Result<Self> {
        let connector = Arc::new(Connector::new(url, options)?);
        Ok(Self {
            // Two each: a call that was cancelled or is slow does not hold up the next one.
            looks: Pool::new(&connector, Use::Relay, 2),
            walks: Pool::new(&connector, Use::Walk, 2),
            settles: Pool::new(&connector, Use::Relay, 2),
            // Each claim has one for as long as it lasts.
            claims: Pool::new(&connector, Use::Relay, CLAIMS_MAX),
            leases: Pool::new(&connector, Use::Relay, 2),
            desk: Pool::new(&connector, Use::Desk, 4),
            listener: Listener::new(&connector),
            walk: Mutex::default(),
            barriers: Rounds::default(),
            bulk: look::Bulk::default(),
            keeping: settle::Keeping::default(),
            keys: None,
            connector,
        })
    }

    /// With a source for barriers whose probe is a prefix of keys. Without one such a probe is passed
    /// over at a deadline, with a line in the log, and refused on demand.
    #[must_use]
    pub fn with_key_source(mut self, source: Arc<dyn KeySource>) -> Self {
        self.keys = Some(source);
        self
    }
}

#[async_trait]
impl OutboxStore for PostgresStore {
    fn address(&self) -> &str {
        self.connector.address()
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant> {
        let grant = self.leases.bounded(lease::DOING, lease::lease(&self.leases, request)).await?;
        // The lanes are the relay's already. What goes wrong now is mended by the next call.
        let mended = lease::mend_keys(&self.leases, &request.relay, &self.walk);
        if let Err(error) = self.leases.bounded(lease::DOING, mended).await {
            tracing::debug!(%error, "held messages were not searched");
        }
        Ok(grant)
    }

    async fn look(&self, look: &Look) -> Result<Sight> {
        let pool = if look.background { &self.walks } else { &self.looks };
        Box::pin(pool.bounded(look::DOING, look::look(pool, &self.bulk, look))).await
    }

    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled> {
        if verdicts.is_empty() {
            return Ok(Settled::default());
        }
        let settled = settle::settle(&self.settles, &self.keeping, relay, verdicts);
        self.settles.bounded(settle::DOING, settled).await
    }

    async fn backlog(&self, count_max: u32) -> Result<Backlog> {
        // Beside the desk's calls and the back look, with a timeout for what may walk far.
        self.walks.bounded(backlog::DOING, backlog::backlog(&self.walks, count_max)).await
    }

    async fn news(&self) -> Result<()> {
        self.listener.news().await
    }

    async fn sweep(&self, rows_max: u32) -> Result<u64> {
        const DOING: &str = "sweeping the outbox";
        let horizon = whole_micros(self.connector.options().horizon);
        let horizon = i64::try_from(horizon).unwrap_or(i64::MAX);
        let swept = async {
            let mut checkout = self.leases.checkout(DOING).await?;
            checkout.query(sql::SWEEP_TALLY, &[]).await?;
            let swept = lease::sweep_keys(&mut checkout, rows_max, horizon).await?;
            // The rest of the housekeeping does not depend on it.
            if let Err(error) = keep::sweep(&mut checkout, rows_max).await {
                tracing::warn!(%error, "what is kept was not swept; it is tried again");
            }
            checkout.keep();
            Ok(swept)
        };
        let gone = self.leases.bounded(DOING, swept).await?;
        Ok(gone + self.barriers.sweep(self, rows_max).await?)
    }

    async fn tend(&self, request: &Tend) -> Result<Tended> {
        self.leases.bounded(pause::TENDING, pause::tend(&self.leases, request)).await
    }

    async fn attend(&self, message: &Message) -> std::result::Result<(), PublishError> {
        attend(self, message).await
    }
}
