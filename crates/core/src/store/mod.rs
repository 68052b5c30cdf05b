//! The port of a store: the database that holds the outbox.
//!
//! [`OutboxStore`] is the relay's side: lease lanes, look for rows, settle them; [`ClaimStore`] the side
//! of one that claims rows and publishes them while they are claimed. [`OutboxDesk`] is
//! the operator's side: look and mend; [`PauseDesk`] pauses and resumes, [`KeptDesk`] is what is kept of
//! published messages, [`TailDesk`] what was sent lately, [`Doctor`] an examination. The caller's side, writing a message in a transaction, is
//! [`crate::outbox`]. A store states rows and facts; every decision about order, retries and
//! batches is the relay's, so that it is taken once and not per database.

mod backlog;
mod claim;
mod desk;
pub mod doctor;
mod kept;
mod lease;
mod look;
mod pause;
mod resend;
mod tail;
mod verdict;

use std::fmt;

use async_trait::async_trait;

pub use backlog::Backlog;
pub use claim::{ClaimRequest, ClaimStore, Claimed, ClaimedRow, Mark, MarkVerdict, Marked};
pub use desk::{
    Holder, Mended, OutboxDesk, Place, QuarantinedMessage, Schema, SchemaState, Standing, Stats,
    Which,
};
pub use doctor::{Doctor, Finding, Grade};
pub use kept::{KeptDesk, KeptLook, KeptMark, KeptMessage, Resent, Retention};
pub use lease::{Ask, LaneLease, LeaseGrant, LeaseRequest, RelayId};
pub use look::{Age, AgeFrom, Content, Horizon, LaneLook, Look, Reading, Row, Sight};
pub use pause::{
    PAUSE_REASON_CHARS_MAX, ParkedFor, Pause, PauseDesk, PauseScope, PauseStanding, TargetRoom,
    Tend, Tended,
};
pub use resend::{Resend, Resending, Wanted};
pub use tail::TailDesk;
pub use verdict::{ERROR_CHARS_MAX, Outcome, QuarantineReason, Settled, Verdict, clean_error};

use crate::error::Result;
use crate::message::Message;
use crate::publisher::PublishError;

/// The relay's side of a store.
///
/// Every method may be called from several tasks at once and may be cancelled at every await
/// without harm. Times are the database's. `docs/explanation/relay.md` has the whole protocol.
#[async_trait]
pub trait OutboxStore: fmt::Debug + Send + Sync + 'static {
    /// The store's address for people: no password.
    fn address(&self) -> &str;

    /// Heartbeat, renew, give back and take lanes, in one transaction.
    ///
    /// In this order: (1) the relay's own row is written with an end of now + `ttl`; (2) lanes in
    /// `release` that it still holds at that epoch are given back, with their floor; (3) lanes in
    /// `keep` that it still holds at that epoch get a new end and floor; (4) with [`Ask::Share`] it
    /// takes free and lapsed lanes until it has `share = ceil(lanes / live relays)`, with [`Ask::All`]
    /// all of them or none. Taking a lane adds 1 to its epoch. A lane whose lease lapsed but which nobody took is renewed under the
    /// same epoch. With [`Ask::Leave`] the relay's row is deleted and nothing is taken.
    /// (5) In the lanes it then holds, a key that has held rows and no blocker gets one: its lowest
    /// held row is no longer held and has a retry time of now. (Held rows that became ready all at
    /// once would stand below what the owner has read, and a later one could go before them.)
    ///
    /// # Errors
    /// Those of the database.
    async fn lease(&self, request: &LeaseRequest) -> Result<LeaseGrant>;

    /// Reads rows that are due, with plain reads: no lock, no write, nothing marked.
    ///
    /// See [`Look`] for what is given and in which order.
    ///
    /// # Errors
    /// Those of the database. A row that does not decode is not an error but [`Content::Undecodable`].
    async fn look(&self, look: &Look) -> Result<Sight>;

    /// Writes verdicts, all in one transaction.
    ///
    /// The lanes' rows are locked (shared) in lane order and their epochs compared in the same
    /// statement. [`Outcome::Published`] is a fact and is recorded whatever the epoch; the others
    /// are written only where the relay still holds the lane at the verdict's epoch, and otherwise
    /// come back in [`Settled::fenced`]. A row that is gone already is no error. A published blocker
    /// that `releases` makes its key's held rows ready again, and pulls its lane's floor down to
    /// its own seq where that is higher, in the same transaction. Where a published row leaves held
    /// rows without a blocker and does not let them go, since it came under an older epoch, or was
    /// no blocker when it was read, the lowest of them becomes one in the same transaction, as in
    /// [`OutboxStore::lease`]: the owner has read past them, and a later one could go before them. The
    /// same happens where a row stops holding, since it failed under a policy by which it holds
    /// nobody. Where the store is told to keep what is published ([`Retention`]), a published row is moved
    /// to what is kept in the same statement, in the order of the verdicts; errands are not kept, nor
    /// what was kept at its first publish and sent again.
    ///
    /// # Errors
    /// Those of the database; then nothing was written, or (on [`crate::ErrorKind::Timeout`] and
    /// [`crate::ErrorKind::Unreachable`]) it is unknown. Settling again is harmless.
    async fn settle(&self, relay: &RelayId, verdicts: &[Verdict]) -> Result<Settled>;

    /// How much there is and how old it is, for alerts and figures: one read, that walks at most about
    /// `count_max` rows for each count, however many there are. Ready rows are looked for above the
    /// lanes' floors, as looks do; the oldest is the first of each lane, so it is the oldest by its
    /// place, and of more than `count_max` rows that wait for a time or have failed it may be another.
    ///
    /// # Errors
    /// Those of the database.
    async fn backlog(&self, count_max: u32) -> Result<Backlog>;

    /// Waits until there may be something new, as a hint. The relay races it against its poll
    /// interval, so a store without hints may wait for ever; a store that lost its connection
    /// returns once after it has reconnected. Bounded work, cancellable.
    ///
    /// # Errors
    /// Those of the database; the relay then goes on by polling.
    async fn news(&self) -> Result<()>;

    /// Deletes at most `rows_max` pairs of source and id whose horizon has passed, and folds the
    /// published tally. Of barriers whose week is over it deletes at most as many members, and it
    /// completes an open barrier that has nothing pending, which something else than the store has
    /// brought about, with an alarm in the log. What is kept of published messages and whose time is
    /// over goes as well. Answers how many pairs, members and kept rows went; what goes as a whole
    /// partition is not counted.
    ///
    /// # Errors
    /// Those of the database.
    async fn sweep(&self, rows_max: u32) -> Result<u64>;

    /// Reads the pauses and brings parked rows back, in one transaction.
    ///
    /// Of the rows in the relay's lanes that are parked under a mark ([`ParkedFor`]), those with the
    /// lowest seqs get a retry time of now and lose the mark: none where the mark is a pause's that is
    /// there, at most as many as [`TargetRoom::rows_max`] says where it is one of the relay's targets',
    /// and at most [`Tend::rows_max`] under each other mark: the pause has ended, or no relay knows
    /// the target any more. Bounded work, whatever is parked.
    ///
    /// A store without pauses has none, and is given no verdict that parks.
    ///
    /// # Errors
    /// Those of the database.
    async fn tend(&self, tend: &Tend) -> Result<Tended> {
        let _ = tend;
        Ok(Tended::default())
    }

    /// Runs a message whose topic is the product's own ([`Message::is_reserved`]) instead of publishing
    /// it: an errand of a barrier. Bounded work; running it again is harmless.
    ///
    /// # Errors
    /// A [`PublishError`] whose class says what the relay does about it. A store without barriers
    /// has no errands: what comes all the same goes to quarantine.
    async fn attend(&self, message: &Message) -> Result<(), PublishError> {
        let topic = message.topic();
        Err(PublishError::permanent(format!("this store runs no errand of the topic {topic}")))
    }
}
