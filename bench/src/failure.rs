//! Why a measurement ended early: what was being done, and what happened.
//!
//! Nothing here retries or decides; a measurement that fails says so and the program exits.

use std::fmt;

/// The result of a step of a measurement.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What was being done and what happened, on one line.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure that the program found itself.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Names the step that an error came from.
pub(crate) trait Doing<T> {
    /// `doing` is a phrase such as "starting NATS".
    ///
    /// # Errors
    /// The error it was called on, with the step's name.
    fn doing(self, doing: &str) -> Result<T>;
}

impl<T, E: std::error::Error> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: &str) -> Result<T> {
        self.map_err(|error| {
            let mut text = format!("{doing}: {error}");
            let mut next = error.source();
            // Drivers hide the server's words one level down.
            while let Some(source) = next {
                let inner = source.to_string();
                if !text.contains(&inner) {
                    text.push_str(": ");
                    text.push_str(&inner);
                }
                next = source.source();
            }
            Failure(text)
        })
    }
}
