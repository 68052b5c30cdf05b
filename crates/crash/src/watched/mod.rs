//! Thin wrappers around the store and the publisher of the relay under test.
//!
//! They change nothing that the relay sees, but for the publish failures that [`Trouble`] asks for;
//! they write [`crate::marks`]. What does not belong here: a decision.

mod claims;
mod publisher;
mod store;

pub use claims::WatchedClaims;
pub use publisher::{Trouble, WatchedPublisher};
pub use store::WatchedStore;

/// A mark that cannot be written makes the whole run worthless, so the process ends.
fn must(written: std::io::Result<()>) {
    if let Err(error) = written {
        eprintln!("sendoff-crash-relay: writing a mark: {error}");
        std::process::exit(70);
    }
}
