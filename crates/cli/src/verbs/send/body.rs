//! The one body of a single send: from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use sendoff::{Error, ErrorKind, Result};

use crate::arguments::SendArguments;

/// Reads the body, at most `bytes_max` and one byte more, so that a limit is noticed without
/// reading the rest.
///
/// # Errors
/// A file that cannot be read; [`ErrorKind::TooLarge`].
pub(super) fn read(arguments: &SendArguments, bytes_max: usize) -> Result<Vec<u8>> {
    match (&arguments.body_file, &arguments.body) {
        (Some(path), _) => {
            let subject = path.display().to_string();
            let file = File::open(path).map_err(|error| failed(&subject, error))?;
            bounded(file, &subject, bytes_max)
        }
        (None, Some(body)) if body.as_bytes() == b"-" => {
            bounded(io::stdin().lock(), "standard input", bytes_max)
        }
        (None, body) => Ok(body.as_ref().map_or_else(Vec::new, |body| body.as_bytes().to_vec())),
    }
}

fn bounded(from: impl Read, subject: &str, bytes_max: usize) -> Result<Vec<u8>> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let mut body = Vec::new();
    from.take(limit.saturating_add(1))
        .read_to_end(&mut body)
        .map_err(|error| failed(subject, error))?;
    if body.len() > bytes_max {
        return Err(Error::new(ErrorKind::TooLarge, "reading the body")
            .subject(subject)
            .detail(format!("it has more than {bytes_max} bytes, the limit"))
            .advice("raise --body-bytes-max where the target takes it; nothing was sent"));
    }
    Ok(body)
}

fn failed(subject: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Invalid, "reading the body")
        .subject(subject)
        .caused_by(error)
        .advice("nothing was sent")
}
