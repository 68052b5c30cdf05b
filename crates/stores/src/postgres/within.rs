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
}

impl<T> Within<T> {
    pub(super) fn new(transaction: T, schema: SchemaName) -> Self {
        Self { transaction, schema }
    }

    /// The driver's own transaction, to commit it or to roll it back.
    pub fn into_inner(self) -> T {
        self.transaction
    }

    /// Both parts.
    pub(super) fn parts(&mut self) -> (&mut T, &SchemaName) {
        (&mut self.transaction, &self.schema)
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
