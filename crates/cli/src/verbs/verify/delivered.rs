//! The file of deliveries, read line by line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sendoff::{Error, ErrorKind, Result};
use serde::Deserialize;

/// One delivery, as a line of the file has it.
#[derive(Debug, Deserialize)]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) source: String,
    #[serde(default)]
    pub(super) topic: String,
    pub(super) key: Option<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    body_base64: Option<String>,
}

impl Delivery {
    /// The body's bytes; `None` where the line has none that decodes.
    pub(super) fn body(&self) -> Option<Vec<u8>> {
        match (&self.body, &self.body_base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(text)) => STANDARD.decode(text).ok(),
            _ => None,
        }
    }
}

/// What the file has beside deliveries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// Lines that are no deliveries.
    pub(super) unreadable: u64,
    /// Bytes after the last line feed: a line that was being written at a kill.
    pub(super) torn_bytes: u64,
}

/// Reads every whole line. A file that is not there has none.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(path: &Path, mut each: impl FnMut(&Delivery)) -> Result<Ends> {
    let failed = |error| {
        Error::new(ErrorKind::Unexpected, "reading the deliveries")
            .subject(path.display().to_string())
            .caused_by(error)
    };
    let mut ends = Ends::default();
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ends),
        Err(error) => return Err(failed(error)),
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(ends);
        }
        if line.last() != Some(&b'\n') {
            // Not confirmed, since the relay confirms whole lines that are on the disk.
            ends.torn_bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
            return Ok(ends);
        }
        match serde_json::from_slice::<Delivery>(&line) {
            Ok(delivery) => each(&delivery),
            Err(_) => ends.unreadable += 1,
        }
    }
}
