//! `relay`: its ends, its logs, and what it survives.

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, until};

#[test]
fn a_signal_stops_it_gracefully_after_it_has_published() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = Folder::with_store();
        folder.run(&["send", "--topic", "t", "before"]).ok();
        let relay = folder.start(&["relay", "--to", "file:out.jsonl", "--json"]);
        folder.run(&["send", "--topic", "t", "while"]).ok();
        until("both have arrived", || {
            let path = folder.path("out.jsonl");
            std::fs::read_to_string(path).is_ok_and(|text| text.lines().count() == 2)
        });
        relay.signal(signal);
        let said = relay.wait().ok();
        assert_eq!(said.json()["end"], "stopped");
        assert_eq!(said.json()["tally"]["settled"], 2);
        let status = folder.run(&["status", "--json"]).ok().json();
        assert_eq!(
            (&status["published"], &status["lanes_leased"]),
            (&Value::from(2), &Value::from(0))
        );
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = Folder::with_store();
    let body = "x".repeat(1 << 20);
    folder.feed(&["send", "--topic", "t", "-"], body.as_bytes()).ok();
    // Nobody reads its standard output: the pipe fills up and the publish stays in flight.
    let mut command = folder.command(&[
        "relay",
        "--to",
        "stdout:",
        "--cancel-after",
        "1h",
        "--lease",
        "2h",
        "--publish-timeout",
        "1h",
    ]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    until("a publish is in flight", || rustix::io::ioctl_fionread(&reader).unwrap() > 0);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("a second signal") {
        line.clear();
        assert!(
            std::io::BufRead::read_line(&mut err, &mut line).unwrap() > 0,
            "it ended too early"
        );
    }
    assert!(child.try_wait().unwrap().is_none(), "it did not wait for what is in flight");
    let mut status = None;
    until("it has ended", || {
        // One that comes too soon after the first is taken for its echo.
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(143));
    drop(reader);
}

#[test]
fn the_echo_of_a_signal_is_not_a_second_one() {
    let folder = Folder::with_store();
    let relay = folder.start(&["relay", "--to", "file:out.jsonl", "--json"]);
    until("it has begun", || relay.err().contains("the relay starts"));
    for _ in 0..10 {
        relay.signal(Signal::TERM);
    }
    assert_eq!(relay.wait().ok().json()["end"], "stopped");
}

#[test]
fn with_stdout_as_the_target_the_answer_is_beside_the_messages() {
    let folder = Folder::with_store();
    folder.run(&["send", "--topic", "t", "--id", "one", "body"]).ok();
    let said = folder.run(&["relay", "--once", "--to", "stdout:", "--json"]).ok();
    assert_eq!(said.json()["id"], "one");
    assert!(said.err.contains("\"end\":\"drained\""), "{said:?}");
}

#[test]
fn it_gives_up_after_max_wait_with_its_own_code_and_loses_nothing() {
    let folder = Folder::with_store();
    folder.run(&["send", "--topic", "t", "body"]).ok();
    // A port that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("nats://u:secret@{}/S", listener.local_addr().unwrap());
    drop(listener);
    let said = folder.run(&["relay", "--once", "--max-wait", "1s", "--to", &to, "--json"]);
    assert_eq!((said.code, &said.json()["end"]), (4, &Value::from("gave_up")), "{said:?}");
    assert!(said.err.contains("the target takes nothing"), "{said:?}");
    assert!(!format!("{said:?}").contains("secret"), "{said:?}");
    assert_eq!(folder.run(&["status", "--json"]).ok().json()["pending"], 1);
}

#[test]
fn a_database_that_is_down_at_the_start_does_not_end_it_and_no_password_is_logged() {
    let folder = Folder::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://u:secret@{}/d", listener.local_addr().unwrap());
    drop(listener);
    let mut relay = folder.start(&["relay", "--store", &store, "--to", "file:out.jsonl"]);
    until("it has tried twice", || relay.err().matches("not ready").count() >= 2);
    assert!(relay.is_running());
    relay.signal(Signal::TERM);
    let said = relay.wait().ok();
    assert!(!format!("{said:?}").contains("secret"), "{said:?}");

    let wait = ["relay", "--once", "--max-wait", "500ms", "--store", &store, "--to", "file:o"];
    assert_eq!(folder.run(&wait).code, 4);
}

#[test]
fn logs_are_json_where_that_is_asked_for_and_carry_no_body() {
    let folder = Folder::with_store();
    folder
        .database()
        .execute_batch(
            "INSERT INTO sendoff_outbox (id, source, topic, headers, body)
                  VALUES ('odd', 'shop', 't', '{\"n\": 3}', 'the-payload')",
        )
        .unwrap();
    let said = folder.run(&["relay", "--once", "--to", "file:out.jsonl", "--log-format", "json"]);
    assert_eq!(said.code, 3);
    let lines: Vec<Value> = said.err.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let told = lines.iter().find(|line| line["reason"] == "undecodable").unwrap();
    assert!(told["seq"].is_i64(), "{told}");
    assert!(!said.err.contains("the-payload"), "{said:?}");
}

#[test]
fn a_file_that_another_relay_writes_is_refused() {
    let folder = Folder::with_store();
    let relay = folder.start(&["relay", "--to", "file:out.jsonl"]);
    until("it has begun", || relay.err().contains("the relay starts"));
    let said = folder.run(&["relay", "--once", "--to", "file:out.jsonl", "--json"]);
    assert_eq!((said.code, &said.error()["kind"]), (1, &Value::from("locked")), "{said:?}");
    relay.signal(Signal::TERM);
    relay.wait().ok();
}

#[test]
fn a_killed_relay_is_followed_by_another_that_repeats_only_under_the_same_id() {
    let folder = Folder::with_store();
    let lines = "x\n".repeat(3_000);
    let relay = folder.start(&["relay", "--to", "file:out.jsonl"]);
    let send = ["send", "--topic", "t", "--lines", "--per-transaction", "10"];
    let sender = std::thread::scope(|scope| {
        let sender = scope.spawn(|| folder.feed(&send, lines.as_bytes()));
        until("some have arrived", || {
            std::fs::read_to_string(folder.path("out.jsonl"))
                .is_ok_and(|text| text.lines().count() > 100)
        });
        relay.signal(Signal::KILL);
        sender.join().unwrap()
    });
    sender.ok();
    assert_eq!(relay.wait().code, 137);
    folder.run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
    let ids: std::collections::HashSet<String> =
        folder.deliveries("out.jsonl").iter().map(|line| line["id"].to_string()).collect();
    assert_eq!(ids.len(), 3_000);
}
