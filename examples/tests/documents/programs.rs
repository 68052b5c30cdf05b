//! The servers and the processes.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sendoff_conformance::servers::{Nats, free_port, fresh_database};

pub(crate) const SERVICE: &str = "service";
pub(crate) const PARTNER: &str = "partner";

/// Nothing here takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two programs, with servers of their own.
pub(crate) struct Programs {
    pub(crate) database: String,
    pub(crate) nats: Nats,
    address: String,
    log: tempfile::TempDir,
    running: Vec<(&'static str, Process)>,
}

/// A process; dropping it kills it.
pub(crate) struct Process(Child);

impl Programs {
    pub(crate) fn new() -> Self {
        Self {
            database: fresh_database().unwrap(),
            nats: Nats::start().unwrap(),
            address: format!("127.0.0.1:{}", free_port().unwrap()),
            log: tempfile::tempdir().unwrap(),
            running: Vec::new(),
        }
    }

    pub(crate) fn spawn(&self, program: &str, arguments: &[&str]) -> Process {
        let path = if program == SERVICE {
            env!("CARGO_BIN_EXE_documents_service")
        } else {
            env!("CARGO_BIN_EXE_documents_partner")
        };
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(path);
        command
            .args(arguments)
            .env("DATABASE_URL", &self.database)
            .env("NATS_URL", self.nats.url())
            .env("HTTP_ADDRESS", &self.address)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Process(command.spawn().unwrap())
    }

    /// Runs the program to its good end.
    pub(crate) async fn run(&self, program: &str, arguments: &[&str]) {
        let status = self.spawn(program, arguments).end().await;
        assert!(status.success(), "{program} {arguments:?}: {status}");
    }

    pub(crate) fn start(&mut self, program: &'static str) {
        let arguments: &[&str] = if program == SERVICE { &["run"] } else { &[] };
        let process = self.spawn(program, arguments);
        self.running.push((program, process));
    }

    /// Kills it in the midst of its work: that it ended before is a failure.
    pub(crate) fn kill(&mut self, program: &str) {
        let at = self.running.iter().position(|(name, _)| *name == program).unwrap();
        let status = self.running.remove(at).1.kill();
        assert_eq!(status.signal(), Some(9), "{program} ended by itself");
    }

    /// Stops it gracefully.
    pub(crate) async fn stop(&mut self, program: &str) {
        let at = self.running.iter().position(|(name, _)| *name == program).unwrap();
        let (_, mut process) = self.running.remove(at);
        process.signal(Signal::TERM);
        let status = process.end().await;
        assert!(status.success(), "{program}: {status}");
    }

    fn log(&self) -> PathBuf {
        self.log.path().join("log")
    }
}

impl Drop for Programs {
    /// Shows what the programs have said, where the test fails.
    fn drop(&mut self) {
        self.running.clear();
        if std::thread::panicking() {
            let said = std::fs::read(self.log()).unwrap_or_default();
            println!("the programs said:\n{}", String::from_utf8_lossy(&said));
        }
    }
}

impl Process {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it with SIGKILL, unless it has ended already.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.0.kill().unwrap();
        self.0.wait().unwrap()
    }

    async fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process has ended", async || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a condition holds; fails the test where it does not in time.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
