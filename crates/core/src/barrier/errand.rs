//! Messages that a barrier sends: the continuation, and errands that the relay runs itself.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::name::BarrierId;
use super::outcome::Outcome;
use super::status::Reason;
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::time::Timestamp;

/// The message that says that a barrier has ended: what `continue_with` names gets it.
///
/// Its body is a JSON object with `barrier`, `epoch` and `reason` (and `tenant` where there is one),
/// its headers say the same. It carries no outcome: those are read from the barrier, in pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// The tenant, mostly empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The barrier's id.
    pub barrier: String,
    /// Its epoch; the first where a message says none.
    #[serde(default = "first_epoch")]
    pub epoch: u32,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

fn first_epoch() -> u32 {
    1
}

impl Continuation {
    /// The source of every message that a barrier sends.
    pub const SOURCE: &str = "sendoff.barrier";
    /// The header that names the barrier.
    pub const HEADER_BARRIER: &str = "sendoff-barrier";
    /// The header that names the epoch.
    pub const HEADER_EPOCH: &str = "sendoff-barrier-epoch";
    /// The header that names the reason.
    pub const HEADER_REASON: &str = "sendoff-barrier-reason";

    /// Which barrier.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the names cannot be a barrier's.
    pub fn id(&self) -> Result<BarrierId> {
        BarrierId::of_tenant(self.tenant.as_str(), self.barrier.as_str())
    }

    /// Reads a message's body.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where it is not a continuation's.
    pub fn parse(body: &[u8]) -> Result<Self> {
        serde_json::from_slice(body)
            .map_err(|error| Error::invalid("reading a continuation", error.to_string()))
    }

    /// The message, to `topic`, for a barrier of this incarnation. Its key is the barrier's id, so
    /// the continuations of several epochs arrive in order.
    ///
    /// # Errors
    /// Those of [`crate::message::MessageBuilder::build`]; none where the barrier's plan was valid.
    pub fn message(&self, incarnation: &str, topic: &str) -> Result<Message> {
        let reason = self.reason.map_or("", Reason::as_str);
        let id = self.id()?;
        Message::builder(Self::SOURCE, topic)
            .id(continuation_id(&id, incarnation, self.epoch, reason))
            .key(self.barrier.as_str())
            .header("content-type", "application/json")
            .header(Self::HEADER_BARRIER, self.barrier.as_str())
            .header(Self::HEADER_EPOCH, self.epoch.to_string())
            .header(Self::HEADER_REASON, reason)
            .body(encode(self)?)
            .build()
    }
}

/// The id of a message of a barrier: the same for the same barrier, incarnation, epoch and reason, so
/// that what deduplicates sees one, and another for a later barrier of the same id.
///
/// The first 32 hexadecimal digits of the SHA-256 of the five, each followed by a line feed (which no
/// name can have), behind `barrier-`.
#[must_use]
pub fn continuation_id(id: &BarrierId, incarnation: &str, epoch: u32, reason: &str) -> String {
    let mut hash = Sha256::new();
    for part in [id.tenant(), id.id(), incarnation, &epoch.to_string(), reason] {
        hash.update(part.as_bytes());
        hash.update(b"\n");
    }
    let digest = hash.finalize();
    let mut text = String::from("barrier-");
    for byte in &digest[..16] {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        Error::new(ErrorKind::Unexpected, "encoding a barrier's message").caused_by(error)
    })
}

/// What a relay does itself instead of publishing: a message to [`Errand::TOPIC`].
///
/// It is trusted with nothing: whoever runs it looks at the barrier and does what its state asks
/// for, so a forged or repeated errand changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errand {
    /// The tenant, mostly empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Which barrier.
    pub barrier: String,
    /// Its incarnation: a later barrier of the same id is not meant.
    pub incarnation: String,
    /// Its epoch.
    pub epoch: u32,
    /// What to do.
    pub act: ErrandAct,
}

/// What an errand is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrandAct {
    /// The deadline may have come: probe, then close with what is missing.
    Deadline,
    /// A member failed where the first failure ends it: close.
    FirstFailure,
    /// The barrier has ended: acknowledge it to the barrier of which it is a member.
    Ascend,
}

impl ErrandAct {
    fn word(&self) -> &'static str {
        match self {
            Self::Deadline => "errand-deadline",
            Self::FirstFailure => "errand-first-failure",
            Self::Ascend => "errand-ascend",
        }
    }
}

impl Errand {
    /// Where errands go. Topics with this prefix are the product's own.
    pub const TOPIC: &str = "$sendoff.barrier";

    /// Which barrier.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the names cannot be a barrier's.
    pub fn id(&self) -> Result<BarrierId> {
        BarrierId::of_tenant(self.tenant.as_str(), self.barrier.as_str())
    }

    /// Reads a message's body.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where it is not an errand's.
    pub fn parse(body: &[u8]) -> Result<Self> {
        serde_json::from_slice(body)
            .map_err(|error| Error::invalid("reading an errand", error.to_string()))
    }

    /// The message, due at `due_at` or at once. It may be sent once for its epoch, but for the first
    /// failure's: several may send that at once, and each has an id of its own.
    ///
    /// # Errors
    /// Those of [`crate::message::MessageBuilder::build`]; none where the barrier's plan was valid.
    pub fn message(&self, due_at: Option<Timestamp>) -> Result<Message> {
        let id = self.id()?;
        let mut builder = Message::builder(Continuation::SOURCE, Self::TOPIC)
            .reserved()
            .header("content-type", "application/json")
            .body(encode(self)?);
        if self.act != ErrandAct::FirstFailure {
            builder =
                builder.id(continuation_id(&id, &self.incarnation, self.epoch, self.act.word()));
        }
        if let Some(due_at) = due_at {
            builder = builder.due_at(due_at);
        }
        builder.build()
    }

    /// How a barrier that ended for `reason` acknowledges itself to its parent.
    #[must_use]
    pub fn outcome(reason: Reason, failed: u64, missing: u64) -> Outcome {
        match reason {
            Reason::All | Reason::Policy if failed == 0 && missing == 0 => Outcome::ok(),
            Reason::All | Reason::Policy => {
                Outcome::ok().with_error(format!("{failed} members failed, {missing} are missing"))
            }
            Reason::Unmet | Reason::FirstFailure | Reason::Deadline | Reason::Cancelled => {
                Outcome::failed().with_error(format!(
                    "ended by {}; {failed} members failed, {missing} are missing",
                    reason.as_str()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BarrierId, Continuation, Errand, ErrandAct, Reason, continuation_id};

    #[test]
    fn an_id_says_which_barrier_incarnation_epoch_and_reason() {
        let id = |tenant: &str, name: &str, incarnation: &str, epoch, reason: &str| {
            let barrier = BarrierId::of_tenant(tenant, name).unwrap();
            continuation_id(&barrier, incarnation, epoch, reason)
        };
        let one = id("", "b", "i", 1, "all");
        assert_eq!(one, id("", "b", "i", 1, "all"));
        for other in [
            id("t", "b", "i", 1, "all"),
            id("", "c", "i", 1, "all"),
            id("", "b", "j", 1, "all"),
            id("", "b", "i", 2, "all"),
            id("", "b", "i", 1, "deadline"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_continuation_reads_back_and_needs_no_more_than_the_barrier() {
        let continuation = Continuation {
            tenant: String::new(),
            barrier: "b".to_owned(),
            epoch: 2,
            reason: Some(Reason::Deadline),
        };
        let message = continuation.message("i", "done").unwrap();
        assert_eq!(Continuation::parse(message.body()).unwrap(), continuation);
        assert_eq!(message.headers().get(Continuation::HEADER_BARRIER), Some("b"));
        assert_eq!(Continuation::parse(br#"{"barrier":"b"}"#).unwrap().epoch, 1);
        assert!(Continuation::parse(b"nonsense").is_err());
    }

    #[test]
    fn an_errand_is_a_message_of_the_products_own() {
        let errand = Errand {
            tenant: String::new(),
            barrier: "b".to_owned(),
            incarnation: "i".to_owned(),
            epoch: 1,
            act: ErrandAct::Deadline,
        };
        let message = errand.message(None).unwrap();
        assert_eq!(Errand::parse(message.body()).unwrap(), errand);
        assert_eq!(errand.message(None).unwrap().id(), message.id());
        assert!(message.is_reserved());
    }
}
