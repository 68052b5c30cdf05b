//! A temporary folder in which the program runs, and the processes that run there.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Nothing that the tests do takes this long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A temporary folder. The program runs in it, without any variable of ours.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

/// What a process that has ended said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error on standard error, where it was asked for as JSON: its last line.
    pub(crate) fn error(&self) -> Value {
        let line = self.err.lines().last().unwrap_or_default();
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        value["error"].clone()
    }

    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with a migrated store, `shop.db`, named in its configuration.
    pub(crate) fn with_store() -> Self {
        let folder = Self::new();
        folder.write("sendoff.toml", "store = \"sqlite:shop.db\"\n");
        folder.run(&["migrate"]).ok();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The lines of a file of deliveries.
    pub(crate) fn deliveries(&self, name: &str) -> Vec<Value> {
        let text = self.read(name);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The store's own connection, for rows that the program would never write.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path("shop.db")).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sendoff"));
        command.args(arguments).current_dir(self.0.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SENDOFF_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        Process::spawn(self.command(arguments)).wait()
    }

    /// Runs the program to its end, with variables set.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Said {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        Process::spawn(command).wait()
    }

    /// Runs the program to its end with this on its standard input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        let mut process = Process::spawn(command);
        let mut stdin = process.child.stdin.take().unwrap();
        // A program that refuses its input early closes it: that is its answer, not a failure.
        let _ = stdin.write_all(input);
        drop(stdin);
        process.wait()
    }

    /// Gives the program its standard input and kills it, wherever it is by then.
    pub(crate) fn feed_and_kill(&self, arguments: &[&str], input: &[u8]) {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        let mut process = Process::spawn(command);
        let mut stdin = process.child.stdin.take().unwrap();
        let _ = stdin.write_all(input);
        drop(stdin);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..60)));
        process.signal(Signal::KILL);
        let _ = process.child.wait();
    }

    /// Starts the program.
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::spawn(self.command(arguments))
    }
}

/// A process of the program. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut process_readers = Vec::new();
        let out = gather(child.stdout.take().unwrap(), &mut process_readers);
        let err = gather(child.stderr.take().unwrap(), &mut process_readers);
        Self { child, out, err, readers: process_readers }
    }

    pub(crate) fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    pub(crate) fn err(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the process. A death by signal has the code that a shell gives it.
    pub(crate) fn wait(mut self) -> Said {
        use std::os::unix::process::ExitStatusExt;
        let mut status = None;
        until("the process has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let status = status.unwrap();
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Said { code: code.unwrap(), out: self.out(), err: self.err() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gather(
    from: impl Read + Send + 'static,
    readers: &mut Vec<std::thread::JoinHandle<()>>,
) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let shared = text.clone();
    readers.push(std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
            shared.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }));
    text
}

/// Waits until a condition holds; fails the test where it does not in time.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
