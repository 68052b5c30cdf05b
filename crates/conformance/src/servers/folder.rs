//! A server's temporary folder, with a guard that cleans up when this process cannot.
//!
//! Rust runs no `Drop` for statics, nor when a process is killed. So each folder has a small shell
//! beside it that waits for its standard input to end, which it does however this process ends,
//! then stops the servers whose pid files lie in the folder, and removes it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt;

use super::program::Account;

/// QUIT stops PostgreSQL without waiting for its clients and stops NATS too; a paused server takes
/// it once it goes on.
const GUARD: &str = r#"
trap '' HUP INT TERM
cat >/dev/null
[ -d "$1" ] || exit 0
for file in "$1"/*.pid; do
    pid=$(cat "$file") || continue
    kill -QUIT "$pid" && kill -CONT "$pid"
    tries=0
    while kill -0 "$pid" && [ "$tries" -lt 70 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -KILL "$pid"
done 2>/dev/null
rm -rf "$1"
"#;

/// A temporary folder that goes away with this process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    guard: Child,
    lifeline: Option<ChildStdin>,
}

impl Folder {
    /// Makes a folder that belongs to `account`.
    pub(super) fn new(account: &Account) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix("sendoff-servers-").tempdir()?.keep();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sendoff-servers-guard"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to our process group (Ctrl-C, a runner's timeout) must not take the guard.
            .process_group(0)
            .spawn()
            .inspect_err(|_| drop(std::fs::remove_dir_all(&path)))?;
        let lifeline = guard.stdin.take();
        let folder = Self { path, guard, lifeline };
        account.own(&folder.path)?;
        Ok(folder)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a server's pid stands while it runs, for the guard.
    pub(super) fn pid_file(&self, server: &str) -> PathBuf {
        self.path.join(format!("{server}.pid"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        drop(self.guard.wait());
    }
}
