//! The relay that was asked for: with lanes, or with row locks.

use std::future::Future;
use std::sync::Arc;

use sendoff::relay::{Once, Relay, RelaySettings, RowLockRelay, RowLockSettings, Tally, Timings};
use sendoff::store::{OutboxDesk, RelayId};
use sendoff::{Error, Result};

use crate::configuration::Configuration;
use crate::log;
use crate::observe::Running;
use crate::store::Store;
use crate::target::Targets;

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
    Lanes(Box<Relay>),
    RowLocks(RowLockRelay),
}

impl Motion {
    pub(super) fn build(
        store: &Store,
        target: &Targets,
        settings: Settings,
    ) -> Result<Self, Error> {
        let hook = log::reports(&target.shown);
        Ok(match settings {
            Settings::Lanes(settings) => {
                let relay = Relay::routed(store.outbox.clone(), target.routes.clone());
                Self::Lanes(Box::new(relay.settings(settings).report(hook).build()?))
            }
            Settings::RowLocks(settings) => {
                let publisher = target.routes.sole().ok_or_else(|| {
                    Error::invalid("building the relay", "row locks publish to one target")
                        .advice("name it with --to, or use lanes for routes")
                })?;
                let relay = RowLockRelay::builder(store.claims.clone(), publisher);
                Self::RowLocks(relay.settings(settings).report(hook).build()?)
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

    /// What health and figures are answered from.
    pub(super) fn running(&self) -> Running {
        match self {
            Self::Lanes(relay) => Running::of(relay),
            // How long each publish takes is measured in lanes only.
            Self::RowLocks(relay) => Running {
                readiness: relay.readiness(),
                progress: relay.progress(),
                timings: Timings::default(),
            },
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
