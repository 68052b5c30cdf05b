//! What a relay tells its owner: every error it survives, and how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::message::Message;
use crate::publisher::PublishError;
use crate::relay::alerts::Alert;
use crate::relay::policy::Hold;
use crate::store::QuarantineReason;

/// An error that the relay survived, told after it was dealt with.
#[derive(Debug)]
#[non_exhaustive]
pub enum Report {
    /// A message went to quarantine; that is committed.
    Quarantined {
        /// The row.
        seq: i64,
        /// The message, where the row decodes.
        message: Option<Message>,
        /// Why.
        reason: QuarantineReason,
        /// What went wrong, as it is kept with the row.
        error: String,
        /// What waits until it is requeued and published, or discarded.
        holds: Hold,
        /// The failure that quarantined it: the publisher's own [`PublishError`], or, where the row does
        /// not decode, an [`Error`] of kind [`crate::ErrorKind::Corrupt`].
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A publish failed and will be tried again.
    PublishFailed {
        /// The row.
        seq: i64,
        /// The message.
        message: Message,
        /// What went wrong; what is behind it is its [`std::error::Error::source`].
        error: PublishError,
        /// What waits until it is published.
        holds: Hold,
    },
    /// The target takes nothing; the relay waits and tries again. Told once until it takes again.
    TargetDown {
        /// The target's address, without a password.
        target: String,
        /// What went wrong.
        error: PublishError,
    },
    /// The target takes messages again.
    TargetUp {
        /// The target's address, without a password.
        target: String,
    },
    /// Other relays hold all lanes, or, for a relay under [`Hold::All`], some: this one publishes
    /// nothing until they have stopped or died. Told once until it has lanes.
    StandingBy {
        /// How many lanes there are.
        lanes: u16,
    },
    /// The database failed; the relay is not ready until it answers again.
    StoreFailed(Error),
    /// The gate failed; the relay waits and asks it again. It stays ready: that speaks for the database.
    GateFailed(Error),
    /// Verdicts came too late: another relay owns their lanes now.
    Fenced {
        /// The rows.
        seqs: Vec<i64>,
    },
    /// The oldest message that is due has been due for longer than it may. Told once until
    /// [`Report::Recovered`].
    Lagging {
        /// For so long.
        oldest_due: Duration,
        /// The bound, [`crate::relay::AlertSettings::age`].
        bound: Duration,
    },
    /// There are more messages than there may be. Told once until [`Report::Recovered`].
    Growing {
        /// Of which kind.
        alert: Alert,
        /// So many, or more: it is not counted further than to the bound.
        count: u64,
        /// The bound.
        bound: u64,
    },
    /// What [`Report::Lagging`] or [`Report::Growing`] told is over: it is at half of the bound, or
    /// below.
    Recovered {
        /// Of which kind.
        alert: Alert,
    },
}

/// Takes reports. It must not block for long: the relay waits for it.
pub type ReportHook = Arc<dyn Fn(&Report) + Send + Sync>;

/// Whether a relay is ready: it runs, and no pass since the last good one has failed to reach the
/// database. A broker that is down leaves it ready. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Whether the relay is ready now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Ready from now on, until the answer is dropped: also where the relay's own future is.
    pub(crate) fn receiving(&self) -> Receiving {
        self.set(true);
        Receiving(self.clone())
    }

    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }
}

/// A relay receives for as long as this is there.
#[derive(Debug)]
pub(crate) struct Receiving(Readiness);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

macro_rules! progress {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// How far a relay is. Clones share the counters.
        #[derive(Debug, Clone, Default)]
        pub struct Progress(Arc<Counters>);

        #[derive(Debug, Default)]
        struct Counters { $($name: AtomicU64),* }

        /// The counters at one moment. All count from the relay's start, but for those that say
        /// "now".
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Tally { $($(#[$doc])* pub $name: u64),* }

        impl Progress {
            /// The counters now.
            #[must_use]
            pub fn tally(&self) -> Tally {
                Tally { $($name: self.0.$name.load(Ordering::Relaxed)),* }
            }

        }
    };
}

macro_rules! adders {
    ($($name:ident),* $(,)?) => {
        impl Progress {
            $(pub(crate) fn $name(&self, by: u64) {
                self.0.$name.fetch_add(by, Ordering::Relaxed);
            })*

            /// Sets how many targets take nothing now.
            pub(crate) fn targets_are_down(&self, count: u64) {
                self.0.targets_down.store(count, Ordering::Relaxed);
            }

            /// Sets what counts "now".
            pub(crate) fn gauge(&self, rows: u64, bytes: u64, in_flight: u64, lanes: u64) {
                self.0.window_rows.store(rows, Ordering::Relaxed);
                self.0.window_bytes.store(bytes, Ordering::Relaxed);
                self.0.in_flight.store(in_flight, Ordering::Relaxed);
                self.0.lanes_owned.store(lanes, Ordering::Relaxed);
            }
        }
    };
}

adders! {
    read, begun, confirmed, settled, failed, unknown, quarantined, held, parked, fenced,
    lanes_taken, lanes_left, looks, settlements, store_failures,
}

progress! {
    /// Rows read.
    read,
    /// Publishes begun.
    begun,
    /// Publishes that the target confirmed.
    confirmed,
    /// Confirmed messages that were settled.
    settled,
    /// Publishes that failed and are tried again.
    failed,
    /// Publishes whose outcome is unknown.
    unknown,
    /// Messages that went to quarantine.
    quarantined,
    /// Rows that were held behind their key.
    held,
    /// Rows that were set aside for a pause, or for a target that had no room.
    parked,
    /// Verdicts that were fenced.
    fenced,
    /// Lanes taken.
    lanes_taken,
    /// Lanes given back or lost.
    lanes_left,
    /// Lanes owned now.
    lanes_owned,
    /// Publishes in flight now.
    in_flight,
    /// Rows in memory now.
    window_rows,
    /// Bytes in memory now.
    window_bytes,
    /// Looks at the store.
    looks,
    /// Settlements.
    settlements,
    /// Calls to the store that failed.
    store_failures,
    /// Targets that take nothing now.
    targets_down,
}
