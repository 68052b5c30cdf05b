//! Sends in the caller's own transaction, with deadpool-postgres 0.14: tokio-postgres from a pool.

use sendoff_core::Message;
use sendoff_core::outbox::Transaction;

use super::schema_name::USUAL;
use super::send::insert_all;
use super::within::Within;

/// deadpool-postgres 0.14, as [`Transaction`]'s driver. Callers never write it.
#[derive(Debug)]
pub struct Deadpool;

impl Transaction<Deadpool> for deadpool_postgres::Transaction<'_> {
    type Error = tokio_postgres::Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        insert_all(self, &USUAL, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        deadpool_postgres::Transaction::commit(self).await
    }
}

impl Transaction<Deadpool> for Within<deadpool_postgres::Transaction<'_>> {
    type Error = tokio_postgres::Error;

    async fn append(&mut self, messages: &[Message]) -> Result<(), Self::Error> {
        let (transaction, schema, _) = self.parts();
        insert_all(transaction, schema, messages).await
    }

    async fn commit(self) -> Result<(), Self::Error> {
        self.into_inner().commit().await
    }
}
