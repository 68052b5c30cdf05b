//! The partner of the job, its post box, and how it misbehaves.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::folder::PATIENCE;

/// The stream that the relay publishes to.
pub(crate) const DOCUMENTS: &str = "DOCUMENTS";
/// The stream of the partner's answers.
pub(crate) const ANSWERS: &str = "ANSWERS";
/// How long a message is with a reader that may have died.
const ACK_WAIT: Duration = Duration::from_secs(2);

/// A connection to NATS, for code that blocks.
#[derive(Clone)]
pub(crate) struct Post {
    runtime: Arc<Runtime>,
    context: Context,
}

/// An answer that has not been taken away yet.
pub(crate) struct Answer {
    pub(crate) line: String,
    message: jetstream::Message,
}

impl Post {
    pub(crate) fn new(url: &str) -> Self {
        let runtime = Arc::new(Runtime::new().unwrap());
        let context = runtime.block_on(async {
            let client = async_nats::connect(url).await.unwrap();
            jetstream::new(client)
        });
        Self { runtime, context }
    }

    async fn consumer(&self, stream: &str, subject: &str) -> PullConsumer {
        let stream = self.context.get_stream(stream).await.unwrap();
        let config = pull::Config {
            durable_name: Some("reader".to_owned()),
            filter_subject: subject.to_owned(),
            ack_wait: ACK_WAIT,
            max_ack_pending: 10_000,
            ..pull::Config::default()
        };
        stream.get_or_create_consumer("reader", config).await.unwrap()
    }

    async fn fetch(&self, stream: &str, subject: &str, max: usize) -> Vec<jetstream::Message> {
        let consumer = self.consumer(stream, subject).await;
        let mut messages = consumer.fetch().max_messages(max).messages().await.unwrap();
        let mut fetched = Vec::new();
        while let Some(Ok(message)) = messages.next().await {
            fetched.push(message);
        }
        fetched
    }

    /// The next answers.
    pub(crate) fn answers(&self, stream: &str) -> Vec<Answer> {
        let messages = self.runtime.block_on(self.fetch(stream, &format!("{stream}.>"), 150));
        let line = |message: &jetstream::Message| String::from_utf8(message.payload.to_vec());
        messages
            .into_iter()
            .map(|message| Answer { line: line(&message).unwrap(), message })
            .collect()
    }

    /// Takes answers away that were applied.
    pub(crate) fn done(&self, answers: Vec<Answer>) {
        self.runtime.block_on(async {
            for answer in answers {
                answer.message.ack().await.unwrap();
            }
        });
    }

    fn say(&self, line: &Value) {
        let line = line.to_string().into();
        self.runtime.block_on(async {
            let sent = self.context.publish(format!("{ANSWERS}.answers"), line).await.unwrap();
            sent.await.unwrap();
        });
    }
}

/// Makes the streams.
pub(crate) fn streams(post: &Post) {
    post.runtime.block_on(async {
        for name in [DOCUMENTS, ANSWERS] {
            let config = stream::Config {
                name: name.to_owned(),
                subjects: vec![format!("{name}.>")],
                ..stream::Config::default()
            };
            post.context.create_stream(config).await.unwrap();
        }
    });
}

/// The continuations in the stream.
pub(crate) fn continuations(post: &Post) -> Vec<Value> {
    post.runtime.block_on(async {
        let stream = post.context.get_stream(DOCUMENTS).await.unwrap();
        let config = pull::Config {
            filter_subject: format!("{DOCUMENTS}.batches.done"),
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        let mut messages = consumer.fetch().max_messages(10).messages().await.unwrap();
        let mut bodies = Vec::new();
        while let Some(Ok(message)) = messages.next().await {
            bodies.push(serde_json::from_slice(&message.payload).unwrap());
        }
        bodies
    })
}

/// A partner that reads documents and answers them, on a thread of its own.
pub(crate) struct Partner {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Partner {
    pub(crate) fn start(post: Post, port: Arc<AtomicU16>, database: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let client = Http { port };
            while !stopped.load(Ordering::SeqCst) {
                let subject = format!("{DOCUMENTS}.documents.sent");
                let documents = post.runtime.block_on(post.fetch(DOCUMENTS, &subject, 50));
                for message in documents {
                    // What it has and did not answer comes again, and so does what it answered last.
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    answer(&message.payload, &post, &client, &database);
                    post.runtime.block_on(message.ack()).unwrap();
                }
            }
        });
        Self { stop, thread }
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

fn answer(document: &[u8], post: &Post, http: &Http, database: &str) {
    let document: Value = serde_json::from_slice(document).unwrap();
    let name = document["document"].as_str().unwrap();
    let number: u32 = name.trim_start_matches("doc-").trim_end_matches(".xml").parse().unwrap();
    if number % 50 == 11 {
        post.say(&json!({ "member": name.to_uppercase() }));
    }
    if number % 250 == 77 {
        return;
    }
    if number % 100 == 42 {
        let keep = format!("INSERT INTO kept VALUES ('{name}') ON CONFLICT DO NOTHING");
        let kept = Command::new("psql").args([database, "-X", "-q", "-c", &keep]).status();
        assert!(kept.unwrap().success());
        return;
    }
    let ok = number % 10 != 3;
    let times = if number.is_multiple_of(7) { 2 } else { 1 };
    for _ in 0..times {
        if number.is_multiple_of(2) {
            post.say(&json!({ "member": name, "ok": ok, "result": { "receipt": number } }));
        } else {
            http.post(document["callback"].as_str().unwrap(), &json!({ "ok": ok }).to_string());
        }
    }
}

/// The partner's way to the server, which may be down or somewhere else by now.
struct Http {
    port: Arc<AtomicU16>,
}

impl Http {
    fn post(&self, path: &str, body: &str) {
        let begun = std::time::Instant::now();
        while !self.is_answered(path, body) {
            assert!(begun.elapsed() < PATIENCE, "the server takes no answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_answered(&self, path: &str, body: &str) -> bool {
        use std::io::{Read, Write};
        let port = self.port.load(Ordering::SeqCst);
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
            return false;
        };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = String::new();
        let answered = stream.set_read_timeout(Some(PATIENCE)).is_ok()
            && stream.write_all(request.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok();
        // What is busy is sent again; what came too late is an answer.
        answered && ["200", "409"].iter().any(|status| answer.get(9..12) == Some(*status))
    }
}
