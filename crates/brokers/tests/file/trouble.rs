//! What only files and standard output have: full disks, torn lines, readers that have gone.
//!
//! Some cases need a process of their own: they run this very test program again, for one case,
//! with [`ROLE`] in its environment.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_brokers::Target;
use sendoff_brokers::file::read_line;
use sendoff_core::publisher::PublishClass;
use sendoff_core::{ErrorKind, Message, PublishError, Publisher};

const ROLE: &str = "SENDOFF_TEST_ROLE";
const FOLDER: &str = "SENDOFF_TEST_FOLDER";

fn message(id: impl Into<String>, body: impl Into<Vec<u8>>) -> Message {
    Message::builder("shop", "placed").id(id).body(body.into()).build().unwrap()
}

fn target(path: &Path) -> Arc<dyn Publisher> {
    Target::parse(&format!("file:{}", path.display())).unwrap()
}

fn ids(path: &Path) -> Vec<String> {
    let lines = std::fs::read(path).unwrap();
    lines
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| read_line(line).unwrap().id().to_owned())
        .collect()
}

/// This program again, for one test, in a role.
fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

fn folder() -> PathBuf {
    std::env::var(FOLDER).unwrap().into()
}

fn is_disk_full(error: &PublishError) -> bool {
    error.class() == PublishClass::Unreachable && error.detail().contains("disk full")
}

/// Fills the disk up, checks that nothing torn and nothing unconfirmed stays, makes room, goes on.
async fn fill_and_go_on(folder: &Path, ballast_bytes: usize) {
    let path = folder.join("out.jsonl");
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0; ballast_bytes]).unwrap();
    let publisher = target(&path);
    let body = vec![b'x'; 10_000];
    let mut confirmed = Vec::new();
    let error = loop {
        let id = confirmed.len().to_string();
        match publisher.publish(&message(&*id, &*body)).await {
            Ok(()) => confirmed.push(id),
            Err(error) => break error,
        }
        assert!(confirmed.len() < 1_000, "the disk is not small");
    };
    assert!(is_disk_full(&error), "{:?}: {error}", error.class());
    assert!(!confirmed.is_empty());
    assert_eq!(ids(&path), confirmed, "what was written of a failed line is cut off");
    assert!(is_disk_full(&publisher.publish(&message("no", &*body)).await.unwrap_err()));
    std::fs::remove_file(&ballast).unwrap();
    publisher.publish(&message("after", &*body)).await.unwrap();
    confirmed.push("after".to_owned());
    assert_eq!(ids(&path), confirmed);
}

/// On a file system of 300 kB in a name space of this process's own. Where the system does not let
/// us mount one, against a limit on the size of a file, which fails in the same way but for the
/// number of the error; there is no room to make then, so that half is not shown.
#[tokio::test]
async fn a_full_disk_is_told_and_publishing_goes_on_once_there_is_space() {
    const NAME: &str = "trouble::a_full_disk_is_told_and_publishing_goes_on_once_there_is_space";
    match role().as_deref() {
        Some("on a small disk") => return fill_and_go_on(&folder(), 100_000).await,
        Some("under a limit") => return meet_the_limit(&folder().join("out.jsonl")).await,
        _ => {}
    }
    let temporary = tempfile::tempdir().unwrap();
    let mounting = "mount -t tmpfs -o size=300k tmpfs \"$SENDOFF_TEST_FOLDER\"";
    let can_mount = Command::new("unshare")
        .args(["-rm", "sh", "-c", mounting])
        .env(FOLDER, temporary.path())
        .status()
        .is_ok_and(|status| status.success());
    let (role, wrapper, script) = if can_mount {
        let script = format!("{mounting} && exec \"$@\"");
        ("on a small disk", vec!["unshare", "-rm", "sh", "-c"], script)
    } else {
        eprintln!("no file system can be mounted here: a limit on the file's size stands in");
        ("under a limit", vec!["sh", "-c"], "trap '' XFSZ; ulimit -f 100; exec \"$@\"".to_owned())
    };
    let program = again(NAME, role);
    let output = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .args([&script, "sh"])
        .arg(program.get_program())
        .args(program.get_args())
        .env(ROLE, role)
        .env(FOLDER, temporary.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("1 passed"), "the case was not run: {told}");
}

async fn meet_the_limit(path: &Path) {
    let publisher = target(path);
    publisher.publish(&message("1", "{}")).await.unwrap();
    let error = publisher.publish(&message("2", vec![b'x'; 200_000])).await.unwrap_err();
    assert!(is_disk_full(&error), "{:?}: {error}", error.class());
    publisher.publish(&message("3", "{}")).await.unwrap();
    assert_eq!(ids(path), ["1", "3"]);
}

#[tokio::test]
async fn what_was_confirmed_before_a_kill_is_there_and_a_torn_line_is_not() {
    const NAME: &str = "trouble::what_was_confirmed_before_a_kill_is_there_and_a_torn_line_is_not";
    if role().is_some() {
        return write_for_ever(&folder().join("out.jsonl")).await;
    }
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("out.jsonl");
    let mut confirmed = Vec::new();
    for _ in 0..5 {
        let mut child = again(NAME, "writer")
            .env(FOLDER, temporary.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        confirmed.extend(confirmed_until_killed(&mut child));
        // What a crash in the middle of a write leaves.
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"id\":\"torn").unwrap();
    }
    drop(target(&path));
    let written = ids(&path);
    assert!(confirmed.len() > 10, "{} confirmed", confirmed.len());
    for id in &confirmed {
        assert!(written.contains(id), "{id} was confirmed and is not there");
    }
}

/// Publishes in small crowds and tells each id after its confirmation.
async fn write_for_ever(path: &Path) {
    let publisher = target(path);
    let run = std::process::id();
    for round in 0.. {
        let crowd: Vec<Message> =
            (0..10).map(|n| message(format!("{run}-{round}-{n}"), vec![b'x'; 3_000])).collect();
        let publishes = crowd.iter().map(|message| publisher.publish(message));
        for outcome in futures_util::future::join_all(publishes).await {
            outcome.unwrap();
        }
        for message in &crowd {
            println!("confirmed {}", message.id());
        }
    }
}

fn confirmed_until_killed(child: &mut Child) -> Vec<String> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut confirmed = Vec::new();
    let begun = Instant::now();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some((_, id)) = line.trim_end().split_once("confirmed ") {
            confirmed.push(id.to_owned());
        }
        line.clear();
        if confirmed.len() == 20 {
            child.kill().unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the writer writes nothing");
    }
    child.wait().unwrap();
    confirmed
}

#[tokio::test]
async fn a_writer_in_another_process_is_named() {
    const NAME: &str = "trouble::a_writer_in_another_process_is_named";
    if role().is_some() {
        return write_for_ever(&folder().join("out.jsonl")).await;
    }
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("out.jsonl");
    let mut child =
        again(NAME, "writer").env(FOLDER, temporary.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("confirmed ") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the writer ended");
    }
    let error = Target::parse(&format!("file:{}", path.display())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&format!("(process {}) is writing", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(target(&path));
}

#[tokio::test]
async fn a_lost_folder_makes_the_target_unreachable_and_its_return_mends_it() {
    let temporary = tempfile::tempdir().unwrap();
    let (folder, away) = (temporary.path().join("a"), temporary.path().join("b"));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("out.jsonl");
    let publisher = target(&path);
    publisher.publish(&message("1", "{}")).await.unwrap();
    std::fs::rename(&folder, &away).unwrap();
    let error = publisher.publish(&message("2", "{}")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("create the folder first"), "{error}");
    std::fs::rename(&away, &folder).unwrap();
    publisher.publish(&message("3", "{}")).await.unwrap();
    assert_eq!(ids(&path), ["1", "3"]);
}

#[tokio::test]
async fn a_rotated_file_that_another_writer_has_begun_is_not_written_to() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("out.jsonl");
    let publisher = target(&path);
    publisher.publish(&message("1", "{}")).await.unwrap();
    std::fs::rename(&path, temporary.path().join("out.jsonl.1")).unwrap();
    let other = target(&path);
    let error = publisher.publish(&message("2", "{}")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("is writing to it"), "{error}");
    other.publish(&message("3", "{}")).await.unwrap();
    drop(other);
    publisher.publish(&message("4", "{}")).await.unwrap();
    assert_eq!(ids(&path), ["3", "4"]);
}

#[tokio::test]
async fn lines_go_to_standard_output_and_a_reader_that_has_gone_is_told() {
    const NAME: &str = "trouble::lines_go_to_standard_output_and_a_reader_that_has_gone_is_told";
    if role().is_some() {
        return write_until_refused().await;
    }
    let mut child = again(NAME, "writer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut read = Vec::new();
    while read.len() < 2 {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the writer ended");
        // The test program itself says a few words before, and may not end its line.
        if let Some(at) = line.find("{\"id\":") {
            read.push(read_line(&line.as_bytes()[at..]).unwrap());
        }
    }
    assert_eq!(read, [message("1", "{}"), message("2", vec![0xff])]);
    drop(lines);
    // Now it may go on: nobody reads any more.
    drop(child.stdin.take());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    child.wait().unwrap();
    assert!(told.contains("class Unreachable"), "{told}");
    assert!(told.contains("nobody reads standard output any more (broken pipe)"), "{told}");
}

async fn write_until_refused() {
    let publisher = Target::parse("stdout:").unwrap();
    publisher.publish(&message("1", "{}")).await.unwrap();
    publisher.publish(&message("2", vec![0xff])).await.unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let error = publisher.publish(&message("3", "{}")).await.unwrap_err();
    eprintln!("class {:?}: {error}", error.class());
}
