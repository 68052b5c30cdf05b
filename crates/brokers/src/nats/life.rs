//! The inside of a connection: a task that writes what is to be published and reads the answers.
//!
//! A publish that timed out must not leave later, so a connection never reconnects; and when its
//! task is gone, so are its socket and everything that waited to be written. Whether messages may
//! still leave is asked right before their bytes are given to the socket, at every write.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use sendoff_core::publisher::{Answers, HandOver};
use sendoff_core::{Message, PublishError};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::nats::NatsOptions;
use crate::nats::address::NatsAddress;
use crate::nats::answer::{self, Answer};
use crate::nats::connection::{Fate, Job};
use crate::nats::greeting::Greeted;
use crate::nats::in_flight::{Asker, InFlight, Waiting};
use crate::nats::standing::Standing;
use crate::nats::subject::subject_of;
use crate::nats::wire::{self, Op, Writer};

/// So many bytes are written at once, unless one message has more.
const WRITE_BYTES: usize = 128 << 10;
/// So many are read at once.
const READ_BYTES: usize = 64 << 10;
/// A connection is given up after so many tests without an answer.
const PINGS_MAX: u32 = 3;

/// Messages that are to be written.
struct Batch {
    messages: std::vec::IntoIter<(u64, Arc<Message>)>,
    answers: Arc<dyn Answers>,
}

pub(super) struct Life {
    stream: TcpStream,
    queue: mpsc::Receiver<Job>,
    fate: Arc<Fate>,
    address: Arc<NatsAddress>,
    options: NatsOptions,
    max_payload: usize,
    writer: Writer,
    batches: VecDeque<Batch>,
    in_flight: InFlight,
    standing: Standing,
    /// Bytes to write, how many of them were written, and who has messages in the rest.
    out: Vec<u8>,
    written: usize,
    writing_for: Vec<Arc<dyn Answers>>,
    /// Bytes that were read and are no whole operation yet.
    read: Vec<u8>,
    /// The topic that was published to last, and its subject.
    last: (String, String),
    pings: u32,
    next_ping: Instant,
    complaint: Option<String>,
}

/// Why a connection ends.
type Ended = String;

impl Life {
    pub(super) fn new(
        greeted: Greeted,
        queue: mpsc::Receiver<Job>,
        fate: Arc<Fate>,
        address: Arc<NatsAddress>,
        options: NatsOptions,
    ) -> Self {
        let Greeted { stream, read, max_payload, inbox } = greeted;
        let next_ping = Instant::now() + options.ping_interval;
        Self {
            stream,
            queue,
            fate,
            address,
            options,
            max_payload,
            writer: Writer::new(inbox),
            batches: VecDeque::new(),
            in_flight: InFlight::default(),
            standing: Standing::default(),
            out: Vec::with_capacity(WRITE_BYTES),
            written: 0,
            writing_for: Vec::new(),
            read,
            last: (String::new(), String::new()),
            pings: 0,
            next_ping,
            complaint: None,
        }
    }

    /// Lives until the connection is over or nobody has it any more. Whoever waits is told then.
    pub(super) async fn run(mut self) {
        let Err(why) = self.live().await;
        let address = &self.address;
        let ending = match &self.complaint {
            Some(error) => format!("the connection to {address} ended, after: {error}"),
            None => format!("the connection to {address} ended: {why}"),
        };
        self.fate.end(&ending);
    }

    async fn live(&mut self) -> Result<std::convert::Infallible, Ended> {
        loop {
            self.write()?;
            let interest = if self.out.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let wake_at = self.standing.until().map_or(self.next_ping, |at| at.min(self.next_ping));
            tokio::select! {
                ready = self.stream.ready(interest) => {
                    if ready.map_err(|error| told(&error))?.is_readable() {
                        self.take_answers()?;
                    }
                }
                job = self.queue.recv(), if self.has_room() => match job {
                    Some(job) => self.take(job),
                    None => return Err("nobody publishes any more".to_owned()),
                },
                () = tokio::time::sleep_until(wake_at) => self.on_time()?,
            }
        }
    }

    /// What waits to be written is bounded; then more waits in the queue.
    fn has_room(&self) -> bool {
        self.batches.is_empty() && self.out.len() < WRITE_BYTES
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::One(message, answer) => {
                // Its caller has given up: the message must not leave later.
                if !answer.is_closed() {
                    self.write_message(Asker::Caller(answer), message);
                }
            }
            Job::Many(HandOver { messages, answers }) => {
                self.batches.push_back(Batch { messages: messages.into_iter(), answers });
            }
        }
    }

    /// Writes as much as there is and the socket takes.
    fn write(&mut self) -> Result<(), Ended> {
        loop {
            self.fill();
            if self.out.is_empty() {
                return Ok(());
            }
            if !self.writing_for.iter().all(|answers| answers.may_leave()) {
                // A part of them may have left, and the rest cannot be taken back but like this.
                return Err("what waited to be written might not leave any more".to_owned());
            }
            match self.stream.try_write(&self.out[self.written..]) {
                Ok(0) => return Err("the socket takes nothing".to_owned()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(told(&error)),
            }
            if self.written == self.out.len() {
                self.written = 0;
                self.out.clear();
                self.out.shrink_to(2 * WRITE_BYTES);
                self.writing_for.clear();
            }
        }
    }

    /// Encodes messages until a write is full.
    fn fill(&mut self) {
        while self.out.len() < WRITE_BYTES {
            let Some(mut batch) = self.batches.pop_front() else {
                // More may have been handed over meanwhile.
                let Ok(job) = self.queue.try_recv() else { return };
                self.take(job);
                continue;
            };
            if !batch.answers.may_leave() {
                for (ticket, _) in batch.messages {
                    batch.answers.not_sent(ticket);
                }
                continue;
            }
            while self.out.len() < WRITE_BYTES
                && let Some((ticket, message)) = batch.messages.next()
            {
                self.write_message(Asker::Relay(Arc::clone(&batch.answers), ticket), message);
            }
            self.writing_for.push(Arc::clone(&batch.answers));
            if !batch.messages.as_slice().is_empty() {
                self.batches.push_front(batch);
            }
        }
    }

    fn write_message(&mut self, asker: Asker, message: Arc<Message>) {
        if self.last.0 != message.topic() {
            let subject = subject_of(self.address.prefix(), message.topic());
            self.last = (message.topic().to_owned(), subject);
        }
        let token = self.in_flight.token();
        let to = (self.last.1.as_str(), token);
        match self.writer.publish(&mut self.out, to, &message, self.max_payload) {
            Ok(()) => self.in_flight.begin(token, Waiting { asker, message }),
            Err(bytes) => asker.answer(Err(oversize(bytes, self.max_payload))),
        }
    }

    /// Reads what is there and hands it out.
    fn take_answers(&mut self) -> Result<(), Ended> {
        let mut buffer = std::mem::take(&mut self.read);
        let mut filled = buffer.len();
        let ended = loop {
            if buffer.len() < filled + READ_BYTES / 2 {
                buffer.resize(filled + READ_BYTES, 0);
            }
            match self.stream.try_read(&mut buffer[filled..]) {
                Ok(0) => break Err("the server closed it".to_owned()),
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(told(&error)),
            }
            // What is still on the socket keeps it readable.
            if filled == buffer.len() {
                break Ok(());
            }
        };
        let taken = self.hand_out(&buffer[..filled])?;
        buffer.copy_within(taken..filled, 0);
        buffer.truncate(filled - taken);
        self.read = buffer;
        ended
    }

    /// Hands out every whole operation; answers how many bytes they had.
    fn hand_out(&mut self, bytes: &[u8]) -> Result<usize, Ended> {
        let mut taken = 0;
        while let Some((op, size)) =
            wire::read(&bytes[taken..]).map_err(|garbled| format!("it sent {}", garbled.0))?
        {
            taken += size;
            self.pings = 0;
            match op {
                Op::Delivery { subject, status, payload } => {
                    self.on_answer(subject, status, payload);
                }
                Op::Ping => self.out.extend_from_slice(b"PONG\r\n"),
                Op::Error(error) => self.on_complaint(error),
                Op::Pong | Op::Info(_) | Op::Ok => {}
            }
        }
        Ok(taken)
    }

    fn on_answer(&mut self, subject: &str, status: Option<u16>, payload: &[u8]) {
        let Some(token) = self.writer.token(subject) else { return };
        if self.standing.is_asked(token) {
            let said = match status {
                Some(_) => Err("JetStream is not enabled for this user".to_owned()),
                None => answer::read_stream_info(payload),
            };
            self.standing.said(said, &self.address);
            return;
        }
        let Some(waiting) = self.in_flight.end(token) else { return };
        let subject = || subject_of(self.address.prefix(), waiting.message.topic());
        match answer::read(status, payload, self.address.stream(), subject) {
            Answer::Stored => waiting.asker.answer(Ok(())),
            Answer::Refused(error) => waiting.asker.answer(Err(error)),
            Answer::NoResponders => {
                self.standing.explain(waiting, &self.address);
                self.ask_for_standing();
            }
        }
    }

    fn ask_for_standing(&mut self) {
        if self.standing.asks() {
            let token = self.in_flight.token();
            let question = format!("$JS.API.STREAM.INFO.{}", self.address.stream());
            self.writer.ask(&mut self.out, &question, token);
            self.standing.asked(token, self.options.connect_timeout);
        }
    }

    /// Keeps what the server complained of; a subject that this user may not publish to fails those
    /// who wait for it, since nothing else will answer them.
    fn on_complaint(&mut self, error: &str) {
        let denied = error
            .split_once("for Publish to \"")
            .and_then(|(_, rest)| rest.strip_suffix('"'))
            .map(str::to_owned);
        let Some(denied) = denied else {
            self.complaint = Some(error.to_owned());
            return;
        };
        let refusal = PublishError::failed(format!(
            "the user may not publish to {denied}: grant it the permission"
        ));
        let prefix = self.address.prefix();
        self.in_flight.refuse(|message| subject_of(prefix, message.topic()) == denied, &refusal);
    }

    fn on_time(&mut self) -> Result<(), Ended> {
        let now = Instant::now();
        if self.standing.until().is_some_and(|until| now >= until) {
            self.standing.said(Err("JetStream did not answer in time".to_owned()), &self.address);
        }
        if now >= self.next_ping {
            if self.pings >= PINGS_MAX {
                return Err(format!("no answer to {PINGS_MAX} tests"));
            }
            self.pings += 1;
            self.next_ping = now + self.options.ping_interval;
            self.out.extend_from_slice(b"PING\r\n");
        }
        Ok(())
    }
}

impl Drop for Life {
    /// The task ended or was aborted: first the reason, then everybody who waits.
    fn drop(&mut self) {
        let ending = self.fate.ending();
        self.queue.close();
        self.in_flight.lose(&ending);
        while let Ok(job) = self.queue.try_recv() {
            self.take_unsent(job, &ending);
        }
        for batch in std::mem::take(&mut self.batches) {
            refuse_all(batch, &ending);
        }
    }
}

impl Life {
    fn take_unsent(&mut self, job: Job, ending: &str) {
        match job {
            Job::One(_, answer) => Asker::Caller(answer).answer(Err(not_sent(ending))),
            Job::Many(HandOver { messages, answers }) => {
                refuse_all(Batch { messages: messages.into_iter(), answers }, ending);
            }
        }
    }
}

fn refuse_all(batch: Batch, ending: &str) {
    let error = not_sent(ending);
    for (ticket, _) in batch.messages {
        batch.answers.answer(ticket, Err(error.clone()));
    }
}

fn told(error: &io::Error) -> Ended {
    error.to_string()
}

pub(super) fn oversize(bytes: usize, max: usize) -> PublishError {
    PublishError::permanent(format!(
        "the message has {bytes} bytes with its headers, and the server takes {max} (max_payload)"
    ))
}

pub(super) fn not_sent(ending: &str) -> PublishError {
    PublishError::unreachable(format!("{ending}; the message was not sent"))
}
