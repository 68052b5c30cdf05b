//! The relay that was asked for: with lanes, or with row locks.

use std::future::Future;
use std::sync::Arc;

use sendoff::relay::{
    Once, Progress, Readiness, Relay, RelaySettings, RowLockRelay, RowLockSettings, Tally,
};
use sendoff::store::{OutboxDesk, RelayId};
use sendoff::{Error, Result};

use crate::configuration::Configuration;
use crate::log;
use crate::store::Store;
use crate::target::Target;

/// The settings of either.
pub(super) enum Settings {
    Lanes(RelaySettings),
    RowLocks(RowLockSettings),
}

impl Settings {
    /// # Errors
    /// A value that is out of range, by itself or beside another.
    pub(super) fn of(configuration: &Configuration) -> Result<Self, Error> {
        Ok(match configuration.row_locks()? {
            Some(settings) => Self::RowLocks(settings),
            None => Self::Lanes(configuration.relay()?),
        })
    }
}

/// Either kind of relay.
pub(super) enum Motion {
    Lanes(Relay),
    RowLocks(RowLockRelay),
}

impl Motion {
    pub(super) fn build(store: &Store, target: &Target, settings: Settings) -> Result<Self, Error> {
        let publisher = target.publisher.clone();
        Ok(match settings {
            Settings::Lanes(settings) => {
                let relay = Relay::builder(store.outbox.clone(), publisher);
                Self::Lanes(relay.settings(settings).report(log::report).build()?)
            }
            Settings::RowLocks(settings) => {
                let relay = RowLockRelay::builder(store.claims.clone(), publisher);
                Self::RowLocks(relay.settings(settings).report(log::report).build()?)
            }
        })
    }

    pub(super) fn mode(&self) -> &'static str {
        match self {
            Self::Lanes(_) => "lanes",
            Self::RowLocks(_) => "row-locks",
        }
    }

    pub(super) fn id(&self) -> &RelayId {
        match self {
            Self::Lanes(relay) => relay.id(),
            Self::RowLocks(relay) => relay.id(),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Lanes(relay) => relay.progress(),
            Self::RowLocks(relay) => relay.progress(),
        }
    }

    pub(super) fn readiness(&self) -> Readiness {
        match self {
            Self::Lanes(relay) => relay.readiness(),
            Self::RowLocks(relay) => relay.readiness(),
        }
    }

    pub(super) async fn run(self, stop: impl Future<Output = ()> + Send) -> Tally {
        match self {
            Self::Lanes(relay) => relay.run(stop).await,
            Self::RowLocks(relay) => relay.run(stop).await,
        }
    }

    pub(super) async fn run_once(
        self,
        desk: Arc<dyn OutboxDesk>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Once, Error> {
        match self {
            Self::Lanes(relay) => relay.run_once(desk, stop).await,
            Self::RowLocks(relay) => relay.run_once(desk, stop).await,
        }
    }
}
