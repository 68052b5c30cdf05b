//! The publisher to standard output.

use std::io::{self, ErrorKind as IoKind, Write};
use std::sync::OnceLock;

use async_trait::async_trait;
use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, PublishError, Publisher};

use crate::file::publisher::line_of;
use crate::file::writer::{Sink, Writer};

/// Writes messages to standard output as the lines of JSON that a file has. Confirmed means written
/// and flushed: what reads them owns them from there.
#[derive(Debug, Default)]
pub struct StdoutPublisher {
    writer: OnceLock<Result<Writer, PublishError>>,
}

impl StdoutPublisher {
    /// A publisher to this process's standard output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn writer(&self) -> Result<&Writer, PublishError> {
        self.writer
            .get_or_init(|| {
                Writer::start(Stdout).map_err(|error| {
                    PublishError::unreachable(format!("no thread for standard output: {error}"))
                })
            })
            .as_ref()
            .map_err(Clone::clone)
    }
}

struct Stdout;

impl Sink for Stdout {
    fn commit(&mut self, lines: &[u8]) -> Result<(), PublishError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(lines).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            IoKind::BrokenPipe => PublishError::unreachable(
                "nobody reads standard output any more (broken pipe): start again with a reader",
            ),
            _ => PublishError::new(
                PublishClass::Lost,
                format!("cannot write to standard output: {error}"),
            ),
        })
    }
}

#[async_trait]
impl Publisher for StdoutPublisher {
    fn address(&self) -> &'static str {
        "stdout:"
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        self.writer()?.write(line_of(message)?).await
    }

    async fn reset(&self) {
        if let Some(Ok(writer)) = self.writer.get() {
            writer.discard_waiting();
        }
    }

    async fn close(&self) {
        if let Ok(writer) = self.writer() {
            writer.close().await;
        }
    }
}
