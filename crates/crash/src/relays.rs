//! The relay processes: start, signal, and what each of them marked.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failed;
use crate::marks::{Counts, Log, Mark, history};

/// How to start a relay.
#[derive(Debug)]
pub struct Relays {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    started: usize,
    /// Those that run, in no order that matters.
    pub live: Vec<RelayProcess>,
    /// Those that were killed or stopped since the last comparison.
    pub dead: Vec<RelayProcess>,
}

/// One relay process.
#[derive(Debug)]
pub struct RelayProcess {
    /// Its number: no other relay of the run has it.
    pub number: usize,
    /// What it marked.
    pub log: Log,
    child: Child,
    words: PathBuf,
    marks: PathBuf,
}

impl Relays {
    /// Relays of the program `program` (this harness's own), whose files go to `folder`.
    #[must_use]
    pub fn new(program: &Path, arguments: Vec<String>, folder: &Path) -> Self {
        Self {
            program: program.to_owned(),
            arguments,
            folder: folder.to_owned(),
            started: 0,
            live: Vec::new(),
            dead: Vec::new(),
        }
    }

    /// Starts one more.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn start(&mut self) -> io::Result<()> {
        let number = self.started;
        self.started += 1;
        let marks = self.folder.join(format!("marks-{number}"));
        let words = self.folder.join(format!("relay-{number}.log"));
        let child = Command::new(&self.program)
            .arg("relay")
            .args(&self.arguments)
            .arg("--marks")
            .arg(&marks)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&words)?)
            .spawn()
            .map_err(|error| failed("starting a relay process", error))?;
        self.live.push(RelayProcess { number, log: Log::new(&marks), child, words, marks });
        Ok(())
    }

    /// Stops all of them in good order, and complains about one that does not end well.
    ///
    /// # Errors
    /// Where one ends with a failure or not within 20 seconds.
    pub fn stop_all(&mut self) -> io::Result<()> {
        for relay in &self.live {
            relay.signal(Signal::TERM)?;
        }
        while let Some(mut relay) = self.live.pop() {
            relay.wait_for_good_end()?;
            self.dead.push(relay);
        }
        Ok(())
    }

    /// How many messages are in each phase, over all live relays, up to the time `until`.
    ///
    /// # Errors
    /// Those of the marks' files.
    pub fn counts(&mut self, until: u64) -> io::Result<Counts> {
        let mut sum = Counts::default();
        for relay in &mut self.live {
            sum += relay.log.counts(until)?;
        }
        Ok(sum)
    }

    /// Every log since the last comparison, with its relay's number.
    pub fn logs(&mut self) -> impl Iterator<Item = (usize, &mut Log)> {
        self.live.iter_mut().chain(&mut self.dead).map(|relay| (relay.number, &mut relay.log))
    }

    /// What every relay since the last comparison marked of these messages, in the order of time:
    /// when, which relay, what.
    ///
    /// # Errors
    /// Those of the marks' files.
    pub fn history(&self, of: impl Fn(u128) -> bool) -> io::Result<Vec<(usize, Mark)>> {
        let mut marks = Vec::new();
        for relay in self.live.iter().chain(&self.dead) {
            let own = history(&relay.marks, &of)?;
            marks.extend(own.into_iter().map(|mark| (relay.number, mark)));
        }
        marks.sort_by_key(|(_, mark)| mark.at);
        Ok(marks)
    }

    /// A comparison is over: forgets what is not needed any more.
    pub fn forget(&mut self) {
        self.dead.clear();
        for relay in &mut self.live {
            relay.log.forget();
        }
    }

    /// Fails where a relay ended that nobody killed.
    ///
    /// # Errors
    /// Names the relay and quotes its last words.
    pub fn check_alive(&mut self) -> io::Result<()> {
        for relay in &mut self.live {
            if let Some(status) = relay.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "relay {} ended by itself with {status}; it said: {}",
                    relay.number,
                    relay.last_words()
                )));
            }
        }
        Ok(())
    }
}

impl RelayProcess {
    /// Sends a signal.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("a relay without a pid"))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Kills it with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// The end of what it said.
    #[must_use]
    pub fn last_words(&self) -> String {
        let words = std::fs::read(&self.words).unwrap_or_default();
        let text = String::from_utf8_lossy(&words);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(6)..].join(" | ")
    }

    fn wait_for_good_end(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(io::Error::other(format!(
                        "relay {} ended a graceful stop with {status}; it said: {}",
                        self.number,
                        self.last_words()
                    )));
                }
                None if begun.elapsed() > Duration::from_secs(20) => {
                    return Err(io::Error::other(format!(
                        "relay {} did not end within 20 s of SIGTERM; it said: {}",
                        self.number,
                        self.last_words()
                    )));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        // Gone already, in most cases.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
