//! A target in memory that records what it is given and fails as it is told.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::script::{Act, On, Script};
use crate::message::Message;
use crate::publisher::{PublishError, Publisher, PublisherLimits};

/// A publisher that keeps what it is given, in the order in which it took it. Clones share it.
///
/// Without a script it confirms everything. Rules are tried in the order in which they were given,
/// and the first that fits the message and is not used up decides.
///
/// ```
/// use sendoff_core::memory::{Act, MemoryPublisher, On};
/// use sendoff_core::{Message, PublishError, Publisher};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> sendoff_core::Result<()> {
/// let target = MemoryPublisher::new();
/// target.next(2, On::Any, Act::Refuse(PublishError::failed("busy")));
/// let message = Message::builder("shop", "orders.placed").id("1").build()?;
/// assert!(target.publish(&message).await.is_err());
/// assert!(target.publish(&message).await.is_err());
/// assert!(target.publish(&message).await.is_ok());
/// assert_eq!(target.deliveries()[0].dedup_id, "shop/1");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryPublisher {
    shared: Arc<Shared>,
    /// This handle and its clones are closed; the target and its other handles are not.
    closed: Arc<AtomicBool>,
}

struct Shared {
    limits: PublisherLimits,
    deduplicates: bool,
    board: Mutex<Board>,
    /// Something on the board changed.
    changed: Notify,
}

#[derive(Default)]
struct Board {
    script: Script,
    deliveries: Vec<Delivery>,
    seen: HashSet<String>,
    keys_in_flight: HashMap<String, usize>,
    tally: MemoryTally,
    /// Goes up with each call of `let_go`; a hanging publish waits for the next.
    let_go: u64,
}

/// What the target took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// The id that it carried for deduplication.
    pub dedup_id: String,
    /// The same id had been taken before. A deduplicating target keeps no such delivery.
    pub repeated: bool,
}

/// What happened at the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryTally {
    /// Publishes that were begun.
    pub begun: u64,
    /// Publishes that are in flight now.
    pub in_flight: usize,
    /// The most that were in flight at once.
    pub in_flight_peak: usize,
    /// How often a publish began while another of the same key was in flight. A relay never does.
    pub key_overlaps: u64,
    /// Deliveries with an id that had been taken before.
    pub repeated: u64,
    /// Calls of [`Publisher::reset`].
    pub resets: u64,
    /// Publishes that began after the close.
    pub after_close: u64,
}

impl fmt::Debug for MemoryPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryPublisher").field(&ADDRESS).finish()
    }
}

const ADDRESS: &str = "memory:";

impl Default for MemoryPublisher {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryPublisher {
    /// A target that takes everything, repeated deliveries too, within the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with(PublisherLimits::default(), false)
    }

    /// A target that keeps the first delivery of each id only, as a deduplicating broker does.
    #[must_use]
    pub fn deduplicating() -> Self {
        Self::with(PublisherLimits::default(), true)
    }

    /// A target with limits of its own.
    #[must_use]
    pub fn with(limits: PublisherLimits, deduplicates: bool) -> Self {
        let shared =
            Shared { limits, deduplicates, board: Mutex::default(), changed: Notify::new() };
        Self { shared: Arc::new(shared), closed: Arc::default() }
    }

    /// Another handle on the same target, as another process has: closing one leaves the other open.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), closed: Arc::default() }
    }

    /// For the next `times` publishes that fit.
    pub fn next(&self, times: u32, on: On, act: Act) {
        self.rule(on, Some(times), act);
    }

    /// For every publish that fits, until [`MemoryPublisher::clear`].
    pub fn always(&self, on: On, act: Act) {
        self.rule(on, None, act);
    }

    fn rule(&self, on: On, left: Option<u32>, act: Act) {
        self.shared.lock().script.add(on, left, act);
    }

    /// Makes [`Publisher::check`] refuse what fits, before any publish.
    pub fn refuse_before(&self, on: On, detail: &str) {
        self.shared.lock().script.refuse_before(on, PublishError::permanent(detail));
    }

    /// Forgets every rule. What hangs goes on hanging.
    pub fn clear(&self) {
        self.shared.lock().script = Script::default();
    }

    /// Answers every publish that hangs now.
    pub fn let_go(&self) {
        self.shared.lock().let_go += 1;
        self.shared.changed.notify_waiters();
    }

    /// What was taken so far, in order.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.lock().deliveries.clone()
    }

    /// The ids of what was taken so far, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let board = self.shared.lock();
        board.deliveries.iter().map(|delivery| delivery.message.id().to_owned()).collect()
    }

    /// What happened so far.
    #[must_use]
    pub fn tally(&self) -> MemoryTally {
        self.shared.lock().tally
    }

    /// Waits until `enough` says so of what was taken and of the tally. Without a bound: the caller
    /// brings the timeout.
    pub async fn until(&self, enough: impl Fn(&[Delivery], &MemoryTally) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            {
                let board = self.shared.lock();
                if enough(&board.deliveries, &board.tally) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Waits until at least `count` messages were taken. Without a bound, as
    /// [`MemoryPublisher::until`].
    pub async fn delivered(&self, count: usize) {
        self.until(|deliveries, _| deliveries.len() >= count).await;
    }

    /// Waits for the next call of `let_go`.
    async fn hang(&self) {
        let before = self.shared.lock().let_go;
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if self.shared.lock().let_go > before {
                return;
            }
            changed.await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_size(&self, message: &Message) -> Result<(), PublishError> {
        if message.body().len() > self.limits.body_bytes_max {
            return Err(PublishError::permanent("the body is over the target's limit"));
        }
        Ok(())
    }

    fn take(&self, message: &Message) {
        {
            let mut board = self.lock();
            let dedup_id = message.dedup_id();
            let repeated = !board.seen.insert(dedup_id.clone());
            board.tally.repeated += u64::from(repeated);
            if !(repeated && self.deduplicates) {
                board.deliveries.push(Delivery { message: message.clone(), dedup_id, repeated });
            }
        }
        self.changed.notify_waiters();
    }
}

/// Counts a publish as in flight, also where its future is dropped.
struct InFlight<'a> {
    shared: &'a Shared,
    key: Option<&'a str>,
}

impl<'a> InFlight<'a> {
    fn begin(shared: &'a Shared, message: &'a Message) -> Self {
        {
            let mut board = shared.lock();
            board.tally.begun += 1;
            board.tally.in_flight += 1;
            board.tally.in_flight_peak = board.tally.in_flight_peak.max(board.tally.in_flight);
            if let Some(key) = message.key() {
                let of_key = board.keys_in_flight.entry(key.to_owned()).or_default();
                *of_key += 1;
                board.tally.key_overlaps += u64::from(*of_key > 1);
            }
        }
        shared.changed.notify_waiters();
        Self { shared, key: message.key() }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        {
            let mut board = self.shared.lock();
            board.tally.in_flight -= 1;
            if let Some(key) = self.key
                && let Some(of_key) = board.keys_in_flight.get_mut(key)
            {
                *of_key -= 1;
                if *of_key == 0 {
                    board.keys_in_flight.remove(key);
                }
            }
        }
        self.shared.changed.notify_waiters();
    }
}

#[async_trait]
impl Publisher for MemoryPublisher {
    fn address(&self) -> &str {
        ADDRESS
    }

    fn limits(&self) -> PublisherLimits {
        self.shared.limits
    }

    fn check(&self, message: &Message) -> Result<(), PublishError> {
        let board = self.shared.lock();
        match board.script.refusal(message) {
            Some(error) => Err(error.clone()),
            None => self.shared.check_size(message),
        }
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        let act = {
            let mut board = self.shared.lock();
            if self.closed.load(Ordering::SeqCst) {
                board.tally.after_close += 1;
                return Err(PublishError::unreachable("the target is closed"));
            }
            board.script.act_for(message)
        };
        let _in_flight = InFlight::begin(&self.shared, message);
        self.shared.check_size(message)?;
        match act {
            Act::Confirm => self.shared.take(message),
            Act::Refuse(error) => return Err(error),
            Act::TakeAndFail(error) => {
                self.shared.take(message);
                return Err(error);
            }
            Act::Delay(time) => {
                tokio::time::sleep(time).await;
                self.shared.take(message);
            }
            Act::Hang => {
                self.hang().await;
                self.shared.take(message);
            }
            Act::TakeAndHang => {
                self.shared.take(message);
                self.hang().await;
            }
        }
        Ok(())
    }

    async fn reset(&self) {
        self.shared.lock().tally.resets += 1;
        self.shared.changed.notify_waiters();
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
