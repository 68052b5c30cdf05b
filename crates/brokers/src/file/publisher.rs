//! The publisher to a file.

use std::path::Path;

use async_trait::async_trait;
use sendoff_core::{Error, ErrorKind, Message, PublishError, Publisher, Result};

use crate::file::address::FileAddress;
use crate::file::journal::Journal;
use crate::file::line::write_line;
use crate::file::writer::Writer;

/// Appends messages to a file as lines of JSON. See [`crate::file`] for the line and for what is
/// kept when.
///
/// The file's lock is given up by [`Publisher::close`] or on drop, which waits for the write that
/// is under way.
#[derive(Debug)]
pub struct FilePublisher {
    shown: String,
    writer: Writer,
}

impl FilePublisher {
    /// Opens the file (creates it where it is not there), locks it and cuts off what a crash left
    /// unfinished. Blocks for as long as the file system needs.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] where another writer has it, named if it can be seen;
    /// [`ErrorKind::NotFound`] without its folder; [`ErrorKind::Denied`], [`ErrorKind::ReadOnly`],
    /// [`ErrorKind::DiskFull`] as they say; [`ErrorKind::Invalid`] where it is no regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let address = FileAddress::of(path.as_ref());
        let shown = address.to_string();
        let writer = Writer::start(Journal::open(address)?).map_err(|error| {
            Error::new(ErrorKind::Unexpected, "starting the writer")
                .subject(&shown)
                .caused_by(error)
        })?;
        Ok(Self { shown, writer })
    }
}

/// A message's line; see [`write_line`] for its error.
pub(crate) fn line_of(message: &Message) -> Result<Vec<u8>, PublishError> {
    let mut line = Vec::with_capacity(256 + message.size_bytes() * 9 / 8);
    write_line(message, &mut line)
        .map_err(|_| PublishError::permanent("the message cannot be written as JSON"))?;
    Ok(line)
}

#[async_trait]
impl Publisher for FilePublisher {
    fn address(&self) -> &str {
        &self.shown
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        self.writer.write(line_of(message)?).await
    }

    /// Takes back what waits. A write that the file system is stuck in cannot be taken back.
    async fn reset(&self) {
        self.writer.discard_waiting();
    }

    async fn close(&self) {
        self.writer.close().await;
    }
}

impl Drop for FilePublisher {
    fn drop(&mut self) {
        // So that whoever opens the file next finds it unlocked.
        self.writer.join();
    }
}
