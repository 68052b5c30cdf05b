//! A few connections for one purpose. Looks, settlements, leases and the desk have one pool each,
//! so that none of them waits for another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::Result;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::error::{from_driver, timed_out};
use super::session::{Connector, Session, Use};
use sendoff_core::{Error, ErrorKind};

/// Connections for one purpose, made when they are first needed.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<Connector>,
    usage: Use,
    timeout: Duration,
    idle: Mutex<Vec<Session>>,
    permits: Semaphore,
}

impl Pool {
    pub(super) fn new(connector: &Arc<Connector>, usage: Use, connections: usize) -> Self {
        let options = connector.options();
        let timeout = match usage {
            Use::Desk | Use::Walk => options.desk_timeout,
            Use::Relay | Use::News => options.answer_timeout,
        };
        Self {
            connector: Arc::clone(connector),
            usage,
            timeout,
            idle: Mutex::default(),
            permits: Semaphore::new(connections),
        }
    }

    /// Bounds a call as a whole: waiting for a connection, making one, every statement.
    ///
    /// At the end of the time the call's future is dropped, and with it the connection.
    pub(super) async fn bounded<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::time::timeout(self.timeout, call)
            .await
            .unwrap_or_else(|_| Err(timed_out(operation, self.connector.address(), self.timeout)))
    }

    /// A connection for one call. It is closed unless the call ends with [`Checkout::keep`].
    pub(super) async fn checkout(&self, operation: &'static str) -> Result<Checkout<'_>> {
        let permit = self.permits.acquire().await.map_err(|_| {
            Error::new(ErrorKind::Unexpected, operation).detail("the store was closed")
        })?;
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|session| !session.is_closed());
            idle.pop()
        };
        let session = match idle {
            Some(session) => session,
            None => self.connector.connect(self.usage, None).await?,
        };
        Ok(Checkout { pool: self, session, operation, _permit: permit })
    }
}

/// A connection that one call has for itself.
#[derive(Debug)]
pub(super) struct Checkout<'a> {
    pool: &'a Pool,
    session: Session,
    operation: &'static str,
    _permit: SemaphorePermit<'a>,
}

impl Checkout<'_> {
    pub(super) fn client(&self) -> &Client {
        self.session.client()
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        self.session.client_mut()
    }

    /// Prepares a statement once per connection.
    pub(super) async fn statement(
        &mut self,
        text: &'static str,
        types: &[Type],
    ) -> Result<Statement> {
        self.session.statement(text, types).await.map_err(|error| self.failed(error))
    }

    /// Runs one prepared statement.
    pub(super) async fn query(
        &mut self,
        text: &'static str,
        types: &[Type],
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let statement = self.statement(text, types).await?;
        self.client().query(&statement, params).await.map_err(|error| self.failed(error))
    }

    /// The driver's error as one of ours.
    pub(super) fn failed(&self, error: tokio_postgres::Error) -> Error {
        from_driver(self.operation, self.pool.connector.address(), error)
    }

    /// The call has ended well, with no transaction open: the connection may serve the next one.
    pub(super) fn keep(self) {
        let Self { pool, session, .. } = self;
        let mut idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(session);
    }
}
