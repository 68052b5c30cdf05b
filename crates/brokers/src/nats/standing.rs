//! Why nobody listens on a subject: what the server says of the stream, asked once for all who want
//! to know, and kept for a moment.

use std::time::Duration;

use sendoff_core::PublishError;
use tokio::time::Instant;

use crate::nats::address::NatsAddress;
use crate::nats::in_flight::Waiting;
use crate::nats::subject::{overlap, subject_of};

/// An answer is good for this long.
const KEPT: Duration = Duration::from_secs(1);

/// What the server says of the stream: the subjects it listens to, `None` where there is no such
/// stream; or why it does not say.
pub(super) type Said = Result<Option<Vec<String>>, String>;

/// The question, its answer, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Standing {
    said: Option<(Instant, Said)>,
    asked: Option<Asked>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Asked {
    token: u64,
    until: Instant,
}

impl Standing {
    /// Answers a publish that nobody listened to, now or once the server has said something.
    pub(super) fn explain(&mut self, waiting: Waiting, address: &NatsAddress) {
        match &self.said {
            Some((at, said)) if at.elapsed() < KEPT => answer(waiting, said, address),
            _ => self.waiting.push(waiting),
        }
    }

    /// Whether the server has to be asked.
    pub(super) fn asks(&self) -> bool {
        self.asked.is_none() && !self.waiting.is_empty()
    }

    /// The server was asked, under this token.
    pub(super) fn asked(&mut self, token: u64, wait: Duration) {
        self.asked = Some(Asked { token, until: Instant::now() + wait });
    }

    /// Whether the token is the question's.
    pub(super) fn is_asked(&self, token: u64) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.token == token)
    }

    /// When the wait for the server's answer ends.
    pub(super) fn until(&self) -> Option<Instant> {
        self.asked.as_ref().map(|asked| asked.until)
    }

    /// The server said something, or nothing in time.
    pub(super) fn said(&mut self, said: Said, address: &NatsAddress) {
        self.asked = None;
        for waiting in self.waiting.drain(..) {
            answer(waiting, &said, address);
        }
        self.said = Some((Instant::now(), said));
    }
}

impl Drop for Standing {
    /// Nobody listened, so the message went nowhere; why is not known any more.
    fn drop(&mut self) {
        for waiting in self.waiting.drain(..) {
            let error = PublishError::unreachable("no stream answered, and the connection ended");
            waiting.asker.answer(Err(error));
        }
    }
}

fn answer(waiting: Waiting, said: &Said, address: &NatsAddress) {
    let error = explain(waiting.message.topic(), said, address);
    waiting.asker.answer(Err(error));
}

fn explain(topic: &str, said: &Said, address: &NatsAddress) -> PublishError {
    let (stream, filter) = (address.stream(), address.filter());
    let subject = subject_of(address.prefix(), topic);
    match said {
        Ok(None) => PublishError::unreachable(format!(
            "there is no stream {stream} at {address}; create it: nats stream add {stream} \
             --subjects='{filter}' --storage=file --defaults"
        )),
        Ok(Some(subjects)) if subjects.iter().any(|one| overlap(one, &filter)) => {
            if subjects.iter().any(|one| overlap(one, &subject)) {
                return PublishError::unreachable(format!(
                    "stream {stream} listens to {subject} but did not answer"
                ));
            }
            PublishError::failed(format!(
                "stream {stream} does not listen to {subject}, only to {}; add it: nats stream \
                 edit {stream} --subjects='{filter}'",
                subjects.join(", ")
            ))
        }
        Ok(Some(subjects)) => PublishError::unreachable(format!(
            "stream {stream} listens to {} and to nothing under {filter}; add it: nats stream \
             edit {stream} --subjects='{filter}', or give the URL another prefix",
            subjects.join(", ")
        )),
        Err(reason) => PublishError::unreachable(format!(
            "no stream answers on {subject}, and {address} says: {reason}"
        )),
    }
}
