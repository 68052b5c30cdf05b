//! A private NATS server with JetStream on files.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::folder::Folder;
use super::port::free_port;
use super::process::{Process, pause_pid};
use super::program::{Account, nats_server};

/// A private NATS server with JetStream on a loopback port. Dropping it stops it and removes its
/// streams.
#[derive(Debug)]
pub struct Nats {
    // Before the folder, so that the server ends before its data goes.
    process: Option<Process>,
    program: PathBuf,
    config: NatsConfig,
    port: u16,
    folder: Folder,
}

/// How to run a private NATS server.
#[derive(Debug, Clone, Default)]
pub struct NatsConfig {
    /// Further lines of the server's configuration file, such as `max_payload: 4MB`.
    pub lines: Vec<String>,
}

impl Nats {
    /// Starts a server with the default [`NatsConfig`].
    ///
    /// # Errors
    /// Where `nats-server` is not installed (the Debian package is named), or it does not start
    /// (the end of its log is quoted).
    pub fn start() -> io::Result<Self> {
        Self::start_with(NatsConfig::default())
    }

    /// Starts a server.
    ///
    /// # Errors
    /// Those of [`Nats::start`].
    pub fn start_with(config: NatsConfig) -> io::Result<Self> {
        let program = nats_server()?;
        let folder = Folder::new(&Account::Own)?;
        let mut nats = Self { process: None, program, config, port: 0, folder };
        let mut tries = 0;
        loop {
            nats.port = free_port()?;
            match nats.launch() {
                Ok(process) => nats.process = Some(process),
                // Somebody may have taken the port since.
                Err(_) if tries < 3 => {
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            return Ok(nats);
        }
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// Where the signal cannot be sent. A server that is down already stays down.
    pub fn kill(&mut self) -> io::Result<()> {
        self.end(Signal::KILL)
    }

    /// Stops it in good order.
    ///
    /// # Errors
    /// Where the signal cannot be sent. A server that is down already stays down.
    pub fn stop(&mut self) -> io::Result<()> {
        self.end(Signal::INT)
    }

    /// Starts it again on the same port and streams, after a SIGKILL if it runs still, and returns
    /// when it accepts connections.
    ///
    /// # Errors
    /// Where it does not start; the end of its log is quoted.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        self.process = Some(self.launch()?);
        Ok(())
    }

    /// Stops it in its tracks (SIGSTOP): connections stay open, nothing answers.
    ///
    /// # Errors
    /// Where the server is down or the signal cannot be sent.
    pub fn pause(&self) -> io::Result<()> {
        pause_pid(self.running()?.pid())
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// Where the server is down or the signal cannot be sent.
    pub fn resume(&self) -> io::Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    fn running(&self) -> io::Result<&Process> {
        self.process.as_ref().ok_or_else(|| io::Error::other("the private NATS server is down"))
    }

    fn end(&mut self, signal: Signal) -> io::Result<()> {
        match self.process.take() {
            Some(process) => process.end(signal),
            None => Ok(()),
        }
    }

    fn launch(&self) -> io::Result<Process> {
        let file = self.folder.path().join("nats.conf");
        let mut text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: {:?} }}\n",
            self.port,
            self.folder.path().join("streams"),
        );
        for line in &self.config.lines {
            text.push_str(line);
            text.push('\n');
        }
        fs::write(&file, text)?;
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&file);
        Process::start(
            command,
            self.folder.pid_file("nats"),
            &self.folder.path().join("nats.log"),
            |_| serves(self.port),
        )
    }
}

/// Whether a NATS server with JetStream greets on the port. It recovers its streams before it
/// listens.
fn serves(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else {
        return false;
    };
    if stream.set_read_timeout(Some(Duration::from_secs(2))).is_err() {
        return false;
    }
    let mut greeting = String::new();
    BufReader::new(stream).read_line(&mut greeting).is_ok()
        && greeting.starts_with("INFO ")
        && greeting.contains("\"jetstream\":true")
}
