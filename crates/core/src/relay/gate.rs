//! The gate: what a relay holds shared while it has work in hand, and an operation that needs that work
//! paused holds exclusively.
//!
//! A [`Gate`] is a small port, since a program may have one already, for its other background work.
//! [`RelayGate`] is ours.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, watch};

use crate::error::Result;

/// How long a relay keeps a gate that cannot tell whether somebody waits for it.
const TURN: Duration = Duration::from_millis(250);

/// What a relay holds shared from before it claims a batch until that is settled.
///
/// Without a gate, a relay is never paused. A relay that waits for its gate has claimed nothing and
/// opens no transaction.
#[async_trait]
pub trait Gate: fmt::Debug + Send + Sync + 'static {
    /// Waits until a shared holder is admitted. The relay drops the future where it stops first; that
    /// claims nothing and reports nothing.
    ///
    /// # Errors
    /// The gate's own, holding nothing. It ends the relay's pass, is told as
    /// [`super::Report::GateFailed`], and leaves the relay ready; the next pass asks again.
    async fn shared(&self) -> Result<GateHold>;

    /// Waits, as a shared holder, until somebody wants the gate exclusively. The relay then begins
    /// nothing new, settles what is in flight, gives its hold back and asks for it anew. A gate that
    /// cannot tell leaves it at this, and has its hold back every quarter of a second.
    async fn wanted(&self) {
        tokio::time::sleep(TURN).await;
    }
}

/// A shared hold of a gate, given back when it is dropped.
pub struct GateHold(Option<Box<dyn FnOnce() + Send>>);

impl GateHold {
    /// A hold that is given back by calling `release`. It must not block, nor panic.
    #[must_use]
    pub fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(release)))
    }
}

impl Drop for GateHold {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl fmt::Debug for GateHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GateHold")
    }
}

/// A gate for the relays of one process. Clones share it.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::memory::{MemoryPublisher, MemoryStore};
/// use sendoff_core::Relay;
/// use sendoff_core::relay::RelayGate;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = RelayGate::new();
/// let relay = Relay::builder(Arc::new(MemoryStore::new()), Arc::new(MemoryPublisher::new()))
///     .gate(gate.clone())
///     .build()?;
/// let running = tokio::spawn(relay.run(std::future::pending()));
/// {
///     let _paused = gate.exclusive().await;
///     // Nothing is claimed, in flight or unsettled here.
/// }
/// running.abort();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RelayGate {
    lock: Arc<RwLock<()>>,
    /// How many wait for it exclusively.
    waiting: Arc<watch::Sender<usize>>,
}

impl Default for RelayGate {
    fn default() -> Self {
        Self::new()
    }
}

impl RelayGate {
    /// A gate that nobody holds.
    #[must_use]
    pub fn new() -> Self {
        Self { lock: Arc::default(), waiting: Arc::new(watch::Sender::new(0)) }
    }

    /// Waits until nobody else holds the gate, and keeps it until the answer is dropped. From then on
    /// no relay of this gate has anything claimed, in flight or unsettled.
    ///
    /// A relay answers within its publish timeout and one settlement. It cannot while its database
    /// does not take the settlement: then this waits until it does. Dropping the future gives up.
    pub async fn exclusive(&self) -> GateExclusive {
        let _waiting = Waiting::begin(&self.waiting);
        // First come, first served: no shared holder is admitted before one that waits longer.
        GateExclusive { _lock: Arc::clone(&self.lock).write_owned().await }
    }
}

#[async_trait]
impl Gate for RelayGate {
    async fn shared(&self) -> Result<GateHold> {
        let lock = Arc::clone(&self.lock).read_owned().await;
        Ok(GateHold::new(move || drop(lock)))
    }

    async fn wanted(&self) {
        // The sender lives as long as this gate does.
        drop(self.waiting.subscribe().wait_for(|waiting| *waiting > 0).await);
    }
}

/// An exclusive hold of a [`RelayGate`], given back when it is dropped.
#[derive(Debug)]
#[must_use = "the gate is free again when this is dropped"]
pub struct GateExclusive {
    _lock: OwnedRwLockWriteGuard<()>,
}

struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

/// Asks the gate, which somebody else wrote and which may panic over it.
pub(super) async fn ask(gate: &dyn Gate) -> Result<GateHold> {
    use futures_util::FutureExt;
    let asked = std::panic::AssertUnwindSafe(gate.shared()).catch_unwind();
    asked.await.unwrap_or_else(|_| {
        Err(crate::Error::new(crate::ErrorKind::Unexpected, "waiting for the gate")
            .detail("the gate panicked"))
    })
}
