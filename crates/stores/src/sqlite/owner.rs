//! Processes of this machine: who this one is, and whether another one has died.
//!
//! A relay that was killed leaves its lease behind. On the same machine the next one need not wait
//! for the lease to lapse: the kernel knows that the process is gone. Every doubt is decided for the
//! living: another machine, another boot, another process id namespace, an unreadable `/proc`.
//!
//! What does not belong here: leases. See `lease.rs`.

use std::fs;
use std::io;

/// What tells a process from every other one, as the table of relays keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    /// The machine's name; `None` where the kernel does not say.
    pub(super) host: Option<String>,
    /// The machine's boot and the process id namespace (a container has its own).
    pub(super) boot_id: Option<String>,
    pub(super) pid: i64,
    /// When it started, in clock ticks since the boot, so that a reused process id is told apart.
    pub(super) started: Option<i64>,
}

impl Process {
    /// This process.
    pub(super) fn this() -> Self {
        let pid = i64::from(std::process::id());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let namespace = fs::read_link("/proc/self/ns/pid").ok();
        Self {
            host: fs::read_to_string("/proc/sys/kernel/hostname")
                .ok()
                .map(|name| name.trim().to_owned()),
            boot_id: boot
                .zip(namespace)
                .map(|(boot, namespace)| format!("{} {}", boot.trim(), namespace.display())),
            pid,
            started: Life::of(pid).ok().map(|life| life.started),
        }
    }
}

/// Whether a process of this machine, boot and namespace has ended for certain.
pub(super) fn is_gone(pid: i64, started: Option<i64>) -> bool {
    let Some(id) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    // Asked first, since /proc may hide other users' processes.
    if rustix::process::test_kill_process(id) == Err(rustix::io::Errno::SRCH) {
        return true;
    }
    match (Life::of(pid), started) {
        (Ok(life), Some(started)) => life.started != started || life.is_over,
        (Ok(life), None) => life.is_over,
        (Err(_), _) => false,
    }
}

/// What `/proc/PID/stat` says of a process.
struct Life {
    started: i64,
    /// It has ended and its parent has not fetched its status. A main thread that ended before
    /// the others looks the same but for the number of threads.
    is_over: bool,
}

impl Life {
    fn of(pid: i64) -> io::Result<Self> {
        let line = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&line).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// The program's name stands in parentheses and may hold spaces and parentheses of its own.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        // proc_pid_stat(5) counts from 1: here field 3 (the state) comes first.
        let mut fields = rest.split_whitespace();
        let state = fields.next()?;
        let threads: i64 = fields.nth(16)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        Some(Self { started, is_over: matches!(state, "Z" | "X" | "x") && threads <= 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "42 (a ) (b) R 1 42 42 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 7 0 123456 1 2";
        let life = Life::parse(line).unwrap();
        assert_eq!(life.started, 123_456);
        assert!(!life.is_over);
    }

    #[test]
    fn this_process_is_not_gone_and_is_gone_under_another_start_time() {
        let this = Process::this();
        assert!(this.started.is_some());
        assert!(!is_gone(this.pid, this.started));
        assert!(is_gone(this.pid, this.started.map(|ticks| ticks + 1)));
        assert!(!is_gone(this.pid, None));
    }

    #[test]
    fn a_child_is_gone_once_it_is_dead_fetched_or_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i64::from(child.id());
        let started = Life::of(pid).unwrap().started;
        assert!(!is_gone(pid, Some(started)));
        child.kill().unwrap();
        // Dead and not fetched: the kernel turns it into a zombie a moment after the kill.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !is_gone(pid, Some(started)) {
            assert!(std::time::Instant::now() < patience);
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_gone(pid, Some(started)));
    }
}
