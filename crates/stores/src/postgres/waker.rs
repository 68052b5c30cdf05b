//! Wake-ups for relays in other processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::outbox::Transaction;
use sendoff_core::{Error, Result};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::listen::ask;
use super::options::PostgresOptions;
use super::session::{Connector, Session, Use};
use super::sql;

/// In the long run there is at most one notification in this time.
const SPACING: Duration = Duration::from_millis(1);
/// So many may follow each other at once after a pause: a commit that comes a moment after another
/// one is told at once, and not when a timer has gone off.
const BURST: u32 = 8;

/// Tells relays in other processes that something was committed, so that they look at once.
///
/// It has a connection of its own and sends at most one notification (without payload) per
/// millisecond, in bursts of eight at most, never in a sender's transaction: a NOTIFY there would make all commits of the
/// database queue up. A wake-up is a hint. Where it is lost, or nobody makes a waker, relays find
/// messages by polling. Clones share the connection, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct PostgresWaker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asked: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PostgresWaker {
    /// A waker for the store at `url`. It connects at the first wake-up, in a task on the current
    /// tokio runtime.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] where the URL or an option is not acceptable, or no
    /// tokio runtime is there.
    pub fn new(url: &str, options: PostgresOptions) -> Result<Self> {
        let connector = Connector::new(url, options)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            Error::invalid("making a waker", "it has to be made on a tokio runtime")
        })?;
        let asked = Arc::new(Notify::new());
        let task = runtime.spawn(keep_notifying(connector, Arc::clone(&asked)));
        Ok(Self(Arc::new(Inner { asked, task })))
    }

    /// Call it after the commit. Never blocks and never fails; many calls while a notification is on
    /// its way are one more.
    pub fn wake(&self) {
        self.0.asked.notify_one();
    }

    /// Commits, then wakes.
    ///
    /// # Errors
    /// The driver's own error of the commit; then nothing is woken.
    pub async fn commit<D, T: Transaction<D>>(&self, transaction: T) -> Result<(), T::Error> {
        transaction.commit().await?;
        self.wake();
        Ok(())
    }
}

/// How many notifications may be sent now.
#[derive(Debug)]
struct Allowance {
    left: u32,
    counted_at: Instant,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { left: BURST, counted_at: now }
    }

    /// Takes one, or answers how long there will be none.
    fn take(&mut self, now: Instant) -> std::result::Result<(), Duration> {
        let passed = now.saturating_duration_since(self.counted_at);
        let more = u32::try_from(passed.as_nanos() / SPACING.as_nanos()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(BURST);
        self.counted_at =
            if self.left == BURST { now } else { self.counted_at + SPACING.saturating_mul(more) };
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(SPACING.saturating_sub(now.saturating_duration_since(self.counted_at))),
        }
    }
}

async fn keep_notifying(connector: Connector, asked: Arc<Notify>) {
    let mut kept: Option<Session> = None;
    let mut allowance = Allowance::new(Instant::now());
    loop {
        asked.notified().await;
        while let Err(wait) = allowance.take(Instant::now()) {
            tokio::time::sleep(wait).await;
        }
        let session = kept.take().filter(|session| !session.is_closed());
        match notify(&connector, session).await {
            Ok(session) => kept = Some(session),
            Err(error) => {
                // Asked again once there is a connection. The connector spaces out attempts.
                tracing::debug!(%error, "a wake-up was not sent; polling goes on");
                asked.notify_one();
            }
        }
    }
}

async fn notify(connector: &Connector, session: Option<Session>) -> Result<Session> {
    let session = match session {
        Some(session) => session,
        None => connector.connect(Use::News, None).await?,
    };
    let notify = sql::notify(connector.schema());
    ask(connector, &session, "waking relays", &notify).await?;
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_allows_a_burst_and_the_long_run_one_in_a_millisecond() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let mut sent = 0;
        let mut now = start;
        // Asked for all the time, for a second.
        while now < start + Duration::from_secs(1) {
            match allowance.take(now) {
                Ok(()) => sent += 1,
                Err(wait) => {
                    assert!(!wait.is_zero() && wait <= SPACING, "{wait:?}");
                    now += wait;
                }
            }
        }
        assert!((1_000..=1_000 + BURST).contains(&sent), "{sent}");
        // After a pause, however long, a burst and no more.
        now += Duration::from_secs(100);
        let burst = (0..100).filter(|_| allowance.take(now).is_ok()).count();
        assert_eq!(burst, 8);
    }
}
