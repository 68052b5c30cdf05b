//! The block that says why a message is on a dead-letter queue.

use sendoff_core::store::clean_error;
use sendoff_core::time::Clock;

use super::envelope::LANG;
use crate::json::{Json, Object};

/// Why a message was put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Its handler failed as often as it may.
    Failed,
    /// Nobody handles its URN.
    UnknownUrn,
    /// It cannot be decoded or is refused.
    Poison,
    /// A word that the contract does not know.
    Other(String),
}

impl Reason {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Failed => "failed",
            Self::UnknownUrn => "unknown_urn",
            Self::Poison => "poison",
            Self::Other(word) => word,
        }
    }

    fn read(word: &str) -> Self {
        match word {
            "failed" => Self::Failed,
            "unknown_urn" => Self::UnknownUrn,
            "poison" => Self::Poison,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// Why, when and after how many attempts a message was put aside.
///
/// ```
/// use sendoff_formats::babelqueue::{DeadLetter, Envelope, Reason};
/// use sendoff_formats::json::Json;
/// let envelope = Envelope::make("urn:babel:orders:created", Json::Null, "orders", None)?;
/// let dead = DeadLetter::new(Reason::Failed, envelope.original_queue("orders"), 3)
///     .error("the payment gateway did not answer");
/// let annotated = envelope.annotate(&dead);
/// assert_eq!(annotated.id(), envelope.id());
/// assert_eq!(annotated.dead_letter().map(|dead| dead.attempts), Some(3));
/// # Ok::<(), sendoff_formats::babelqueue::EnvelopeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why.
    pub reason: Reason,
    /// What went wrong, for people. Never a payload, never a secret.
    pub error: Option<String>,
    /// The name of the error's type, in the language of the program that put it aside.
    pub exception: Option<String>,
    /// When, in milliseconds since 1970.
    pub failed_at_ms: i64,
    /// The queue that it was taken from.
    pub original_queue: String,
    /// How often it was tried.
    pub attempts: i64,
    /// The language of the program that put it aside.
    pub lang: String,
}

impl DeadLetter {
    /// A block for a message that is put aside now.
    #[must_use]
    pub fn new(reason: Reason, original_queue: &str, attempts: i64) -> Self {
        Self {
            reason,
            error: None,
            exception: None,
            failed_at_ms: Clock::system().now().as_millisecond(),
            original_queue: original_queue.to_owned(),
            attempts,
            lang: LANG.to_owned(),
        }
    }

    /// With what went wrong: one line, without the passwords of addresses.
    #[must_use]
    pub fn error(mut self, error: &str) -> Self {
        self.error = Some(clean_error(error));
        self
    }

    /// With the name of the error's type.
    #[must_use]
    pub fn exception(mut self, exception: &str) -> Self {
        self.exception = Some(exception.to_owned());
        self
    }

    pub(super) fn write(&self) -> Object {
        let text = |text: &Option<String>| text.as_deref().map_or(Json::Null, Json::from);
        Object::from_iter([
            ("reason", Json::from(self.reason.as_str())),
            ("error", text(&self.error)),
            ("exception", text(&self.exception)),
            ("failed_at", Json::from(self.failed_at_ms)),
            ("original_queue", Json::from(self.original_queue.as_str())),
            ("attempts", Json::from(self.attempts)),
            ("lang", Json::from(self.lang.as_str())),
        ])
    }

    /// What a block says; nothing where it does not even give a reason.
    pub(super) fn read(block: &Object) -> Option<Self> {
        let text = |key: &str| block.get(key).and_then(Json::as_str).map(str::to_owned);
        let number = |key: &str| block.get(key).and_then(Json::as_i64).unwrap_or(0);
        Some(Self {
            reason: Reason::read(block.get("reason")?.as_str()?),
            error: text("error"),
            exception: text("exception"),
            failed_at_ms: number("failed_at"),
            original_queue: text("original_queue").unwrap_or_default(),
            attempts: number("attempts"),
            lang: text("lang").unwrap_or_default(),
        })
    }
}

/// The name of a queue's dead-letter queue, where nobody has said another: `orders.dlq`.
#[must_use]
pub fn dead_letter_queue(queue: &str) -> String {
    format!("{queue}.dlq")
}
