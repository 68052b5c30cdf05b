//! The broker, and what a consumer finds there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::jetstream::{self, consumer::DeliverPolicy, consumer::pull};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use sendoff_conformance::servers::Nats;
use serde_json::Value;

use crate::failed;
use crate::ledger::Arrival;

const STREAM: &str = "CRASH";

/// How long the next delivery may take when the stream says that there is one.
const PATIENCE: Duration = Duration::from_secs(20);

/// The broker of a run.
pub(super) enum Broker {
    /// JetStream, read by an ordered consumer.
    Nats {
        /// The server.
        server: Nats,
        /// The stream's last message that was read.
        seen: u64,
    },
    /// A file of JSON lines.
    File {
        /// Where.
        path: PathBuf,
        /// Bytes that were read.
        seen: usize,
    },
}

impl Broker {
    pub(super) async fn nats(dedup_window: Duration) -> io::Result<Self> {
        let server = Nats::start()?;
        let stream = jetstream::stream::Config {
            name: STREAM.to_owned(),
            subjects: vec![format!("{STREAM}.>")],
            duplicate_window: dedup_window,
            ..jetstream::stream::Config::default()
        };
        jetstream(&server)
            .await?
            .create_stream(stream)
            .await
            .map_err(|error| failed("making the stream", error))?;
        Ok(Self::Nats { server, seen: 0 })
    }

    pub(super) fn file(folder: &Path) -> Self {
        Self::File { path: folder.join("out.jsonl"), seen: 0 }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Nats { server, .. } => format!("{}/{STREAM}", server.url()),
            Self::File { path, .. } => format!("file:{}", path.display()),
        }
    }

    pub(super) async fn arrived(&mut self) -> io::Result<Vec<Arrival>> {
        match self {
            Self::Nats { server, seen } => arrived_in_stream(server, seen).await,
            Self::File { path, seen } => arrived_in_file(path, seen),
        }
    }

    pub(super) fn crash(&mut self, down: Duration) -> io::Result<()> {
        let server = self.server()?;
        server.kill()?;
        std::thread::sleep(down);
        server.restart()
    }

    pub(super) fn silence(&mut self, silent: Duration) -> io::Result<()> {
        let server = self.server()?;
        server.pause()?;
        std::thread::sleep(silent);
        server.resume()
    }

    fn server(&mut self) -> io::Result<&mut Nats> {
        match self {
            Self::Nats { server, .. } => Ok(server),
            Self::File { .. } => Err(io::Error::other("a file has no server")),
        }
    }
}

async fn jetstream(server: &Nats) -> io::Result<jetstream::Context> {
    let client = async_nats::connect(server.url())
        .await
        .map_err(|error| failed("connecting to the broker", error))?;
    Ok(jetstream::new(client))
}

async fn arrived_in_stream(server: &Nats, seen: &mut u64) -> io::Result<Vec<Arrival>> {
    let doing = "reading the stream";
    let stream =
        jetstream(server).await?.get_stream(STREAM).await.map_err(|error| failed(doing, error))?;
    let last = stream.cached_info().state.last_sequence;
    let mut arrivals = Vec::new();
    if last <= *seen {
        return Ok(arrivals);
    }
    let consumer = stream
        .create_consumer(pull::OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *seen + 1 },
            ..pull::OrderedConfig::default()
        })
        .await
        .map_err(|error| failed(doing, error))?;
    let mut messages = consumer.messages().await.map_err(|error| failed(doing, error))?;
    while *seen < last {
        let message = tokio::time::timeout(PATIENCE, messages.next())
            .await
            .map_err(|_| failed(doing, format!("nothing came after message {seen} of {last}")))?
            .ok_or_else(|| failed(doing, "it ended early"))?
            .map_err(|error| failed(doing, error))?;
        *seen = message.info().map_err(|error| failed(doing, error))?.stream_sequence;
        let header = |name: &str| {
            let value = message.headers.as_ref()?.get(name)?;
            Some(value.as_str().to_owned())
        };
        arrivals.push(Arrival {
            dedup_id: header("Nats-Msg-Id").unwrap_or_default(),
            key: header("Sendoff-Key"),
            body: message.payload.to_vec(),
        });
    }
    Ok(arrivals)
}

fn arrived_in_file(path: &Path, seen: &mut usize) -> io::Result<Vec<Arrival>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let new = text
        .get(*seen..)
        .ok_or_else(|| failed("reading the file", "lines that were read are gone"))?;
    let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    *seen += whole;
    new[..whole]
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            arrival_of_line(line)
                .ok_or_else(|| failed("reading the file", "a line does not decode"))
        })
        .collect()
}

fn arrival_of_line(line: &[u8]) -> Option<Arrival> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    let body = match text("body_base64") {
        Some(encoded) => STANDARD.decode(encoded).ok()?,
        None => text("body")?.as_bytes().to_vec(),
    };
    Some(Arrival {
        dedup_id: format!("{}/{}", text("source")?, text("id")?),
        key: text("key").map(str::to_owned),
        body,
    })
}
