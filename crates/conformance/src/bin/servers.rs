//! `sendoff-servers`: one private PostgreSQL and one private NATS server for a whole test run.
//!
//! `sendoff-servers COMMAND [ARGUMENT]...` runs the command with the variables that point Sendoff's
//! tests at the two, and ends with the command's exit code. Without a command it prints the
//! variables as `export` lines and runs until its standard input ends or it gets SIGTERM or SIGINT.
//! Either way it stops what it started, also when it is killed.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use sendoff_conformance::servers::{NATS_URL, Nats, POSTGRES_URL, Postgres};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot::error::RecvError;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            drop(writeln!(io::stderr(), "sendoff-servers: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Taken before the servers start: a signal meanwhile must not leave them behind.
    let (mut term, mut interrupt) = runtime.block_on(async {
        io::Result::Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    })?;
    let postgres = Postgres::start()?;
    let nats = Nats::start()?;
    let variables = [(POSTGRES_URL, postgres.url()), (NATS_URL, nats.url())];
    let mut arguments = std::env::args_os().skip(1);
    let mut command = None;
    let ended = if let Some(program) = arguments.next() {
        let mut child = Command::new(program).args(arguments).envs(variables).spawn()?;
        command = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        on_thread(move || child.wait())
    } else {
        let mut out = io::stdout().lock();
        for (name, value) in variables {
            writeln!(out, "export {name}='{value}'")?;
        }
        out.flush()?;
        on_thread(|| {
            io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink())?;
            Ok(ExitStatus::default())
        })
    };
    runtime.block_on(async {
        tokio::pin!(ended);
        let stopped = tokio::select! {
            status = &mut ended => return code_of(status),
            _ = term.recv() => ExitCode::from(143),
            _ = interrupt.recv() => ExitCode::from(130),
        };
        let Some(command) = command else {
            return Ok(stopped);
        };
        // The command has to be gone before its servers go. A pid that is gone already is fine.
        let _ = kill_process(command, Signal::TERM);
        code_of(ended.await)
    })
}

/// The exit code to end with, once the command or the standard input has ended.
fn code_of(ended: Result<io::Result<ExitStatus>, RecvError>) -> io::Result<ExitCode> {
    let status = ended.map_err(io::Error::other)??;
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        // As a shell says it.
        (None, signal) => 128 + signal.unwrap_or(0),
    };
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Blocking work on a thread that does not keep the program from ending.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> tokio::sync::oneshot::Receiver<T> {
    let (done, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(done.send(work())));
    ended
}
