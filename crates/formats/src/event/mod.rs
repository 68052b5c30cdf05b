//! Events: CloudEvents 1.0, as headers and as JSON, and how a command records them.
//!
//! - [`Event`] is an event that may still lack something; [`Event::validate`] says everything that it
//!   lacks.
//! - [`binary`] has the event's attributes in headers and its data as the body; [`structured`] has all of
//!   it in one JSON text. Both are read and written.
//! - [`Recorder`] runs a command, stamps the events that it raises and writes them in the command's own
//!   transaction, through a [`Sink`]: with [`OutboxSink`] through Sendoff's outbox.
//! - [`Permanent`] marks an error that no repetition mends.

mod attributes;
pub mod binary;
mod invalid;
mod kind;
mod permanent;
mod recorder;
mod sink;
pub mod structured;

pub use attributes::Event;
pub use invalid::{EventError, Fault};
pub use kind::{EventKind, Raised};
pub use permanent::{Permanent, is_permanent, permanent};
pub use recorder::{EventQueue, RecordError, Recorder};
pub use sink::{OutboxSink, Sink, SinkError};
