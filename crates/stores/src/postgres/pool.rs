//! A few connections for one purpose. Looks, settlements, leases and the desk have one pool each,
//! so that none of them waits for another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join3;
use sendoff_core::Result;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use super::error::{from_driver, timed_out};
use super::schema_name::SchemaName;
use super::session::{Connector, Session, Use};
use super::sql;
use super::statement::Prepared;
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

    pub(super) fn schema(&self) -> &SchemaName {
        self.pool.connector.schema()
    }

    /// Gets a statement, which is written for `sendoff`, ready to run.
    pub(super) async fn statement(&mut self, template: &'static str) -> Result<Prepared> {
        self.session.statement(template).await.map_err(|error| self.failed(error))
    }

    /// Runs one statement.
    pub(super) async fn query(
        &mut self,
        template: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let statement = self.statement(template).await?;
        let rows = self.alone(statement.query(self.client(), params)).await;
        rows.map_err(|error| self.failed(error))
    }

    /// What begins a transaction here.
    pub(super) fn begin(&self) -> String {
        match self.session.locals() {
            None => sql::BEGIN.to_owned(),
            Some(locals) => format!("{}; {locals}", sql::BEGIN_COMMITTED),
        }
    }

    /// A transaction, for whoever goes to and fro in it.
    pub(super) async fn transaction(
        &mut self,
    ) -> std::result::Result<Transaction<'_>, tokio_postgres::Error> {
        let locals = self.session.locals().map(str::to_owned);
        let client = self.session.client_mut();
        match locals {
            None => client.transaction().await,
            Some(locals) => {
                let level = IsolationLevel::ReadCommitted;
                let transaction = client.build_transaction().isolation_level(level).start().await?;
                transaction.batch_execute(&locals).await?;
                Ok(transaction)
            }
        }
    }

    /// Runs what is no transaction yet. Behind a pooler it is made one, with settings of its own, in the
    /// same round trip: `run` has to send all that it sends when it is first polled.
    pub(super) async fn alone<T>(
        &self,
        run: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> std::result::Result<T, tokio_postgres::Error> {
        if self.session.locals().is_none() {
            return run.await;
        }
        let begin = self.begin();
        let client = self.client();
        // Polled, and so sent, in this order. Where it fails, the COMMIT is a rollback.
        let (begun, ran, committed) =
            join3(client.batch_execute(&begin), run, client.batch_execute(sql::COMMIT)).await;
        begun?;
        let ran = ran?;
        committed?;
        Ok(ran)
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
