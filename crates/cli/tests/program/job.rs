//! A real job on PostgreSQL and NATS: 1,000 documents go out through the outbox, a partner answers over
//! NATS and over HTTP, twice, wrongly and not at all, while relay, server, consumer and partner are
//! killed. One continuation comes, with the right results.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sendoff_conformance::servers::{Nats, fresh_database};
use serde_json::{Value, json};

use crate::folder::{Folder, Process, until};
use crate::job_partner::{ANSWERS, DOCUMENTS, Partner, Post, continuations, streams};
use crate::serve::Server;

const DOCUMENTS_COUNT: u32 = 1_000;
/// Until the deadline: longer than the kills and the answers take on a busy machine.
const DEADLINE: &str = "45s";

pub(crate) fn name(number: u32) -> String {
    format!("doc-{number:04}.xml")
}

fn sql(url: &str, text: &str) {
    let arguments = [url, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", text];
    assert!(Command::new("psql").args(arguments).status().unwrap().success(), "{text}");
}

#[test]
fn a_thousand_documents_have_one_continuation_whatever_is_killed() {
    let (url, nats) = (fresh_database().unwrap(), Nats::start().unwrap());
    let post = Post::new(&nats.url());
    streams(&post);
    let folder = Folder::new();
    folder
        .write("sendoff.toml", format!("store = \"{url}\"\nto = \"{}/{DOCUMENTS}\"\n", nats.url()));
    folder.run(&["migrate"]).ok();
    // What the partner keeps to itself, and the probe finds.
    sql(&url, "CREATE TABLE kept (member text PRIMARY KEY)");

    let names: Vec<String> = (1..=DOCUMENTS_COUNT).map(name).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    folder.create(
        "batch",
        &members,
        &[
            "--continue-with",
            "batches.done",
            "--deadline",
            DEADLINE,
            "--on-deadline",
            "continue",
            "--probe-sql",
            "SELECT member FROM kept",
        ],
    );
    let server = Server::start(&folder, &[]);
    let asked = json!({ "members": names }).to_string();
    let tokens = server.ok("POST", "/v1/barriers/batch/tokens", &asked, 200);
    let documents: String = tokens["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| {
            format!("{}\n", json!({"document": token["member"], "callback": token["path"]}))
        })
        .collect();
    let send = ["send", "--topic", "documents.sent", "--lines"];
    folder.feed(&send, documents.as_bytes()).ok();

    let port = Arc::new(AtomicU16::new(server.port));
    let partner = || Partner::start(post.clone(), port.clone(), url.clone());
    let mut job = Job { folder, server, relay: None, partner: Some(partner()), port: port.clone() };
    job.relay = Some(relay(&job.folder));
    kill_and_count(&mut job, &post, &partner);

    until("the deadline has closed it", || job.folder.state("batch")["complete"] == true);
    right_results(&job.folder);
    until("its continuation has arrived", || !continuations(&post).is_empty());
    job.partner.take().unwrap().stop();
    job.relay.take().unwrap().signal(Signal::TERM);
    job.server.stop();
    let continuations = continuations(&post);
    assert_eq!(continuations.len(), 1, "{continuations:?}");
    assert_eq!(continuations[0], json!({"barrier":"batch","epoch":1,"reason":"deadline"}));
}

/// A relay that another one need not wait for long when it was killed.
fn relay(folder: &Folder) -> Process {
    folder.start(&["relay", "--lease", "3s", "--publish-timeout", "2s"])
}

/// The processes of the job.
struct Job {
    folder: Folder,
    server: Server,
    relay: Option<Process>,
    partner: Option<Partner>,
    port: Arc<AtomicU16>,
}

/// Takes the answers that came over NATS to the barrier, and kills one of the processes every now and
/// then, until all answers have come that will: the partner keeps ten and forgets four.
fn kill_and_count(job: &mut Job, post: &Post, partner: &dyn Fn() -> Partner) {
    let (begun, mut round) = (Instant::now(), 0);
    let mut resolved = 0;
    while resolved < u64::from(DOCUMENTS_COUNT) - 14 {
        assert!(begun.elapsed() < Duration::from_secs(40), "{resolved} have come in time");
        round += 1;
        let answers = post.answers(ANSWERS);
        if !answers.is_empty() {
            let lines: String = answers.iter().map(|answer| format!("{}\n", answer.line)).collect();
            let arguments = ["barrier", "ack", "batch", "--lines", "--channel", "nats", "--json"];
            // A consumer that dies has not said that it is done: the answers come again.
            if round % 4 == 0 {
                job.folder.feed_and_kill(&arguments, lines.as_bytes());
            } else {
                let said = job.folder.feed(&arguments, lines.as_bytes());
                assert!([0, 8].contains(&said.code), "{said:?}");
                post.done(answers);
            }
        }
        match round % 9 {
            2 => {
                let relay = job.relay.replace(relay(&job.folder)).unwrap();
                relay.signal(Signal::KILL);
            }
            5 => {
                job.server.process.signal(Signal::KILL);
                job.server = Server::start(&job.folder, &[]);
                job.port.store(job.server.port, Ordering::SeqCst);
            }
            8 => {
                job.partner.take().unwrap().stop();
                job.partner = Some(partner());
            }
            _ => {}
        }
        resolved = job.folder.state("batch")["resolved"].as_u64().unwrap();
    }
}

/// Each document has the outcome that the partner gave it.
fn right_results(folder: &Folder) {
    let status = folder.state("batch");
    for (name, value) in [
        ("state", json!("deadline")),
        ("total", json!(1_000)),
        ("resolved", json!(996)),
        ("failed", json!(100)),
        ("missing", json!(4)),
    ] {
        assert_eq!(status[name], value, "{name} of {status}");
    }
    let listed = |which: &[&str]| -> Vec<Value> {
        let mut arguments = vec!["results", "batch"];
        arguments.extend(which);
        folder.barrier(&arguments).ok().json()["members"].as_array().unwrap().clone()
    };
    let names = |members: &[Value]| -> BTreeSet<String> {
        members.iter().map(|member| member["member"].as_str().unwrap().to_owned()).collect()
    };
    let expected = |which: &dyn Fn(u32) -> bool| -> BTreeSet<String> {
        (1..=DOCUMENTS_COUNT).filter(|number| which(*number)).map(name).collect()
    };
    assert_eq!(names(&listed(&["--failures"])), expected(&|n| n % 10 == 3));
    assert_eq!(names(&listed(&["--missing"])), expected(&|n| n % 250 == 77));
    let all = listed(&[]);
    let by = |channel: &str| all.iter().filter(|member| member["channel"] == channel).count();
    assert_eq!(by("probe"), 10);
    assert!(by("nats") > 0 && by("callback") > 0, "both ways were used");
    let why = folder.barrier(&["why", "batch"]).ok().json();
    let near = why["evidence"].as_array().unwrap().iter().any(|evidence| {
        evidence["kind"] == "unknown" && !evidence["near"].as_array().unwrap().is_empty()
    });
    assert!(near, "a wrong name is kept as evidence: {why}");
}
