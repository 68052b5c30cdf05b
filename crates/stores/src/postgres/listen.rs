//! News: a connection that LISTENs, kept up by a task of its own.
//!
//! The relay drops its wait for news at every poll, so the connection cannot live in that future.
//! The task connects, listens, and asks for a sign of life at every heartbeat; when it lost the
//! connection it makes another one and then tells once, since what was notified in between was
//! told to nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::Result;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::error::{from_driver, timed_out};
use super::session::{Connector, Session, Use};
use super::sql;

/// How long it waits after a failure that a new connection does not mend, such as a standby.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Listener {
    connector: Arc<Connector>,
    news: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// It was said that nobody listens.
    told: AtomicBool,
}

impl Listener {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        Self {
            connector: Arc::clone(connector),
            news: Arc::default(),
            task: Mutex::default(),
            told: AtomicBool::new(false),
        }
    }

    /// Returns when something was notified since the last return, or a connection was made.
    pub(super) async fn news(&self) -> Result<()> {
        if !self.connector.options().listens() {
            if self.connector.options().listen && !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    store = self.connector.address(),
                    "no wake-ups come through a pooler in transaction mode: what other processes \
                     send is found by polling; set postgres.listen = \"off\" to say that it is meant"
                );
            }
            return std::future::pending().await;
        }
        self.ensure_task();
        self.news.notified().await;
        Ok(())
    }

    fn ensure_task(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // It ends with the runtime that it was begun on; another one may call now.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            let connector = Arc::clone(&self.connector);
            let news = Arc::clone(&self.news);
            *task = Some(tokio::spawn(keep_listening(connector, news)));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

async fn keep_listening(connector: Arc<Connector>, news: Arc<Notify>) {
    loop {
        // The connector spaces out attempts of its own accord.
        if let Err(error) = listen_once(&connector, &news).await {
            tracing::debug!(%error, "not listening for wake-ups; polling goes on");
        }
        tokio::time::sleep(PAUSE / 20).await;
    }
}

/// Listens until the connection fails.
async fn listen_once(connector: &Connector, news: &Arc<Notify>) -> Result<()> {
    const DOING: &str = "listening for wake-ups";
    let tell = Arc::clone(news);
    let mut session =
        connector.connect(Use::News, Some(Box::new(move || tell.notify_one()))).await?;
    let listen = sql::listen(connector.schema());
    if let Err(error) = ask(connector, &session, DOING, &listen).await {
        tokio::time::sleep(PAUSE).await;
        return Err(error);
    }
    news.notify_one();
    loop {
        tokio::select! {
            () = session.ended() => return Ok(()),
            () = tokio::time::sleep(connector.options().heartbeat) => {}
        }
        ask(connector, &session, DOING, sql::HEARTBEAT).await?;
    }
}

/// Runs a statement without parameters, within the time for answers.
pub(super) async fn ask(
    connector: &Connector,
    session: &Session,
    operation: &'static str,
    statement: &str,
) -> Result<()> {
    let limit = connector.options().answer_timeout;
    let address = connector.address();
    tokio::time::timeout(limit, session.client().batch_execute(statement))
        .await
        .map_err(|_| timed_out(operation, address, limit))?
        .map_err(|error| from_driver(operation, address, error))
}
