//! A transaction of any driver, whose sends and barriers are those of a schema of one's own.

use std::ops::{Deref, DerefMut};

use super::schema_name::SchemaName;

/// A transaction whose sends and barriers are those of one schema; [`SchemaName::on`] makes it.
///
/// It can do what the transaction can.
#[derive(Debug)]
pub struct Within<T> {
    transaction: T,
    schema: SchemaName,
    named: bool,
}

impl<T> Within<T> {
    pub(super) fn new(transaction: T, schema: SchemaName) -> Self {
        Self { transaction, schema, named: true }
    }

    /// The same, with statements that get no name on the server: for sqlx behind a pooler in transaction
    /// mode, which would name each. It costs sqlx a round trip for each statement. tokio-postgres and
    /// deadpool-postgres never name ours, SeaORM always does, and diesel-async only within the transaction.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.named = false;
        self
    }

    /// The driver's own transaction, to commit it or to roll it back.
    pub fn into_inner(self) -> T {
        self.transaction
    }

    /// The transaction, the schema, and whether a driver that names statements may do so.
    pub(super) fn parts(&mut self) -> (&mut T, &SchemaName, bool) {
        (&mut self.transaction, &self.schema, self.named)
    }
}

impl<T> Deref for Within<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.transaction
    }
}

impl<T> DerefMut for Within<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.transaction
    }
}
