//! Kinds of events, and what a command raises.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;

use super::attributes::is_kind;
use super::invalid::{EventError, Fault};
use super::recorder::EventQueue;
use crate::json::Json;

/// A kind of event whose data is a `T`, in JSON.
///
/// ```
/// use sendoff_formats::event::EventKind;
/// #[derive(serde::Serialize)]
/// struct Placed {
///     order: u64,
/// }
/// let placed = EventKind::<Placed>::define("orders.placed")?;
/// assert!(EventKind::<Placed>::define("orders..placed").is_err());
/// # assert_eq!(placed.name(), "orders.placed");
/// # Ok::<(), sendoff_formats::event::EventError>(())
/// ```
#[derive(Debug, Clone)]
pub struct EventKind<T> {
    name: String,
    data: PhantomData<fn(&T)>,
}

impl<T: Serialize> EventKind<T> {
    /// A kind with this `type`.
    ///
    /// # Errors
    /// [`EventError::Invalid`] where it is not names with points between them, without white space,
    /// control characters, `*` and `>`.
    pub fn define(name: &str) -> Result<Self, EventError> {
        if is_kind(name) {
            Ok(Self { name: name.to_owned(), data: PhantomData })
        } else {
            Err(EventError::Invalid(vec![Fault::Kind]))
        }
    }

    /// The `type`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Raises an event. Data that is no JSON fails the command, when its body has ended.
    pub fn raise(&self, queue: &mut EventQueue, subject: Option<&str>, data: &T) {
        match Json::of(data) {
            Ok(json) => queue.push(Raised {
                kind: self.name.clone(),
                subject: subject.map(str::to_owned),
                data_content_type: Some("application/json".to_owned()),
                data: Bytes::from(json.to_vec()),
                ..Raised::default()
            }),
            Err(error) => queue.fail(&self.name, error),
        }
    }
}

/// What a command raised: an event without its id, its source and its time, which the recorder stamps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Raised {
    /// `type`.
    pub kind: String,
    /// What it happened to.
    pub subject: Option<String>,
    /// What kind of text or bytes the data is.
    pub data_content_type: Option<String>,
    /// Where the data's schema is.
    pub data_schema: Option<String>,
    /// The data.
    pub data: Bytes,
    /// Attributes beyond the specification's.
    pub extensions: BTreeMap<String, String>,
}
