//! What the operations of a barrier take and answer.

use serde::Serialize;

use super::json::Json;
use super::name::{BarrierId, MemberName};
use super::outcome::Outcome;
use super::plan::{Member, members};
use super::refusal::Refusal;
use super::{Answer, RefusalCode};
use crate::time::Timestamp;

/// What a creation answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Created {
    /// The id.
    pub id: String,
    /// It was there already; nothing was changed.
    pub existing: bool,
    /// It was there already, with other members.
    pub differs: bool,
    /// It is complete: the list is empty.
    pub complete: bool,
}

/// One acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Whose.
    pub member: MemberName,
    /// What it says.
    pub outcome: Outcome,
}

/// Acknowledgements of one barrier, applied together: each for itself, unless `all_or_nothing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckBatch {
    /// Which barrier.
    pub id: BarrierId,
    /// The acknowledgements. A second one of the same member in here is a duplicate of the first.
    pub acks: Vec<Ack>,
    /// The channel by which they came, such as `http` or `nats`: kept for the duplicate's answer.
    pub channel: String,
    /// One unknown name refuses them all.
    pub all_or_nothing: bool,
    /// Where they come from a token that names an epoch: refused when the barrier has another one.
    pub epoch: Option<u32>,
}

impl AckBatch {
    /// Acknowledgements without a channel, each for itself.
    #[must_use]
    pub fn new(id: BarrierId, acks: Vec<Ack>) -> Self {
        Self { id, acks, channel: String::new(), all_or_nothing: false, epoch: None }
    }

    /// With the channel by which they came; at most 64 bytes of it are kept.
    #[must_use]
    pub fn by(mut self, channel: &str) -> Self {
        let end = channel.floor_char_boundary(64);
        self.channel = channel[..end].replace(char::is_control, " ");
        self
    }

    /// One unknown name refuses them all.
    #[must_use]
    pub fn all_or_nothing(mut self) -> Self {
        self.all_or_nothing = true;
        self
    }

    /// Only where the barrier is at this epoch.
    #[must_use]
    pub fn at_epoch(mut self, epoch: u32) -> Self {
        self.epoch = Some(epoch);
        self
    }
}

/// What one acknowledgement answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Acked {
    /// The member was resolved before; nothing was changed.
    pub duplicate: bool,
    /// The barrier is complete.
    pub complete: bool,
    /// How many members are pending, where that is known without counting.
    pub remaining: Option<u64>,
    /// Of a duplicate: the acknowledgement that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winner: Option<Winner>,
    /// Of a duplicate: the two say different things.
    pub conflict: bool,
}

/// The acknowledgement that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Winner {
    /// Whether it went well.
    pub ok: bool,
    /// Its error.
    pub error: Option<String>,
    /// Its result.
    pub result: Option<Json>,
    /// When it came, by the database's clock.
    pub at: Timestamp,
    /// By which channel.
    pub channel: String,
}

impl Winner {
    /// The winner from what a store keeps.
    #[must_use]
    pub fn of(outcome: &Outcome, at: Timestamp, channel: impl Into<String>) -> Self {
        Self {
            ok: outcome.is_ok(),
            error: outcome.error().map(str::to_owned),
            result: outcome.result().cloned(),
            at,
            channel: channel.into(),
        }
    }

    /// Its outcome.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let mut outcome = if self.ok { Outcome::ok() } else { Outcome::failed() };
        if let Some(error) = &self.error {
            outcome = outcome.with_error(error);
        }
        if let Some(result) = &self.result {
            outcome = outcome.with_result(result.clone());
        }
        outcome
    }
}

/// What became of one acknowledgement of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberAnswer {
    /// It resolved its member.
    Resolved,
    /// The member was resolved before.
    Duplicate {
        /// The acknowledgement that counts.
        winner: Winner,
        /// The two say different things.
        conflict: bool,
    },
    /// It was refused; the others of the batch were not, unless they had to be.
    Refused(Refusal),
}

/// Of an acknowledgement that came after its barrier was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// When the barrier was closed.
    pub closed_at: Option<Timestamp>,
}

impl Late {
    /// The refusal that says so.
    #[must_use]
    pub fn refusal(self) -> Refusal {
        let at = self.closed_at.map_or_else(String::new, |at| format!(" at {at}"));
        Refusal::new(
            RefusalCode::Conflict,
            format!(
                "the barrier was closed{at}, before this acknowledgement; it is kept as evidence"
            ),
        )
    }
}

/// What a batch answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckedBatch {
    /// For each acknowledgement, in order.
    pub answers: Vec<MemberAnswer>,
    /// The barrier is complete.
    pub complete: bool,
    /// The barrier is to be closed by an errand that was sent with this batch.
    pub closing: bool,
    /// How many members are pending, where that is known without counting.
    pub remaining: Option<u64>,
}

impl AckedBatch {
    /// How many resolved their member.
    #[must_use]
    pub fn resolved(&self) -> u64 {
        self.count(|answer| matches!(answer, MemberAnswer::Resolved))
    }

    /// How many were duplicates.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.count(|answer| matches!(answer, MemberAnswer::Duplicate { .. }))
    }

    /// How many were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.count(|answer| matches!(answer, MemberAnswer::Refused(_)))
    }

    /// Takes the answers of a later batch of the same barrier in.
    pub fn join(&mut self, later: Self) {
        self.answers.extend(later.answers);
        self.complete = later.complete;
        self.closing |= later.closing;
        self.remaining = later.remaining;
    }

    fn count(&self, which: impl Fn(&MemberAnswer) -> bool) -> u64 {
        self.answers.iter().filter(|answer| which(answer)).count() as u64
    }

    /// The answer of a batch of one.
    ///
    /// # Errors
    /// The refusal, where it was refused.
    pub fn only(self) -> Answer<Acked> {
        let Self { answers, complete, remaining, .. } = self;
        let (duplicate, winner, conflict) = match answers.into_iter().next() {
            Some(MemberAnswer::Refused(refusal)) => return Err(refusal),
            Some(MemberAnswer::Duplicate { winner, conflict }) => (true, Some(winner), conflict),
            Some(MemberAnswer::Resolved) | None => (false, None, false),
        };
        Ok(Acked { duplicate, complete, remaining, winner, conflict })
    }
}

/// A change to a barrier that is there.
///
/// ```
/// use sendoff_core::barrier::{Barriers, Change, Outcome};
/// use sendoff_core::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (store, barriers) = (MemoryStore::new(), Barriers::new());
/// let mut transaction = store.begin();
/// let plan = barriers.plan("import")?.members(["page-1"]).unsealed().build()?;
/// barriers.create(&mut transaction, &plan).await?;
/// barriers.ack(&mut transaction, "import", "page-1", Outcome::ok()).await?;
/// let more = Change::grow("", ["page-2", "page-3"])?;
/// assert_eq!(barriers.change(&mut transaction, "import", &more).await?.members, 2);
/// barriers.change(&mut transaction, "import", &Change::Seal).await?;
/// let never = Change::Exclude(sendoff_core::barrier::MemberName::new("page-3")?);
/// barriers.change(&mut transaction, "import", &never).await?;
/// let last = barriers.ack(&mut transaction, "import", "page-2", Outcome::ok()).await?;
/// assert!(last.complete);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds members to a list that is not sealed. A name that is there already is left as it is.
    Grow(Vec<Member>),
    /// The list is complete. Completes the barrier where nothing is pending.
    Seal,
    /// Ends it without a continuation; acknowledgements are refused from then on.
    Cancel,
    /// Makes failed or missing members pending again, under a new epoch with a continuation of its
    /// own: these, or all of them where the list is empty.
    Reopen(Vec<MemberName>),
    /// Resolves a pending member without an acknowledgement, as failed with the error `excluded`,
    /// since it will never come.
    Exclude(MemberName),
}

impl Change {
    /// Growth by members of a group, checked as a plan's are.
    ///
    /// # Errors
    /// A [`Refusal`]: `duplicate_name`, `too_large`, `invalid`.
    pub fn grow<N: AsRef<[u8]>>(group: &str, names: impl IntoIterator<Item = N>) -> Answer<Self> {
        let given = names.into_iter().map(|name| (name.as_ref().to_vec(), group.to_owned()));
        members(given.collect()).map(Self::Grow)
    }
}

/// What a change answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The id.
    pub id: String,
    /// How many members were added, reopened or resolved.
    pub members: u64,
    /// The barrier is complete.
    pub complete: bool,
    /// The epoch: 1, and one more with each reopening.
    pub epoch: u32,
}
