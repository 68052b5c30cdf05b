//! One running server process: started in a process group of its own, signalled by its pid.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to come up or to go.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
const STEP: Duration = Duration::from_millis(5);

/// A running server process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid_file: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `log`, and waits until `ready` says that it serves.
    pub(super) fn start(
        mut command: Command,
        pid_file: PathBuf,
        log: &Path,
        ready: impl Fn(u32) -> bool,
    ) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let mut process = Self { child, pid_file, log: log.to_owned() };
        let pid = process.child.id();
        fs::write(&process.pid_file, pid.to_string())?;
        let begun = Instant::now();
        while !ready(pid) {
            if let Some(status) = process.child.try_wait()? {
                return Err(process.error(&format!("ended with {status} before it served")));
            }
            if begun.elapsed() > PATIENCE {
                return Err(process.error(&format!("did not serve within {PATIENCE:?}")));
            }
            thread::sleep(STEP);
        }
        Ok(process)
    }

    /// Its pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        signal_pid(self.pid(), signal)
    }

    /// Sends a signal and waits for its end; kills it where it does not end in time.
    pub(super) fn end(mut self, signal: Signal) -> io::Result<()> {
        self.stop(signal)
    }

    fn stop(&mut self, signal: Signal) -> io::Result<()> {
        if self.child.try_wait()?.is_none() {
            self.signal(signal)?;
            // A paused process takes other signals only once it goes on.
            self.signal(Signal::CONT)?;
            let begun = Instant::now();
            while self.child.try_wait()?.is_none() {
                if begun.elapsed() > PATIENCE {
                    self.child.kill()?;
                    self.child.wait()?;
                }
                thread::sleep(STEP);
            }
        }
        match fs::remove_file(&self.pid_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn error(&self, what: &str) -> io::Error {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(8)..].join(" | ");
        let name = self.pid_file.file_stem().unwrap_or_default();
        io::Error::other(format!(
            "starting a private {}: it {what}; its log ends: {tail}",
            name.display()
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stop(Signal::QUIT));
    }
}

/// Sends a signal to one process, by its pid.
pub(super) fn signal_pid(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("a pid that is none"))?;
    Ok(kill_process(pid, signal)?)
}

/// Stops a process in its tracks and returns once every thread of it stands: a signal takes effect
/// a moment after it was sent.
pub(super) fn pause_pid(pid: u32) -> io::Result<()> {
    signal_pid(pid, Signal::STOP)?;
    let begun = Instant::now();
    while !stands(pid)? {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other("a server does not stand still after SIGSTOP"));
        }
        thread::sleep(STEP);
    }
    Ok(())
}

/// Whether every thread of a process is stopped, by the state that stands behind the program's name
/// in brackets: "12 (nats-server) T 1 ...".
fn stands(pid: u32) -> io::Result<bool> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'));
        if state == Some(false) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs a command to its end; its words are the error's where it fails.
pub(super) fn run(mut command: Command, doing: &str) -> io::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{doing}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(format!(
        "{doing}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim().replace('\n', " | "),
    )))
}
