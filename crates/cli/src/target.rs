//! Targets from URLs: `nats://host:4222/STREAM`, `https://host/path`, `file:out.jsonl`, `stdout:`.
//!
//! What does not belong here: how a URL is read, which each broker's own module knows.

use std::sync::Arc;

use sendoff::Error;
use sendoff::publisher::Publisher;

use crate::configuration::{Configuration, FILE_DEFAULT};
use crate::exit::Failure;

const EXAMPLES: &str = "write nats://host:4222/STREAM, https://host/path, file:out.jsonl, \
                        file:/data/out.jsonl or stdout:";

/// A target.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) publisher: Arc<dyn Publisher>,
    /// The URL, without a password.
    pub(crate) shown: String,
    /// Whether messages go to this process's standard output.
    pub(crate) is_stdout: bool,
}

impl Target {
    /// Opens the target that the configuration names. Brokers are connected to later, by the relay.
    ///
    /// # Errors
    /// No target is named, its URL is malformed, a setting of its kind is out of range, or its file
    /// is another process's.
    pub(crate) fn open(configuration: &Configuration) -> Result<Self, Failure> {
        let Some(url) = configuration.text("to") else {
            return Err(Error::invalid("opening the target", "no target is named")
                .advice(format!(
                    "give --to, set SENDOFF_TO, or set `to` in {FILE_DEFAULT}; {EXAMPLES}"
                ))
                .into());
        };
        let target = sendoff::Target::read(url)?;
        Ok(Self {
            publisher: target.open_with(&configuration.target()?)?,
            shown: target.to_string(),
            is_stdout: url.starts_with("stdout:"),
        })
    }
}
