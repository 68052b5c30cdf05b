//! A replay: a message that was redriven with the wish that external effects do not happen again.
//!
//! The wish travels as the header [`HEADER`], beside the envelope. A consumer runs its handler within
//! [`scope`]; the handler, and whatever it awaits in the same task, asks [`is_replay`] or leaves out what
//! it wraps in [`bypass_external_effects`].

use std::future::Future;

use super::transport::Headers;

/// The header; its value is `1`, its presence is what counts.
pub const HEADER: &str = "bq-replay-bypass";

tokio::task_local! {
    static REPLAY: bool;
}

/// Runs a handler for a delivery with these headers.
///
/// ```
/// use sendoff_formats::babelqueue::replay;
/// use sendoff_formats::babelqueue::transport::Headers;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let headers = Headers::from([(replay::HEADER.to_owned(), "1".to_owned())]);
/// let sent = replay::scope(&headers, async {
///     replay::bypass_external_effects(async { "the mail was sent" }).await
/// });
/// assert_eq!(sent.await, None);
/// # }
/// ```
pub async fn scope<F: Future>(headers: &Headers, handler: F) -> F::Output {
    REPLAY.scope(headers.contains_key(HEADER), handler).await
}

/// Whether the handler that runs now was given a replay. False outside of [`scope`].
#[must_use]
pub fn is_replay() -> bool {
    REPLAY.try_with(|replay| *replay).unwrap_or(false)
}

/// Runs what reaches out of the system, unless this is a replay. Gives its answer where it ran.
pub async fn bypass_external_effects<F: Future>(effect: F) -> Option<F::Output> {
    if is_replay() { None } else { Some(effect.await) }
}
