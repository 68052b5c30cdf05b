//! New envelopes.

use sendoff_core::time::Clock;
use uuid::Uuid;

use super::{DEFAULT_QUEUE, Envelope, EnvelopeError, LANG, SCHEMA_VERSION};
use crate::json::{Json, Object, SerializeError};

/// A type of the caller's own that is a message.
///
/// ```
/// use sendoff_formats::babelqueue::{Envelope, PolyglotMessage};
/// use sendoff_formats::json::{Json, SerializeError};
///
/// struct OrderCreated {
///     order_id: u64,
/// }
///
/// impl PolyglotMessage for OrderCreated {
///     fn urn(&self) -> &str {
///         "urn:babel:orders:created"
///     }
///     fn payload(&self) -> Result<Json, SerializeError> {
///         Json::of(&std::collections::BTreeMap::from([("order_id", self.order_id)]))
///     }
/// }
///
/// let envelope = Envelope::from_message(&OrderCreated { order_id: 1042 }, "orders")?;
/// assert_eq!(envelope.queue(), "orders");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PolyglotMessage {
    /// What the message is: a URN, never the name of a type.
    fn urn(&self) -> &str;

    /// What it carries: an object, or `null` for none.
    ///
    /// # Errors
    /// Where it has what JSON cannot say.
    fn payload(&self) -> Result<Json, SerializeError>;

    /// The chain that it continues. A new one begins where there is none.
    fn trace_id(&self) -> Option<&str> {
        None
    }
}

impl Envelope {
    /// A new envelope: with an id of its own, attempts 0, made now.
    ///
    /// The URN and the trace id are trimmed. `data` is an object, or `null` for an empty one. A blank
    /// queue is [`DEFAULT_QUEUE`]; where the trace id is missing or blank a new chain begins. Everything
    /// else is changed afterwards: [`Envelope::with_lang`], [`Envelope::with_id`].
    ///
    /// # Errors
    /// [`EnvelopeError::EmptyUrn`] and [`EnvelopeError::DataNotAnObject`].
    pub fn make(
        urn: &str,
        data: impl Into<Json>,
        queue: &str,
        trace_id: Option<&str>,
    ) -> Result<Self, EnvelopeError> {
        let urn = urn.trim();
        if urn.is_empty() {
            return Err(EnvelopeError::EmptyUrn);
        }
        let data = match data.into() {
            Json::Object(data) => data,
            Json::Null => Object::new(),
            _ => return Err(EnvelopeError::DataNotAnObject),
        };
        let trace_id = trace_id.map(str::trim).filter(|trace_id| !trace_id.is_empty());
        let queue = if queue.trim().is_empty() { DEFAULT_QUEUE } else { queue };
        let meta = Object::from_iter([
            ("id", Json::from(Uuid::new_v4().to_string())),
            ("queue", Json::from(queue)),
            ("lang", Json::from(LANG)),
            ("schema_version", Json::from(SCHEMA_VERSION)),
            ("created_at", Json::from(Clock::system().now().as_millisecond())),
        ]);
        let trace_id = trace_id.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
        let fields = Object::from_iter([
            ("job", Json::from(urn)),
            ("trace_id", Json::from(trace_id)),
            ("data", Json::from(data)),
            ("meta", Json::from(meta)),
            ("attempts", Json::from(0)),
        ]);
        Ok(Self { fields, forbidden: Vec::new() })
    }

    /// The envelope of a message of the caller's own type.
    ///
    /// # Errors
    /// Those of [`Envelope::make`], and [`EnvelopeError::Data`].
    pub fn from_message(
        message: &(impl PolyglotMessage + ?Sized),
        queue: &str,
    ) -> Result<Self, EnvelopeError> {
        let payload = message.payload().map_err(EnvelopeError::Data)?;
        Self::make(message.urn(), payload, queue, message.trace_id())
    }
}
