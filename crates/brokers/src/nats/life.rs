//! The inside of a connection: a thread with a runtime of its own, where the client library lives.
//!
//! The library keeps what it has not sent over a reconnect and offers no way to drop it. A publish
//! that timed out must not leave later, so a connection here never reconnects; and when its runtime
//! goes, the socket and everything that waits to be written go with it, at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerError, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use sendoff_core::PublishError;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::nats::NatsOptions;
use crate::nats::address::NatsAddress;
use crate::nats::answer::{self, Answer};
use crate::nats::connection::lock;
use crate::nats::headers::Packed;
use crate::nats::in_flight::InFlight;
use crate::nats::{security, stream};

/// How many publishes wait to be handed to the client library; more wait in their callers.
pub(super) const QUEUE: usize = 1_024;

/// What the connection's own tasks share.
#[derive(Default)]
struct Signals {
    /// The connection is over.
    over: Notify,
    /// Why, if the server said so.
    last_error: Mutex<Option<String>>,
}

pub(super) struct Greeted {
    pub(super) client: Client,
    /// The largest message, headers included, that the server takes.
    pub(super) max_payload: usize,
}

/// A publish on its way to the connection's thread.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) subject: String,
    pub(super) headers: Packed,
    pub(super) body: Bytes,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// The connection's thread.
pub(super) struct Life {
    address: Arc<NatsAddress>,
    options: NatsOptions,
    in_flight: Arc<InFlight>,
    signals: Arc<Signals>,
}

impl Life {
    pub(super) fn new(
        address: Arc<NatsAddress>,
        options: NatsOptions,
        in_flight: Arc<InFlight>,
    ) -> Self {
        Self { address, options, in_flight, signals: Arc::default() }
    }

    /// From the greeting to the end: returns when the socket and everything queued are gone, and
    /// everybody who waited has been told.
    pub(super) fn run(
        self,
        ready: oneshot::Sender<Result<Greeted, PublishError>>,
        stopped: oneshot::Receiver<()>,
        queue: &mut mpsc::Receiver<Job>,
    ) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let error = unreachable_at(&self.address, &format!("no runtime: {error}"));
                // Whoever asked may have gone; then nobody has to know.
                let _ = ready.send(Err(error));
                return;
            }
        };
        let mut taken = VecDeque::new();
        let ending = runtime.block_on(self.live(ready, stopped, queue, &mut taken));
        // The library's tasks, the socket and everything queued are dropped here. Only a name
        // lookup may be on another thread; it is not waited for.
        runtime.shutdown_background();
        // First the reason, for those who are answered with nothing now.
        self.in_flight.end(ending.clone());
        queue.close();
        while let Ok(job) = queue.try_recv() {
            taken.push_back(job);
        }
        for job in taken {
            let _ = job.answer.send(Answer::Refused(not_sent(&ending)));
        }
    }

    /// Connects, then publishes and hands answers to the publishes they belong to. Returns why it
    /// ended; what was `taken` from the queue then was not sent.
    async fn live(
        &self,
        ready: oneshot::Sender<Result<Greeted, PublishError>>,
        mut stopped: oneshot::Receiver<()>,
        queue: &mut mpsc::Receiver<Job>,
        taken: &mut VecDeque<Job>,
    ) -> String {
        const DISCARDED: &str = "the connection was discarded";
        let greeting = tokio::time::timeout(self.options.connect_timeout, self.greet());
        let greeting = tokio::select! {
            greeting = greeting => greeting.unwrap_or_else(|_| {
                let wait = self.options.connect_timeout;
                Err(self.unreachable(&format!("no greeting within {wait:?}")))
            }),
            _ = &mut stopped => return DISCARDED.to_owned(),
        };
        let (greeted, inbox, answers) = match greeting {
            Ok(greeting) => greeting,
            Err(error) => {
                let detail = error.detail().to_owned();
                let _ = ready.send(Err(error));
                return detail;
            }
        };
        let client = greeted.client.clone();
        if ready.send(Ok(greeted)).is_err() {
            return "nobody waits for the connection any more".to_owned();
        }
        tokio::select! {
            () = self.publish(&client, &inbox, queue, taken) => {}
            () = self.hand_out(&inbox, answers) => {}
            () = self.signals.over.notified() => {}
            _ = stopped => return DISCARDED.to_owned(),
        }
        self.ending().await
    }

    /// Hands publishes to the client library, until there is nobody left to publish.
    async fn publish(
        &self,
        client: &Client,
        inbox: &str,
        queue: &mut mpsc::Receiver<Job>,
        taken: &mut VecDeque<Job>,
    ) {
        let mut batch = Vec::new();
        while queue.recv_many(&mut batch, QUEUE).await > 0 {
            taken.extend(batch.drain(..));
            while let Some(job) = taken.pop_front() {
                // Its caller has given up: the message must not leave later.
                if job.answer.is_closed() {
                    continue;
                }
                let subject = Subject::from(job.subject);
                let token = self.in_flight.begin(subject.clone(), job.answer);
                let reply = Subject::from(format!("{inbox}.{token}"));
                let headers = job.headers.unpack();
                if let Err(error) =
                    client.publish_with_reply_and_headers(subject, reply, headers, job.body).await
                {
                    self.in_flight.answer(token, |_| Answer::Refused(refusal(&error)));
                }
            }
        }
    }

    /// Hands answers to the publishes they belong to, until the subscription ends.
    async fn hand_out(&self, inbox: &str, mut answers: Subscriber) {
        let token_at = inbox.len() + 1;
        while let Some(answer) = answers.next().await {
            let token = answer.subject.get(token_at..).and_then(|token| token.parse().ok());
            if let Some(token) = token {
                let status = answer.status.map(|status| status.as_u16());
                let stream = self.address.stream();
                self.in_flight.answer(token, |subject| {
                    answer::read(status, &answer.payload, stream, subject)
                });
            }
        }
    }

    async fn greet(&self) -> Result<(Greeted, String, Subscriber), PublishError> {
        let options = security::secure(self.connect_options(), &self.address)
            .map_err(|why| self.unreachable(&why))?;
        let client = options
            .connect(self.address.server())
            .await
            .map_err(|error| self.unreachable(&security::refused(&error)))?;
        let inbox = client.new_inbox();
        let answers = client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| self.unreachable(&error.to_string()))?;
        let info = client.server_info();
        if !info.headers {
            return Err(self.unreachable("the server takes no headers (NATS 2.2 and later do)"));
        }
        if self.address.create() {
            // Less than the whole greeting may take, so that the reason is told.
            let (window, wait) = (self.options.duplicate_window, self.options.connect_timeout / 3);
            stream::create(&client, &self.address, window, wait)
                .await
                .map_err(|why| self.unreachable(&why))?;
        }
        let greeted = Greeted { client, max_payload: info.max_payload };
        Ok((greeted, inbox, answers))
    }

    fn connect_options(&self) -> ConnectOptions {
        /// Longer than the connection can stay: it is dropped when this wait begins.
        const NEVER: Duration = Duration::from_secs(24 * 60 * 60);
        let signals = Arc::clone(&self.signals);
        let attempts = AtomicUsize::new(0);
        let mut options = ConnectOptions::new()
            .name(&self.options.client_name)
            .connection_timeout(self.options.connect_timeout)
            .ping_interval(self.options.ping_interval)
            .ignore_discovered_servers()
            // Asked before each attempt to connect, on the library's own task: the first is ours,
            // the second means that the connection has just ended.
            .reconnect_delay_callback(move |_| {
                if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Duration::ZERO;
                }
                signals.over.notify_one();
                NEVER
            });
        let signals = Arc::clone(&self.signals);
        let in_flight = Arc::clone(&self.in_flight);
        options = options.event_callback(move |event| {
            if let Event::ServerError(error) = event {
                note(&signals, &in_flight, &error);
            }
            std::future::ready(())
        });
        options
    }

    /// Why the connection ended, once the library's event task has had its turn to tell.
    async fn ending(&self) -> String {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        match &*lock(&self.signals.last_error) {
            Some(error) => format!("the connection to {} ended, after: {error}", self.address),
            None => format!("the connection to {} ended", self.address),
        }
    }

    fn unreachable(&self, reason: &str) -> PublishError {
        unreachable_at(&self.address, reason)
    }
}

/// What the client library does not even send.
fn refusal(error: &async_nats::PublishError) -> PublishError {
    match error.kind() {
        async_nats::PublishErrorKind::MaxPayloadExceeded
        | async_nats::PublishErrorKind::InvalidSubject => {
            PublishError::permanent(error.to_string())
        }
        async_nats::PublishErrorKind::Send => not_sent("the connection ended"),
    }
}

/// Keeps what the server complained of; a subject that this user may not publish to fails those
/// who wait for it, since nothing else will answer them.
fn note(signals: &Signals, in_flight: &InFlight, error: &ServerError) {
    let text = match error {
        ServerError::Other(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(subject) =
        text.split_once("for Publish to \"").and_then(|(_, rest)| rest.strip_suffix('"'))
    {
        in_flight.refuse(
            subject,
            &PublishError::failed(format!(
                "the user may not publish to {subject}: grant it the permission"
            )),
        );
        return;
    }
    *lock(&signals.last_error) = Some(text);
}

pub(super) fn not_sent(ending: &str) -> PublishError {
    PublishError::unreachable(format!("{ending}; the message was not sent"))
}

pub(super) fn unreachable_at(address: &NatsAddress, reason: &str) -> PublishError {
    PublishError::unreachable(format!("cannot connect to {address}: {reason}"))
}
