//! Leases: which relay owns which lane, until when, under which epoch.

use std::fmt;
use std::time::Duration;

use crate::lane::Lane;

/// One run of one relay. A restarted process is another relay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelayId(String);

impl RelayId {
    /// A new id: process id, host boot and a random part, so that a person can tell relays apart.
    #[must_use]
    pub fn new() -> Self {
        Self(format!("{}-{}", std::process::id(), uuid::Uuid::now_v7().simple()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RelayId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a relay holds of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLease {
    /// The lane.
    pub lane: Lane,
    /// Goes up by one with every change of owner. A verdict under an older epoch is fenced.
    pub epoch: i64,
    /// A hint: nothing ready is left at or below this seq, as far as the owner knows.
    pub floor: i64,
}

/// What a relay asks of [`super::OutboxStore::lease`].
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Who asks.
    pub relay: RelayId,
    /// Where it publishes to, without a password: kept with its row and with what it publishes.
    pub target: Option<String>,
    /// How long the leases are to last from now, by the database's clock.
    pub ttl: Duration,
    /// Lanes to renew, with their floors.
    pub keep: Vec<LaneLease>,
    /// Lanes to give back, with their floors. Nothing of them may be in flight.
    pub release: Vec<LaneLease>,
    /// Whether to take lanes.
    pub ask: Ask,
}

/// Whether to take lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Up to a fair share.
    Share,
    /// All of them, or none: what is free or lapsed is taken only while no other relay holds a lane.
    /// While one does, this relay has no row of its own and takes nothing from the others' share.
    All,
    /// None: the relay is stopping but still settles what it has.
    Nothing,
    /// None, and the relay's row goes: it has stopped. Lanes in `keep` stay leased until they lapse.
    Leave,
}

/// What a relay got.
#[derive(Debug, Clone)]
pub struct LeaseGrant {
    /// Every lane it holds now.
    pub lanes: Vec<LaneLease>,
    /// How many lanes a fair share is. Where it holds more, it gives the rest back once they are
    /// drained.
    pub share: usize,
    /// How many lanes the store has.
    pub lanes_total: u16,
    /// How many relays are live, the asking one included.
    pub relays: usize,
}
