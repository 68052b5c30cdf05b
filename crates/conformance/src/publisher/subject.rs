//! What a publisher's tests bring along.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::{Message, Publisher, Result};

/// What differs between targets.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The target keeps the first delivery of an id only, when the second follows soon.
    pub deduplicates: bool,
    /// The largest body that surely fits, if the target has a limit below 4 MiB: the suite takes
    /// one and a half times as much for too large.
    pub body_bytes_max: Option<usize>,
    /// One publisher at a time: another is refused until the first is closed.
    pub exclusive: bool,
}

/// A target of its own for each case, empty at first. It goes when the subject is dropped.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use sendoff_conformance::publisher::{Arrival, Facts, Subject};
/// # use sendoff_core::{Publisher, Result};
/// struct Mine;
///
/// #[async_trait::async_trait]
/// impl Subject for Mine {
///     const FACTS: Facts = Facts { deduplicates: false, body_bytes_max: None, exclusive: false };
///     async fn empty() -> Result<Self> { Ok(Mine) }
///     // ...
/// #   async fn publisher(&self) -> Result<Arc<dyn Publisher>> { unimplemented!() }
/// #   async fn arrived(&self) -> Result<Vec<Arrival>> { unimplemented!() }
/// }
///
/// mod mine {
///     use super::Mine;
///     sendoff_conformance::publisher_suite!(Mine);
/// }
/// # fn main() {}
/// ```
#[async_trait]
pub trait Subject: Sized + Send + Sync + 'static {
    /// What this target is like.
    const FACTS: Facts;

    /// A new target.
    async fn empty() -> Result<Self>;

    /// A publisher to the target, with connections of its own.
    async fn publisher(&self) -> Result<Arc<dyn Publisher>>;

    /// All that the target has, in its order, read with nothing of the publisher's connections.
    async fn arrived(&self) -> Result<Vec<Arrival>>;
}

/// A message at the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The id by which the target, or whoever reads from it, tells a repetition.
    pub dedup_id: String,
    /// What was read back. A due time may be missing.
    pub message: Message,
}

/// A target that can be taken away.
#[async_trait]
pub trait Breakable: Subject {
    /// Kills the target, as with SIGKILL: open connections end, new ones are refused.
    async fn kill(&mut self) -> Result<()>;

    /// Starts it again, with what it had on disk, and returns when it serves.
    async fn start(&mut self) -> Result<()>;

    /// Stops it in its tracks, as with SIGSTOP: connections stay open, nothing answers.
    async fn pause(&mut self) -> Result<()>;

    /// Lets a paused target go on.
    async fn resume(&mut self) -> Result<()>;
}
