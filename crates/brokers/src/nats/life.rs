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
use sendoff_core::publisher::{Answers, HandOver};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::nats::NatsOptions;
use crate::nats::address::NatsAddress;
use crate::nats::answer::{self, Answer};
use crate::nats::connection::lock;
use crate::nats::headers::Packed;
use crate::nats::in_flight::{Asker, InFlight};
use crate::nats::refusal::{not_sent, oversize, refusal, unreachable_at};
use crate::nats::standing::Standing;
use crate::nats::subject::Subjects;
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

/// What is to be published, on its way to the connection's thread.
#[derive(Debug)]
pub(super) enum Job {
    One { subject: String, headers: Packed, body: Bytes, answer: oneshot::Sender<Answer> },
    Many(HandOver),
}

impl Job {
    /// Tells whoever waits that it was not sent.
    fn refuse(self, error: &PublishError) {
        match self {
            Self::One { answer, .. } => Asker::Caller(answer).refuse(error.clone()),
            Self::Many(HandOver { messages, answers }) => {
                for (ticket, _) in messages {
                    answers.answer(ticket, Err(error.clone()));
                }
            }
        }
    }
}

/// What is published.
struct Sending {
    subject: Subject,
    headers: Packed,
    body: Bytes,
}

/// The connection's thread.
pub(super) struct Life {
    address: Arc<NatsAddress>,
    options: NatsOptions,
    in_flight: Arc<InFlight>,
    standing: Arc<Standing>,
    signals: Arc<Signals>,
}

impl Life {
    pub(super) fn new(
        address: Arc<NatsAddress>,
        options: NatsOptions,
        in_flight: Arc<InFlight>,
        standing: Arc<Standing>,
    ) -> Self {
        Self { address, options, in_flight, standing, signals: Arc::default() }
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
        self.in_flight.end(&ending);
        queue.close();
        while let Ok(job) = queue.try_recv() {
            taken.push_back(job);
        }
        for job in taken {
            job.refuse(&not_sent(&ending));
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
            () = self.hand_out(&client, &inbox, answers) => {}
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
        let max_payload = client.server_info().max_payload;
        let mut subjects = Subjects::default();
        let mut batch = Vec::new();
        while queue.recv_many(&mut batch, QUEUE).await > 0 {
            taken.extend(batch.drain(..));
            while let Some(job) = taken.pop_front() {
                match job {
                    // Its caller has given up: the message must not leave later.
                    Job::One { answer, .. } if answer.is_closed() => {}
                    Job::One { subject, headers, body, answer } => {
                        let sending = Sending { subject: subject.into(), headers, body };
                        self.send(client, inbox, sending, Asker::Caller(answer)).await;
                    }
                    Job::Many(mut handed) => {
                        // Taken one by one: what is left when the connection ends was not sent.
                        handed.messages.reverse();
                        taken.push_front(Job::Many(handed));
                        while let Some(Job::Many(handed)) = taken.front_mut()
                            && let Some((ticket, message)) = handed.messages.pop()
                        {
                            let answers = Arc::clone(&handed.answers);
                            if !answers.may_leave() {
                                answers.not_sent(ticket);
                                continue;
                            }
                            let headers = Packed::of(&message);
                            let bytes = message.body().len() + headers.wire_bytes();
                            if bytes > max_payload {
                                answers.answer(ticket, Err(oversize(bytes, max_payload)));
                                continue;
                            }
                            let subject = subjects.of(self.address.prefix(), message.topic());
                            let body = message.body().clone();
                            let sending = Sending { subject, headers, body };
                            self.send(client, inbox, sending, Asker::Relay(answers, ticket)).await;
                        }
                        taken.pop_front();
                    }
                }
            }
        }
    }

    async fn send(&self, client: &Client, inbox: &str, sending: Sending, asker: Asker) {
        let Sending { subject, headers, body } = sending;
        let token = self.in_flight.begin(subject.clone(), asker);
        let reply = Subject::from(format!("{inbox}.{token}"));
        if let Err(error) =
            client.publish_with_reply_and_headers(subject, reply, headers.unpack(), body).await
            && let Some(waiting) = self.in_flight.take(token)
        {
            waiting.asker.refuse(refusal(&error));
        }
    }

    /// Hands answers to the publishes they belong to, until the subscription ends.
    async fn hand_out(&self, client: &Client, inbox: &str, mut answers: Subscriber) {
        let token_at = inbox.len() + 1;
        while let Some(answer) = answers.next().await {
            let token = answer.subject.get(token_at..).and_then(|token| token.parse().ok());
            let Some(waiting) = token.and_then(|token| self.in_flight.take(token)) else {
                continue;
            };
            let status = answer.status.map(|status| status.as_u16());
            let stream = self.address.stream();
            let read = answer::read(status, &answer.payload, stream, &waiting.subject);
            match waiting.asker {
                // Gone between the look and now: dropped by its caller, who no longer wants to know.
                Asker::Caller(answer) => drop(answer.send(read)),
                Asker::Relay(answers, ticket) => match read {
                    Answer::Stored => answers.answer(ticket, Ok(())),
                    Answer::Refused(error) => answers.answer(ticket, Err(error)),
                    Answer::NoResponders => {
                        self.explain(client, waiting.subject, answers, ticket);
                    }
                },
            }
        }
    }

    /// Says of a message that nobody listens for why that is, once the server has told.
    fn explain(&self, client: &Client, subject: Subject, answers: Arc<dyn Answers>, ticket: u64) {
        let (standing, client) = (Arc::clone(&self.standing), client.clone());
        // As many as there are publishes in flight; they wait for one question, and no longer than
        // that may take.
        tokio::spawn(async move {
            let mut unsaid = Unsaid(Some((answers, ticket)));
            let error = standing.explain(&client, &subject).await;
            if let Some((answers, ticket)) = unsaid.0.take() {
                answers.answer(ticket, Err(error));
            }
        });
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

/// A message that nobody listened for, until it is said why: where the connection ends first, that it
/// was not taken is known all the same.
struct Unsaid(Option<(Arc<dyn Answers>, u64)>);

impl Drop for Unsaid {
    fn drop(&mut self) {
        if let Some((answers, ticket)) = self.0.take() {
            answers.answer(ticket, Err(not_sent("no stream listened, and the connection ended")));
        }
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
