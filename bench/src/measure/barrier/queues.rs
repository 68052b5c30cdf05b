//! Two systems that join many jobs and keep them in Redis: a Celery chord and a BullMQ flow of 10,000
//! trivial members, from the first member's end to the callback's start.
//!
//! `bench/run` installs them into a folder of its own and names it in `SENDOFF_BENCH_PEERS`; where it
//! could not, the table says so. Their Redis is private, on its default settings: in memory, while the
//! rows that they are compared with are on disk at each commit.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, json};
use tokio::process::{Child, Command};

use crate::failure::{Doing, Failure, Result};
use crate::figures::{median, ratio, to_f64};
use crate::measure::{Answer, Effort, tell};
use crate::table::{Table, thousands};

const MEMBERS: u64 = 10_000;
const FOLDER: &str = "SENDOFF_BENCH_PEERS";

/// What a peer's program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    members: u64,
    seconds: f64,
}

pub(super) async fn measure(effort: &Effort, batch_per_s: f64) -> Result<Answer> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return Ok(left_out("bench/run has not installed them"));
    };
    let redis = match Redis::start().await {
        Ok(redis) => redis,
        Err(failure) => return Ok(left_out(&failure.to_string())),
    };
    let repeats = effort.pick(1, 3);
    let (mut chord, mut flow) = (Vec::new(), Vec::new());
    for repeat in 0..repeats {
        // Nothing of ours fails where one of them does: then the table has a 0 for it.
        if effort.wants("bullmq_flow") {
            flow.extend(told(run_flow(&folder, redis.port).await));
        }
        if effort.wants("celery_chord") {
            chord.extend(told(run_chord(&folder, redis.port).await));
        }
        tell(&format!(
            "{} of {repeats}: Celery chord {chord:.0?}/s, BullMQ flow {flow:.0?}/s",
            repeat + 1
        ));
    }
    Ok(answer(batch_per_s, median(chord), median(flow), repeats))
}

/// What a peer gave; its failure is told.
fn told(rate: Result<f64>) -> Option<f64> {
    rate.inspect_err(|failure| tell(&failure.to_string())).ok()
}

fn left_out(why: &str) -> Answer {
    tell(&format!("the Celery chord and the BullMQ flow are left out: {why}"));
    Answer {
        text: format!("A Celery chord and a BullMQ flow were left out: {why}."),
        json: Map::from_iter([("queues_left_out".to_owned(), json!(why))]),
    }
}

fn answer(batch: f64, chord: f64, flow: f64, repeats: usize) -> Answer {
    let mut table = Table::new(&["10,000 trivial members", "members/s", "durable", "runs"]);
    let mut row = |what: &str, per_s: f64, durable: &str| {
        table.row(vec![what.to_owned(), thousands(per_s), durable.to_owned(), repeats.to_string()]);
    };
    row("acks in batches of 1,000 (Sendoff)", batch, "yes");
    row("BullMQ flow, on Redis", flow, "no");
    row("Celery chord, on Redis", chord, "no");
    let better = ratio(batch, chord.max(flow));
    let text = format!("{table}\nBatches: {better} times the better one of the two.");
    let json = json!({
        "celery_chord_per_s": chord.round(),
        "bullmq_flow_per_s": flow.round(),
        "batch_by_better_queue": better,
    });
    Answer { text, json: json.as_object().cloned().unwrap_or_default() }
}

async fn run_flow(folder: &Path, port: u16) -> Result<f64> {
    let mut node = Command::new("node");
    node.arg(script("flow.mjs"))
        .arg(MEMBERS.to_string())
        .current_dir(folder)
        .env("FLOW_REDIS_PORT", port.to_string());
    rate("the BullMQ flow", node).await
}

async fn run_chord(folder: &Path, port: u16) -> Result<f64> {
    let python = folder.join("venv/bin/python");
    let url = format!("redis://127.0.0.1:{port}/1");
    let mut workers = Command::new(&python);
    let mut workers: Child = workers
        .arg(script("chord.py"))
        .arg("worker")
        .current_dir(folder)
        .env("CHORD_REDIS_URL", &url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .doing("starting Celery's workers")?;
    // They say nothing when they are ready; a chord that is sent before waits for them, and the
    // clock starts with its first member.
    let mut sender = Command::new(&python);
    sender
        .arg(script("chord.py"))
        .args(["run", &MEMBERS.to_string()])
        .current_dir(folder)
        .env("CHORD_REDIS_URL", &url);
    let rate = rate("the Celery chord", sender).await;
    end(&mut workers).await;
    rate
}

/// Asks a process to end, and ends it where it does not.
async fn end(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        let pid = rustix::process::Pid::from_raw(pid);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
    if tokio::time::timeout(Duration::from_secs(10), child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

async fn rate(what: &str, mut command: Command) -> Result<f64> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(Duration::from_secs(180), output)
        .await
        .map_err(|_| Failure::new(format!("{what} did not end in 180 s")))?
        .doing(what)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let printed = text.lines().last().and_then(|line| serde_json::from_str::<Printed>(line).ok());
    let Some(printed) = printed.filter(|printed| printed.members == MEMBERS) else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let last = complaint.lines().last().unwrap_or("it printed nothing").to_owned();
        return Err(Failure::new(format!("{what}: {last}")));
    };
    Ok(to_f64(printed.members) / printed.seconds.max(1e-6))
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// A private Redis server, in memory.
#[derive(Debug)]
struct Redis {
    port: u16,
    _child: Child,
    _folder: tempfile::TempDir,
}

impl Redis {
    async fn start() -> Result<Self> {
        const DOING: &str = "starting a private Redis";
        let folder = tempfile::tempdir().doing(DOING)?;
        let port = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .doing(DOING)?
            .port();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string())
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .doing(DOING)?;
        for _ in 0..100 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Ok(Self { port, _child: child, _folder: folder });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Failure::new("a private Redis did not take connections within 5 s"))
    }
}
