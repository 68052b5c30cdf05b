//! What the machine has and what a run took of it: durable writes a second, processor time.
//!
//! Reads `/proc`, so Linux only. No server is asked anything here.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::failure::{Doing, Result};
use crate::figures::{median, to_f64};

/// Measures how many times a second a page can be made durable, one after the other: what a
/// database's commits are bounded by when nobody shares a flush.
///
/// A virtual disk's figure changes with what its neighbours and the last seconds' writes have used
/// up, so it is sampled again and again over a run.
#[derive(Debug)]
pub(crate) struct DiskProbe {
    file: File,
    samples: Vec<f64>,
}

impl DiskProbe {
    const PAGE_BYTES: usize = 8_192;
    const PAGES: u64 = 512;
    const DOING: &str = "measuring fdatasync";

    /// Makes an unnamed file in `folder`, written once in full, as write-ahead log segments are, so
    /// that no sync has to grow it.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let mut file = tempfile::tempfile_in(folder).doing(Self::DOING)?;
        for _ in 0..Self::PAGES {
            file.write_all(&[0; Self::PAGE_BYTES]).doing(Self::DOING)?;
        }
        file.sync_all().doing(Self::DOING)?;
        Ok(Self { file, samples: Vec::new() })
    }

    /// Takes a sample of this length.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn sample(&mut self, time: Duration) -> Result<()> {
        let page = [7_u8; Self::PAGE_BYTES];
        let page_bytes = u64::try_from(Self::PAGE_BYTES).unwrap_or(u64::MAX);
        let start = Instant::now();
        let mut syncs = 0_u64;
        while start.elapsed() < time {
            let position = syncs % Self::PAGES * page_bytes;
            self.file
                .seek(SeekFrom::Start(position))
                .and_then(|_| self.file.write_all(&page))
                .and_then(|()| self.file.sync_data())
                .doing(Self::DOING)?;
            syncs += 1;
        }
        self.samples.push((to_f64(syncs) / start.elapsed().as_secs_f64()).round());
        Ok(())
    }

    /// The samples' smallest, median and largest.
    pub(crate) fn per_s(&self) -> DiskRate {
        let extreme =
            |pick: fn(f64, f64) -> f64| self.samples.iter().copied().reduce(pick).unwrap_or(0.0);
        DiskRate {
            slowest: extreme(f64::min),
            median: median(self.samples.clone()).round(),
            fastest: extreme(f64::max),
        }
    }
}

/// Durable page writes a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskRate {
    /// The slowest sample.
    pub(crate) slowest: f64,
    /// The middle one.
    pub(crate) median: f64,
    /// The fastest one.
    pub(crate) fastest: f64,
}

/// How many processors this program may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processor time, user and system together, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Cpu {
    /// This program.
    pub(crate) client_us: f64,
    /// PostgreSQL, all of its processes, those that have ended included.
    pub(crate) postgres_us: f64,
    /// The NATS server.
    pub(crate) nats_us: f64,
}

impl Cpu {
    /// What was taken so far. The servers' figures have a resolution of 10 ms.
    pub(crate) fn now(postmaster: u32, nats: u32) -> Self {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            client_us: Duration::new(
                u64::try_from(own.tv_sec).unwrap_or(0),
                u32::try_from(own.tv_nsec).unwrap_or(0),
            )
            .as_secs_f64()
                * 1e6,
            postgres_us: family_us(postmaster),
            nats_us: family_us(nats),
        }
    }

    /// What was taken since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            client_us: self.client_us - earlier.client_us,
            postgres_us: self.postgres_us - earlier.postgres_us,
            nats_us: self.nats_us - earlier.nats_us,
        }
    }

    /// All three together.
    pub(crate) fn total_us(self) -> f64 {
        self.client_us + self.postgres_us + self.nats_us
    }
}

/// The time of a process, of its children, and of the children that have ended.
fn family_us(pid: u32) -> f64 {
    let mut ticks = 0;
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0.0;
    };
    for entry in entries.flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some(stat) = Stat::parse(&stat) else {
            continue;
        };
        if stat.pid == pid {
            ticks += stat.own_ticks + stat.ended_children_ticks;
        } else if stat.parent == pid {
            ticks += stat.own_ticks;
        }
    }
    to_f64(ticks) * 1e6 / to_f64(rustix::param::clock_ticks_per_second())
}

/// The process that this one started and whose program has this name (its first 15 characters, as
/// the kernel keeps them).
pub(crate) fn child_named(name: &str) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?;
    entries.flatten().find_map(|entry| {
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, after) = text.split_once('(')?;
        let (found, _) = after.rsplit_once(')')?;
        let stat = Stat::parse(&text)?;
        (found == name && stat.parent == std::process::id()).then_some(stat.pid)
    })
}

/// The most memory that a process has had at once so far, in KiB; `None` where it has ended.
pub(crate) fn peak_resident_kib(pid: u32) -> Option<u64> {
    memory_kib(pid, "VmHWM:")
}

/// The memory that a process has now, in KiB; `None` where it has ended.
pub(crate) fn resident_kib(pid: u32) -> Option<u64> {
    memory_kib(pid, "VmRSS:")
}

fn memory_kib(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The fields of `/proc/PID/stat` that count here.
#[derive(Debug, PartialEq)]
struct Stat {
    pid: u32,
    parent: u32,
    own_ticks: u64,
    ended_children_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name stands in parentheses and may contain spaces and parentheses itself.
        let (head, tail) = text.rsplit_once(')')?;
        let pid = head.split_whitespace().next()?.parse().ok()?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: number(11)? + number(12)?,
            ended_children_ticks: number(13)? + number(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_past_a_name_with_parentheses() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 110 20 30 4 20 0 1 0 100";
        assert_eq!(
            Stat::parse(line),
            Some(Stat { pid: 42, parent: 7, own_ticks: 130, ended_children_ticks: 34 })
        );
        assert_eq!(Stat::parse("nothing"), None);
    }

    #[test]
    fn processor_time_of_this_process_grows_with_work() {
        let own = std::process::id();
        let before = Cpu::now(own, own);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(start);
        }
        let taken = Cpu::now(own, own).since(before);
        assert!(taken.client_us > 5_000.0, "{taken:?}");
        assert!(taken.postgres_us > 0.0, "{taken:?}");
    }

    #[test]
    fn the_peak_of_this_process_is_known() {
        assert!(peak_resident_kib(std::process::id()) > Some(1_000));
        assert_eq!(peak_resident_kib(0), None);
    }

    #[test]
    fn every_sample_of_a_disk_counts() -> Result<()> {
        let mut probe = DiskProbe::new(&std::env::temp_dir())?;
        for _ in 0..3 {
            probe.sample(Duration::from_millis(20))?;
        }
        let rate = probe.per_s();
        assert!(rate.slowest > 0.0, "{rate:?}");
        assert!(rate.slowest <= rate.median && rate.median <= rate.fastest, "{rate:?}");
        Ok(())
    }
}
