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

/// The shortest time between two notifications.
const SPACING: Duration = Duration::from_millis(1);

/// Tells relays in other processes that something was committed, so that they look at once.
///
/// It has a connection of its own and sends at most one notification (without payload) per
/// millisecond, never in a sender's transaction: a NOTIFY there would make all commits of the
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

    /// Call it after the commit. Never blocks and never fails; many calls within a millisecond are
    /// one notification.
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

async fn keep_notifying(connector: Connector, asked: Arc<Notify>) {
    let mut kept: Option<Session> = None;
    loop {
        asked.notified().await;
        let begun = Instant::now();
        let session = kept.take().filter(|session| !session.is_closed());
        match notify(&connector, session).await {
            Ok(session) => kept = Some(session),
            Err(error) => {
                // Asked again once there is a connection. The connector spaces out attempts.
                tracing::debug!(%error, "a wake-up was not sent; polling goes on");
                asked.notify_one();
            }
        }
        let rest = SPACING.saturating_sub(begun.elapsed());
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
    }
}

async fn notify(connector: &Connector, session: Option<Session>) -> Result<Session> {
    let session = match session {
        Some(session) => session,
        None => connector.connect(Use::News, None).await?,
    };
    ask(connector, &session, "waking relays", sql::NOTIFY).await?;
    Ok(session)
}
