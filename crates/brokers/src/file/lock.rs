//! One writer per file: `flock`, held as long as the file is open.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;

/// Why a file could not be locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another writer has it; who, where the system says so.
    Held(Option<String>),
    Failed(io::Error),
}

/// Locks the open file, without waiting. The lock goes when the file is closed.
pub(crate) fn lock(file: &File) -> Result<(), LockError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LockError::Held(holder(file))),
        Err(TryLockError::Error(error)) => Err(LockError::Failed(error)),
    }
}

/// Who holds the lock: `sendoff (process 42)`. From `/proc`, so only on Linux, and only where the
/// holder can be seen from here.
fn holder(file: &File) -> Option<String> {
    let inode = file.metadata().ok()?.ino();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| holder_in(line, inode))?;
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => Some(format!("{} (process {pid})", name.trim())),
        Err(_) => Some(format!("process {pid}")),
    }
}

/// `1: FLOCK  ADVISORY  WRITE 42 08:01:131072 0 EOF`. The device is not compared: on some file
/// systems it is not the one that the file itself tells.
fn holder_in(line: &str, inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, _, mode) = (words.next()?, words.next()?, words.next()?);
    let pid = words.next()?.parse().ok().filter(|pid| *pid > 0)?;
    let at = words.next()?.rsplit(':').next()?.parse::<u64>().ok()?;
    (kind == "FLOCK" && mode == "WRITE" && at == inode).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::holder_in;

    #[test]
    fn the_holder_is_read_from_the_systems_table() {
        let line = "3: FLOCK  ADVISORY  WRITE 4242 fe:01:131072 0 EOF";
        assert_eq!(holder_in(line, 131_072), Some(4242));
        assert_eq!(holder_in(line, 131_073), None);
        assert_eq!(holder_in("3: -> FLOCK ADVISORY WRITE 9 fe:01:131072 0 EOF", 131_072), None);
        assert_eq!(holder_in("1: POSIX  ADVISORY  WRITE 9 fe:01:131072 0 EOF", 131_072), None);
        assert_eq!(holder_in("1: FLOCK  ADVISORY  WRITE -1 fe:01:131072 0 EOF", 131_072), None);
        assert_eq!(holder_in("", 1), None);
    }
}
