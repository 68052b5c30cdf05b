//! How the stream stands: asked where nobody listens on a subject.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Client;
use bytes::Bytes;
use sendoff_core::PublishError;

use crate::nats::address::NatsAddress;
use crate::nats::answer;
use crate::nats::subject::overlap;

/// The last look at the stream, so that a thousand refused publishes ask once.
#[derive(Debug)]
pub(crate) struct Standing {
    address: Arc<NatsAddress>,
    wait: Duration,
    seen: tokio::sync::Mutex<Option<(Instant, PublishError)>>,
}

impl Standing {
    /// Asks the server no longer than `wait`.
    pub(crate) fn new(address: Arc<NatsAddress>, wait: Duration) -> Self {
        Self { address, wait, seen: tokio::sync::Mutex::new(None) }
    }

    /// Why nobody listens on a subject: asks the server what it knows of the stream.
    pub(crate) async fn explain(&self, client: &Client, subject: &str) -> PublishError {
        const KEPT: Duration = Duration::from_secs(1);
        let mut seen = self.seen.lock().await;
        if let Some((at, error)) = &*seen
            && at.elapsed() < KEPT
        {
            return error.clone();
        }
        let (stream, filter) = (self.address.stream(), self.address.filter());
        let error = match self.stream_subjects(client, stream).await {
            Ok(None) => PublishError::unreachable(format!(
                "there is no stream {stream} at {}; create it: nats stream add {stream} \
                 --subjects='{filter}' --storage=file --defaults",
                self.address
            )),
            Ok(Some(subjects)) if subjects.iter().any(|one| overlap(one, &filter)) => {
                if subjects.iter().any(|one| overlap(one, subject)) {
                    return PublishError::unreachable(format!(
                        "stream {stream} listens to {subject} but did not answer"
                    ));
                }
                // This subject's own trouble, so it is not kept for the others.
                return PublishError::failed(format!(
                    "stream {stream} does not listen to {subject}, only to {}; add it: nats stream \
                     edit {stream} --subjects='{filter}'",
                    subjects.join(", ")
                ));
            }
            Ok(Some(subjects)) => PublishError::unreachable(format!(
                "stream {stream} listens to {} and to nothing under {filter}; add it: nats stream \
                 edit {stream} --subjects='{filter}', or give the URL another prefix",
                subjects.join(", ")
            )),
            Err(reason) => PublishError::unreachable(format!(
                "no stream answers on {subject}, and {} says: {reason}",
                self.address
            )),
        };
        *seen = Some((Instant::now(), error.clone()));
        error
    }

    /// What the server knows of a stream: the subjects it listens to, `None` where there is no such
    /// stream.
    ///
    /// # Errors
    /// A text that says why it could not be asked.
    async fn stream_subjects(
        &self,
        client: &Client,
        stream: &str,
    ) -> Result<Option<Vec<String>>, String> {
        let question = client.request(format!("$JS.API.STREAM.INFO.{stream}"), Bytes::new());
        let answer = tokio::time::timeout(self.wait, question)
            .await
            .map_err(|_| "JetStream did not answer in time".to_owned())?
            .map_err(|error| match error.kind() {
                async_nats::RequestErrorKind::NoResponders => {
                    "JetStream is not enabled for this user".to_owned()
                }
                _ => error.to_string(),
            })?;
        answer::read_stream_info(&answer.payload)
    }
}
