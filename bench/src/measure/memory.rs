//! `memory`: the most memory that a relay's process had at once, as the kernel counts it.
//!
//! The relay is the program `sendoff` as a user runs it, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use tokio::process::{Child, Command};

use crate::contenders::Contender;
use crate::failure::{Doing, Failure, Result};
use crate::figures::{tenth, to_f64};
use crate::ground::Ground;
use crate::machine;
use crate::measure::{Answer, Effort, tell};
use crate::table::{Table, thousands};

/// Names the program that is measured; `bench/run` builds it and says where it is.
const PROGRAM: &str = "SENDOFF_BENCH_PROGRAM";

/// A backlog, and what a relay of it may have.
struct Case {
    name: &'static str,
    title: &'static str,
    messages: u64,
    body_bytes: u64,
    bound_mib: f64,
    to: String,
}

/// What one relay had.
struct Found {
    peak_mib: f64,
    took: Duration,
}

/// Runs it.
///
/// # Errors
/// The first failure, or a message that is left.
pub(crate) async fn measure(ground: &Ground, effort: &Effort) -> Result<Answer> {
    Contender::Lanes.create(ground).await?;
    let program = std::env::var_os(PROGRAM).map(PathBuf::from).ok_or_else(|| {
        Failure::new(format!("{PROGRAM} does not say where the program is; start with bench/run"))
    })?;
    let folder = tempfile::tempdir().doing("making a folder")?;
    let stream = ground.fresh_stream().await?;
    let file = format!("file:{}", folder.path().join("out.jsonl").display());
    let case = |name, title, messages, body_bytes, bound_mib, to: &str| Case {
        name,
        title,
        messages,
        body_bytes,
        bound_mib,
        to: to.to_owned(),
    };
    // 64 MiB, and three times the larger of the byte window (32 MiB) and the largest body.
    let cases = [
        case("one", "one message, to NATS", 1, 256, 64.0, &stream.address),
        case(
            "backlog",
            "a backlog, to NATS",
            effort.pick(200_000, 1_000_000),
            256,
            64.0,
            &stream.address,
        ),
        case("large_bodies", "large bodies, to a file", 100, 10_000_000, 160.0, &file),
    ];
    let mut found = Vec::new();
    for case in &cases {
        if !effort.wants(case.name) {
            continue;
        }
        tell(&format!("{}: {} messages", case.title, thousands(to_f64(case.messages))));
        fill(ground, case).await?;
        let one = run(ground, &program, case).await?;
        if Contender::Lanes.left(ground.admin()).await? > 0 {
            return Err(Failure::new(format!("{}: messages are left", case.title)));
        }
        found.push((case, one));
    }
    Ok(answer(&found))
}

async fn fill(ground: &Ground, case: &Case) -> Result<()> {
    let sql = format!(
        "TRUNCATE sendoff.outbox, sendoff.message_key; \
         INSERT INTO sendoff.outbox (id, source, topic, key, body) \
         SELECT n::text, 'shop', 'orders.placed', 'customer-' || n % 10000, \
                convert_to(repeat(chr(97 + n % 26), {}), 'UTF8') \
           FROM generate_series(1, {}) AS n; CHECKPOINT",
        case.body_bytes, case.messages
    );
    ground.admin().batch_execute(&sql).await.doing("filling the table")
}

async fn run(ground: &Ground, program: &Path, case: &Case) -> Result<Found> {
    let begun = Instant::now();
    let mut relay = Command::new(program)
        .args(["relay", "--once", "--store", ground.url(), "--to", &case.to])
        // No file of the folder that the measurement was started in.
        .env("SENDOFF_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .doing("starting the relay")?;
    let peak_kib = peak_of(&mut relay).await?;
    let ended = relay.wait_with_output().await.doing("waiting for the relay")?;
    if !ended.status.success() {
        return Err(Failure::new(format!(
            "the relay ended with {}: {}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr).trim()
        )));
    }
    Ok(Found { peak_mib: tenth(to_f64(peak_kib) / 1024.0), took: begun.elapsed() })
}

/// Reads the kernel's high-water mark until the process has ended.
async fn peak_of(relay: &mut Child) -> Result<u64> {
    let pid = relay.id().ok_or_else(|| Failure::new("the relay has no process id"))?;
    let mut peak = 0;
    while relay.try_wait().doing("waiting for the relay")?.is_none() {
        peak = peak.max(machine::peak_resident_kib(pid).unwrap_or(0));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(peak)
}

fn answer(found: &[(&Case, Found)]) -> Answer {
    let mut table =
        Table::new(&["what is pending", "messages", "bytes each", "peak MiB", "bound MiB", "s"]);
    let mut json = Map::new();
    for (case, one) in found {
        table.row(vec![
            case.title.to_owned(),
            thousands(to_f64(case.messages)),
            thousands(to_f64(case.body_bytes)),
            one.peak_mib.to_string(),
            case.bound_mib.to_string(),
            tenth(one.took.as_secs_f64()).to_string(),
        ]);
        json.insert(
            case.name.to_owned(),
            json!({
                "messages": case.messages, "body_bytes": case.body_bytes,
                "peak_mib": one.peak_mib, "bound_mib": case.bound_mib,
                "seconds": tenth(one.took.as_secs_f64()),
            }),
        );
    }
    let text = format!("The most memory that `sendoff relay --once` had at once\n\n{table}");
    Answer { text, json }
}
