//! What is decoded from outside, as targets that no bytes may break.
//!
//! A target takes bytes, decodes them in one way and panics where something does not hold: what was
//! accepted is the same after it was written and read again, and no error and no log form has a
//! secret or a payload in it. [`TARGETS`] names them. The tests of this crate run each over its seeds and
//! over thousands of variations; `fuzz/run NAME` runs one with libFuzzer for as long as one likes.
//!
//! What does not belong here: what a decoded message then does.

mod barrier;
mod delivery;
mod message;
mod url;

/// A decoder and inputs to begin with.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Decodes the bytes, and panics where something does not hold.
    pub run: fn(&[u8]),
    /// Inputs that reach deep.
    pub seeds: &'static [&'static [u8]],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    message::HEADERS,
    message::PATTERN,
    message::ERROR_TEXT,
    barrier::CONTINUATION,
    barrier::ERRAND,
    barrier::OUTCOME,
    barrier::NAMES,
    delivery::LINE,
    delivery::NATS,
    delivery::WEBHOOK,
    delivery::SUBJECT,
    url::TARGET,
    url::STORE,
    url::SECRETS,
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Stands for a password or a body in inputs; nobody may quote it.
const SECRET: &str = "s3cReT-Qz7";

/// Nothing that is shown or logged has the secret in it.
#[track_caller]
fn assert_discreet(shown: &impl std::fmt::Debug, said: &str) {
    let shown = format!("{shown:?} {said}");
    assert!(!shown.contains(SECRET), "a secret is shown: {shown}");
}

/// Lines of text, as inputs of several fields are written.
fn lines(data: &[u8]) -> impl Iterator<Item = &str> {
    data.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or_default())
}
