//! `up`: the whole job, killed, restarted and compared.

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, Process, until};
use crate::http::request;

/// A running `up` with `--json`.
pub(crate) struct Up {
    pub(crate) process: Process,
    pub(crate) started: Value,
}

impl Up {
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut all = vec!["up", "--json"];
        all.extend(arguments);
        let process = folder.start(&all);
        until("it has started", || process.out().contains('\n'));
        let started = serde_json::from_str(process.out().lines().next().unwrap()).unwrap();
        Self { process, started }
    }

    pub(crate) fn port(&self) -> u16 {
        u16::try_from(self.started["port"].as_u64().unwrap()).unwrap()
    }

    pub(crate) fn figures(&self) -> Value {
        request(self.port(), "GET", "/", b"").1["figures"].clone()
    }

    /// Stops it gracefully and gives its last line.
    pub(crate) fn stop(self) -> Value {
        self.process.signal(Signal::INT);
        let said = self.process.wait().ok();
        serde_json::from_str(said.out.lines().last().unwrap()).unwrap()
    }
}

fn verify(folder: &Folder) -> Value {
    folder.run(&["verify", "--json"]).ok().json()
}

#[test]
fn killed_in_the_middle_and_started_again_it_loses_nothing() {
    let folder = Folder::new();
    let mut committed = 0;
    for _ in 0..3 {
        let up = Up::start(&folder, &["--port", "0", "--rate", "400"]);
        assert!(up.started["committed"].as_u64().unwrap() >= committed, "it did not go on");
        until("it is in the middle of it", || {
            let figures = up.figures();
            figures["committed_now"].as_u64().unwrap() >= 100
                && figures["rolled_back_now"].as_u64().unwrap() >= 1
        });
        // Beside it, too: what the program says of itself is compared while it runs.
        assert_eq!(verify(&folder)["ok"], true);
        up.process.signal(Signal::KILL);
        assert_eq!(up.process.wait().code, 137);
        let after_the_kill = verify(&folder);
        assert_eq!(after_the_kill["ok"], true, "{after_the_kill}");
        committed = after_the_kill["committed"].as_u64().unwrap();
        assert!(committed >= 100);
    }
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    let last = up.stop();
    assert_eq!(last["event"], "stopped");
    assert_eq!(last["figures"]["pending"], 0, "{last}");
    let verdict = verify(&folder);
    assert_eq!(verdict["delivered"], verdict["committed"], "{verdict}");
    assert_eq!(verdict["committed"].as_u64(), Some(committed), "{verdict}");
    assert_eq!(verdict["lost"], 0);
}

#[test]
fn an_order_over_http_is_recorded_and_delivered_and_a_rejected_one_never_leaves() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    let port = up.port();
    let body = br#"{"customer":"ada","item":"tea","quantity":2}"#;
    let (status, order) = request(port, "POST", "/orders", body);
    assert_eq!(status, 201, "{order}");
    assert_eq!((&order["customer"], &order["number"]), (&Value::from("ada"), &Value::from(1)));
    let (status, _) = request(port, "POST", "/orders", b"");
    assert_eq!(status, 201);
    let (status, refused) = request(port, "POST", "/orders", br#"{"reject":true}"#);
    assert_eq!(status, 409, "{refused}");
    let rejected = refused["error"]["id"].as_str().unwrap();

    let id = order["id"].as_str().unwrap();
    let mut found = Value::Null;
    until("its message is gone to the file", || {
        found = request(port, "GET", &format!("/orders/{id}"), b"").1;
        found["message"] == "gone"
    });
    assert_eq!(found["order"], order);
    assert_eq!(request(port, "GET", &format!("/orders/{rejected}"), b"").0, 404);
    assert_eq!(up.figures()["rolled_back_now"], 1);
    assert!(request(port, "GET", "/status", b"").1["published"].is_u64());

    assert_eq!(up.stop()["figures"]["committed"], 2);
    let text = folder.read("sendoff-data/delivered.jsonl");
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains(id) && !text.contains(rejected), "{text}");
}

#[test]
fn what_is_no_order_is_refused_in_json_and_changes_nothing() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    let large = vec![b' '; 65 * 1024];
    for (method, path, body, expected) in [
        ("POST", "/orders", b"{".as_slice(), 400),
        ("POST", "/orders", b"[]", 400),
        ("POST", "/orders", br#"{"quantity":"two"}"#, 400),
        ("POST", "/orders", br#"{"quantity":0}"#, 400),
        ("POST", "/orders", br#"{"quantity":1001}"#, 400),
        ("POST", "/orders", br#"{"customer":""}"#, 400),
        ("POST", "/orders", br#"{"custommer":"ada"}"#, 400),
        ("POST", "/orders", b"\xff", 400),
        ("POST", "/orders", &large, 413),
        ("GET", "/orders", b"", 405),
        ("GET", "/orders/none", b"", 404),
        ("POST", "/batches", br#"{"documents":0}"#, 400),
        ("POST", "/batches", br#"{"documents":10001}"#, 400),
        ("POST", "/batches", br#"{"document":1}"#, 400),
        ("POST", "/batches", br#"{"deadline_s":0}"#, 400),
        ("GET", "/batches/none", b"", 404),
        ("GET", "/nothing", b"", 404),
    ] {
        let (status, answer) = request(up.port(), method, path, body);
        assert_eq!(status, expected, "{method} {path} {answer}");
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
    assert_eq!(up.figures()["committed"], 0);
    up.stop();
}

#[test]
fn a_busy_port_is_told_and_the_next_free_one_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().port();
    let folder = Folder::new();
    let up = Up::start(&folder, &["--port", &busy.to_string(), "--rate", "0"]);
    assert_eq!(up.started["port_was_busy"], true);
    assert!(up.port() > busy);
    assert_eq!(request(up.port(), "GET", "/", b"").0, 200);
    up.stop();

    let process = folder.start(&["up", "--port", &busy.to_string(), "--rate", "0"]);
    until("it says so", || process.out().contains(&format!("port {busy} is busy; using ")));
    process.signal(Signal::INT);
    process.wait().ok();
}

#[test]
fn two_on_one_folder_are_refused() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    let said = folder.run(&["up", "--port", "0", "--rate", "0", "--json"]);
    assert_eq!((said.code, &said.error()["kind"]), (1, &Value::from("locked")), "{said:?}");
    assert_eq!(up.figures()["committed"], 0);
    up.stop();
}

#[test]
fn without_a_terminal_the_figures_are_plain_lines_and_the_end_prints_the_tally() {
    let folder = Folder::new();
    let data = ["up", "--data", "proof", "--port", "0", "--rate", "50"];
    let process = folder.start(&data);
    until("there are figures", || {
        process.out().lines().any(|line| line.starts_with("orders ") && line.contains("/s)"))
    });
    process.signal(Signal::TERM);
    let said = process.wait().ok();
    assert!(said.out.contains("sendoff verify --data "), "{}", said.out);
    assert!(said.out.contains("stopped: "), "{}", said.out);
    assert!(!said.out.contains('\x1b') && !said.err.contains('\r'), "{said:?}");
    folder.run(&["verify", "--data", "proof"]).ok();
}
