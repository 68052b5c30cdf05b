//! The file itself: opened, locked, mended, appended to and synced. All of it blocks.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind as IoKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sendoff_core::publisher::PublishClass;
use sendoff_core::{Error, ErrorKind, PublishError, Result};

use crate::file::address::FileAddress;
use crate::file::lock::{self, LockError};
use crate::file::writer::Sink;

const OPENING: &str = "opening the target";

/// A file of lines that this process alone appends to.
#[derive(Debug)]
pub(crate) struct Journal {
    address: FileAddress,
    /// None where it has to be opened anew before the next write.
    open: Option<Open>,
    sync: fn(&File) -> io::Result<()>,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
}

impl Journal {
    /// Opens and locks the file, creates it where it is not there, and cuts off a torn tail.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] where another writer has it; [`ErrorKind::Invalid`] where it is no
    /// regular file; else by what the system says.
    pub(crate) fn open(address: FileAddress) -> Result<Self> {
        let open = Open::at(&address)?;
        Ok(Self { address, open: Some(open), sync: File::sync_data })
    }

    /// The open file and its length, at the path as it is now.
    fn ready(&mut self) -> Result<(&mut File, u64)> {
        let rotated = self.open.as_ref().is_some_and(|open| !open.is_at(self.path()));
        if rotated {
            // Everything in it was synced; closing it gives up its lock.
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::at(&self.address)?,
        };
        let length = open.file.metadata().map_err(|error| refused(&self.address, error))?.len();
        Ok((&mut self.open.insert(open).file, length))
    }

    fn path(&self) -> &Path {
        self.address.path()
    }
}

impl Sink for Journal {
    fn commit(&mut self, lines: &[u8]) -> Result<(), PublishError> {
        let (address, sync) = (self.address.clone(), self.sync);
        let (file, length_before) =
            self.ready().map_err(|error| PublishError::unreachable(error.to_string()))?;
        if let Err(error) = file.write_all(lines) {
            let cut = file.set_len(length_before);
            let because = reason(&error);
            if cut.is_ok() {
                return Err(PublishError::unreachable(format!(
                    "cannot write to {address}: {because}"
                )));
            }
            self.open = None;
            return Err(PublishError::new(
                PublishClass::Lost,
                format!("cannot write to {address}: {because}, nor cut off what was written"),
            ));
        }
        if let Err(error) = sync(file) {
            // The kernel may have dropped what it could not write and would not tell again.
            self.open = None;
            return Err(PublishError::new(
                PublishClass::Lost,
                format!(
                    "cannot sync {address}: {}; it is unknown which lines are on the disk",
                    reason(&error)
                ),
            ));
        }
        Ok(())
    }
}

impl Open {
    fn at(address: &FileAddress) -> Result<Self> {
        /// How often a file may be exchanged at the path while it is being opened.
        const TRIES: usize = 8;
        let path = address.path();
        for _ in 0..TRIES {
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .open(path)
                .map_err(|error| refused(address, error))?;
            let metadata = file.metadata().map_err(|error| refused(address, error))?;
            if !metadata.is_file() {
                return Err(Error::invalid(OPENING, "it is not a regular file")
                    .subject(address.to_string())
                    .advice("give the path of a file, or use stdout:"));
            }
            take_lock(&file, address)?;
            let mut open = Self { file, identity: (metadata.dev(), metadata.ino()) };
            // Locked, but is it still the file at the path?
            if open.is_at(path) {
                open.mend(address)?;
                return Ok(open);
            }
        }
        Err(Error::new(ErrorKind::Unexpected, OPENING)
            .subject(address.to_string())
            .detail("the file at the path is exchanged again and again"))
    }

    fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }

    fn mend(&mut self, address: &FileAddress) -> Result<()> {
        let failed = |error| refused(address, error);
        let cut = cut_torn_tail(&mut self.file).map_err(failed)?;
        if cut > 0 {
            tracing::warn!(target = %address, bytes = cut, "cut off an unfinished line");
        }
        sync_folder(address.path()).map_err(failed)
    }
}

fn take_lock(file: &File, address: &FileAddress) -> Result<()> {
    lock::lock(file).map_err(|error| match error {
        LockError::Failed(error) => refused(address, error),
        LockError::Held(holder) => Error::new(ErrorKind::Locked, OPENING)
            .subject(address.to_string())
            .detail(match holder {
                Some(holder) => format!("{holder} is writing to it"),
                None => "another process is writing to it".to_owned(),
            })
            .advice("stop the other writer, or write to another file"),
    })
}

/// Cuts the file after its last line feed and tells how many bytes went.
fn cut_torn_tail(file: &mut File) -> io::Result<u64> {
    const CHUNK: u64 = 64 << 10;
    let length = file.metadata()?.len();
    let mut end = length;
    let mut chunk = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(start))?;
        chunk.clear();
        file.take(end - start).read_to_end(&mut chunk)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length {
        file.set_len(end)?;
    }
    Ok(length - end)
}

/// Makes the file's name as durable as what is in it.
fn sync_folder(path: &Path) -> io::Result<()> {
    let real: PathBuf = path.canonicalize()?;
    let folder = File::open(real.parent().unwrap_or(Path::new("/")))?;
    match folder.sync_all() {
        // Some file systems sync no folders; they have nothing to sync.
        Err(error) if error.kind() == IoKind::InvalidInput => Ok(()),
        outcome => outcome,
    }
}

fn refused(address: &FileAddress, error: io::Error) -> Error {
    let (kind, advice) = match error.kind() {
        IoKind::NotFound => (ErrorKind::NotFound, Some("create the folder first")),
        IoKind::PermissionDenied => {
            (ErrorKind::Denied, Some("let this user write to the file and its folder"))
        }
        IoKind::IsADirectory => (ErrorKind::Invalid, Some("give the path of a file")),
        IoKind::ReadOnlyFilesystem => (ErrorKind::ReadOnly, Some("write to another file system")),
        _ if is_full(&error) => (ErrorKind::DiskFull, None),
        _ => (ErrorKind::Unexpected, None),
    };
    let mut refused = Error::new(kind, OPENING).subject(address.to_string());
    if let Some(advice) = advice {
        refused = refused.advice(advice);
    }
    refused.caused_by(error)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), IoKind::StorageFull | IoKind::QuotaExceeded | IoKind::FileTooLarge)
}

fn reason(error: &io::Error) -> String {
    if is_full(error) {
        format!("disk full ({error}); free space, nothing was lost")
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io;
    use std::path::Path;

    use sendoff_core::ErrorKind;
    use sendoff_core::publisher::PublishClass;

    use super::Journal;
    use crate::file::address::FileAddress;
    use crate::file::writer::Sink;

    fn open(path: &Path) -> sendoff_core::Result<Journal> {
        Journal::open(FileAddress::of(path))
    }

    #[test]
    fn a_torn_tail_is_cut_to_the_last_line_feed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let long = "x".repeat(200_000);
        for (before, after) in [
            ("", ""),
            ("one\n", "one\n"),
            ("one\ntw", "one\n"),
            ("on", ""),
            (&format!("one\n{long}"), "one\n"),
            (&format!("{long}\n{long}\n"), &format!("{long}\n{long}\n")),
            (&long, ""),
        ] {
            fs::write(&path, before).unwrap();
            let mut journal = open(&path).unwrap();
            journal.commit(b"next\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{after}next\n"));
        }
    }

    #[test]
    fn a_second_writer_is_refused_by_the_name_of_the_first_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let first = open(&path).unwrap();
        // As if the first were in the middle of a line: the second must not cut it off.
        fs::write(&path, "one\ntw").unwrap();
        let error = open(&path).expect_err("locked");
        assert_eq!(error.kind(), ErrorKind::Locked);
        let holder = format!("(process {}) is writing to it", std::process::id());
        assert!(error.to_string().contains(&holder), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntw");
        drop(first);
        open(&path).unwrap();
    }

    #[test]
    fn a_file_that_was_renamed_or_removed_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let rotated = folder.path().join("out.jsonl.1");
        let mut journal = open(&path).unwrap();
        journal.commit(b"one\n").unwrap();
        fs::rename(&path, &rotated).unwrap();
        journal.commit(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&rotated).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        fs::remove_file(&path).unwrap();
        journal.commit(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        // The lock went along.
        assert_eq!(open(&path).unwrap_err().kind(), ErrorKind::Locked);
        open(&rotated).unwrap();
    }

    #[test]
    fn a_file_that_was_emptied_in_place_goes_on_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut journal = open(&path).unwrap();
        journal.commit(b"one\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        journal.commit(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn after_a_failed_sync_the_outcome_is_unknown_and_the_file_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut journal = open(&path).unwrap();
        journal.sync = |_| Err(io::Error::from_raw_os_error(5));
        let error = journal.commit(b"one\n").unwrap_err();
        assert_eq!(error.class(), PublishClass::Lost);
        assert!(journal.open.is_none());
        // A crash of the machine took half of what was not synced.
        fs::write(&path, "on").unwrap();
        journal.sync = File::sync_data;
        journal.commit(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn what_cannot_be_opened_says_why_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        for (path, kind, advice) in [
            (folder.path().join("no/out.jsonl"), ErrorKind::NotFound, "create the folder"),
            (folder.path().to_owned(), ErrorKind::Invalid, "give the path of a file"),
            ("/dev/null".into(), ErrorKind::Invalid, "not a regular file"),
        ] {
            let error = open(&path).expect_err("refused");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
