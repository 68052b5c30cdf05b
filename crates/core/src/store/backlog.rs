//! How much there is and how old it is, at a cost that has a bound.

use std::time::Duration;

/// What [`crate::store::OutboxStore::backlog`] answers. Each count stops at the bound that was asked
/// for: one that has reached it means "so many or more".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The age of the oldest message that is due, by the database's clock: since it was sent, or since
    /// its due time.
    pub oldest_due: Option<Duration>,
    /// Messages that are due, those that are tried again included.
    pub due: u64,
    /// Messages held behind an earlier one of their key.
    pub held: u64,
    /// Messages in quarantine.
    pub quarantined: u64,
}
