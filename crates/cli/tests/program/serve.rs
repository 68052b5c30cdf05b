//! `serve`: barriers over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::folder::{Folder, PATIENCE, Process, until};
use crate::http::{Answer, request, request_with};
use crate::stores::on_each;

pub(crate) const TOKEN: &str = "a-token-of-the-tests";
pub(crate) const SECRET: &str = "a-secret-of-the-tests-of-32-bytes";

/// A running `serve` with `--json`.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        Self::start_with(
            folder,
            arguments,
            &[("SENDOFF_SERVE_TOKENS", TOKEN), ("SENDOFF_SERVE_CALLBACK_SECRET", SECRET)],
        )
    }

    pub(crate) fn start_with(
        folder: &Folder,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut all = vec!["serve", "--json", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        let mut command = folder.command(&all);
        command.envs(variables.iter().copied());
        let process = Process::spawn(command);
        until("it has started", || process.out().contains('\n'));
        let started: Value = serde_json::from_str(process.out().lines().next().unwrap()).unwrap();
        let port = u16::try_from(started["port"].as_u64().unwrap()).unwrap();
        Self { process, port }
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let token = format!("authorization: Bearer {TOKEN}\r\n");
        request_with(self.port, method, path, &token, body.as_bytes())
    }

    /// Answered with this status.
    pub(crate) fn ok(&self, method: &str, path: &str, body: &str, status: u16) -> Value {
        let answer = self.call(method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.value);
        answer.value
    }

    pub(crate) fn problem(&self, method: &str, path: &str, body: &str, code: &str) -> Answer {
        let answer = self.call(method, path, body);
        is_problem(&answer, code);
        answer
    }

    pub(crate) fn stop(self) -> String {
        self.process.signal(Signal::TERM);
        let said = self.process.wait().ok();
        assert!(said.out.ends_with("{\"event\":\"stopped\"}\n"), "{said:?}");
        said.err
    }
}

/// An RFC 9457 problem document with this code.
pub(crate) fn is_problem(answer: &Answer, code: &str) {
    let Answer { status, head, value } = answer;
    assert_eq!(value["code"], code, "{value}");
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    assert_eq!(value["status"], *status, "{value}");
    assert_eq!(value["type"], format!("urn:sendoff:problem:{code}"));
    assert!(value["title"].is_string() && value["detail"].is_string(), "{value}");
}

#[test]
fn a_barrier_is_created_acknowledged_and_read_over_http() {
    on_each(|folder| {
        let server = Server::start(folder, &[]);
        let asked = r#"{"id":"b/1","members":["a","b c",{"base64":"/w=="}],"continue_with":"done",
                        "state":{"ref": 7},"deadline_s":3600,"on_deadline":"continue"}"#;
        let created = server.call("POST", "/v1/barriers", asked);
        assert_eq!(created.status, 201, "{created:?}");
        assert!(created.head.contains("location: /v1/barriers/b%2f1"), "{}", created.head);
        assert_eq!(server.ok("POST", "/v1/barriers", asked, 200)["existing"], true);

        let acks = "/v1/barriers/b%2F1/acks";
        let one = server.ok("POST", acks, r#"{"member":"a","result":{"n": 1.10}}"#, 200);
        assert_eq!((&one["duplicate"], &one["complete"]), (&json!(false), &json!(false)));
        let again = server.ok("POST", acks, r#"{"member":"a","ok":false}"#, 200);
        assert_eq!((&again["duplicate"], &again["conflict"]), (&json!(true), &json!(true)));
        assert_eq!(again["winner"]["channel"], "http");
        let list = r#"[{"member":"b c","ok":false,"error":"no"},{"member":"zz"},{"member":"a"}]"#;
        server.problem("POST", &format!("{acks}?all_or_nothing"), list, "unknown_member");
        let many = server.ok("POST", acks, list, 200);
        for (name, count) in [("resolved", 1), ("duplicate", 1), ("failed", 1), ("refused", 1)] {
            assert_eq!(many[name], count, "{many}");
        }
        assert_eq!(many["answers"][1]["code"], "unknown_member");
        assert_eq!(many["answers"][2]["winner"]["result"], json!({"n": 1.1}));
        let last = server.ok("POST", acks, r#"{"member":{"base64":"/w=="}}"#, 200);
        assert_eq!(last["complete"], true);

        let status = server.ok("GET", "/v1/barriers/b%2F1", "", 200);
        assert_eq!(
            (&status["state"], &status["state_value"]),
            (&json!("complete"), &json!({"ref":7}))
        );
        assert_eq!(folder.arrived("done").len(), 1);
        server.stop();
    });
}

#[test]
fn results_are_paged_and_each_page_names_the_next() {
    on_each(|folder| {
        let server = Server::start(folder, &[]);
        server.ok(
            "POST",
            "/v1/barriers",
            r#"{"id":"b","members":["a b","c&d",{"base64":"/w=="}]}"#,
            201,
        );
        let acks = r#"[{"member":"a b"},{"member":"c&d","ok":false},{"member":{"base64":"/w=="}}]"#;
        server.ok("POST", "/v1/barriers/b/acks", acks, 200);
        let mut path = "/v1/barriers/b/results?limit=1".to_owned();
        let mut names = Vec::new();
        loop {
            let page = server.ok("GET", &path, "", 200);
            names.extend(page["members"].as_array().unwrap().iter().map(|m| m["member"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            path = next.to_owned();
        }
        assert_eq!(names, [json!("a b"), json!("c&d"), json!({"base64":"/w=="})]);
        let failures = server.ok("GET", "/v1/barriers/b/results?failures&after=", "", 200);
        assert_eq!(failures["members"][0]["member"], "c&d");
        let one = server.ok("GET", "/v1/barriers/b/results?member=c%26d", "", 200);
        assert_eq!(one["members"].as_array().map(Vec::len), Some(1), "{one}");
        assert_eq!((&one["members"][0]["ok"], &one["next"]), (&json!(false), &json!(null)));
        server.stop();
    });
}

#[test]
fn what_is_refused_is_a_problem_document_and_changes_nothing() {
    on_each(|folder| {
        let server = Server::start(folder, &[]);
        server.ok("POST", "/v1/barriers", r#"{"id":"b","members":["a","Invoice 1"]}"#, 201);
        let before = server.ok("GET", "/v1/barriers/b", "", 200);
        let acks = "/v1/barriers/b/acks";
        let large = format!(r#"{{"member":"a","error":"{}"}}"#, "x".repeat(8_192));
        let long = format!(r#"{{"member":"{}"}}"#, "x".repeat(1_025));
        for (method, path, body, code) in [
            ("POST", acks, r#"{"member":"c"}"#, "unknown_member"),
            ("POST", acks, &large, "too_large"),
            ("POST", acks, &long, "invalid"),
            ("POST", acks, "", "invalid"),
            ("POST", acks, "{", "invalid"),
            ("POST", acks, r#"{"member":""}"#, "invalid"),
            ("POST", acks, r#"{"membr":"a"}"#, "invalid"),
            ("POST", acks, r#"[{"member":"a"},7]"#, "invalid"),
            ("POST", "/v1/barriers/other/acks", r#"{"member":"a"}"#, "not_found"),
            ("GET", "/v1/barriers/other", "", "not_found"),
            ("GET", "/v1/barriers/other/results", "", "not_found"),
            ("GET", "/v1/barriers/%FF", "", "invalid"),
            ("GET", "/v1/barriers/b/results?limit=0", "", "invalid"),
            ("GET", "/v1/barriers/b/results?failure", "", "invalid"),
            ("GET", "/v1/barriers/b/results?member=A", "", "unknown_member"),
            ("POST", "/v1/barriers", "{}", "invalid"),
            ("POST", "/v1/barriers", r#"{"id":"c","members":null}"#, "invalid"),
            ("POST", "/v1/barriers", r#"{"id":"c","members":["x","x"]}"#, "duplicate_name"),
            (
                "POST",
                "/v1/barriers",
                r#"{"id":"c","members":["x"],"deadline_s":604800}"#,
                "invalid",
            ),
            ("POST", "/v1/barriers", r#"{"id":"b","members":["x"],"strict":true}"#, "conflict"),
            (
                "POST",
                "/v1/barriers",
                r#"{"id":"c","members":["x"],"probe":{"sql":"SELECT 1"}}"#,
                "invalid",
            ),
            (
                "POST",
                "/v1/barriers",
                r#"{"id":"c","members":["x"],"probe":{"keys":"folder:acks/"}}"#,
                "invalid",
            ),
            ("DELETE", "/v1/barriers/b", "", "method_not_allowed"),
            ("GET", "/v1/nothing", "", "no_route"),
        ] {
            server.problem(method, path, body, code);
        }
        let near = server.problem("POST", acks, r#"{"member":"invoice%201"}"#, "unknown_member");
        assert_eq!(near.value["near"], json!(["Invoice 1"]));
        assert_eq!(server.ok("GET", "/v1/barriers/b", "", 200), before);
        server.problem("GET", "/v1/barriers/c", "", "not_found");
        folder.barrier(&["cancel", "b"]).ok();
        let cancelled = server.problem("POST", acks, r#"{"member":"a"}"#, "cancelled");
        assert_eq!(cancelled.status, 409);
        server.stop();
    });
}

#[test]
fn only_a_bearer_token_opens_the_routes_and_no_token_is_told() {
    let folder = Folder::with_store();
    let server = Server::start_with(
        &folder,
        &["--log-level", "trace"],
        &[("SENDOFF_SERVE_TOKENS", "an-older-token-here,a-token-of-the-tests")],
    );
    for header in [
        "",
        "authorization: Bearer a-token-of-the-test\r\n",
        "authorization: Bearer a-token-of-the-tests2\r\n",
        "authorization: Basic a-token-of-the-tests\r\n",
        "authorization: Bearer\r\n",
        "authorization: Bearer an-older-token-here,a-token-of-the-tests\r\n",
    ] {
        let answer = request_with(server.port, "GET", "/v1/barriers/b", header, b"");
        is_problem(&answer, "unauthorized");
        assert_eq!(answer.status, 401);
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    }
    server.problem("GET", "/v1/barriers/b", "", "not_found");
    let older = "authorization: bearer an-older-token-here\r\n";
    assert_eq!(request_with(server.port, "GET", "/v1/barriers/b", older, b"").status, 404);
    assert_eq!(request(server.port, "GET", "/healthz", b"").0, 200);
    assert_eq!(request(server.port, "GET", "/openapi.json", b"").1["openapi"], "3.1.0");
    let asked = r#"{"id":"b","members":["a"],"callbacks_expire_s":60}"#;
    server.problem("POST", "/v1/barriers", asked, "callbacks_off");
    server.problem("GET", "/v1/barriers/b", "", "not_found");
    let log = server.stop();
    assert!(!log.contains("token-here") && !log.contains(TOKEN), "{log}");
}

#[test]
fn a_body_over_its_limit_is_refused_before_it_is_read_and_the_limit_is_named() {
    let folder = Folder::with_store();
    let server = Server::start(&folder, &[]);
    for (path, limit) in [("/v1/barriers", 32 << 20), ("/v1/barriers/b/acks", 8 << 20)] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n",
            limit + 1
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains(&format!("limit of {limit} bytes")), "{answer}");
    }
    server.stop();
}

#[test]
fn a_request_that_takes_too_long_is_ended_and_connections_have_a_bound() {
    let folder = Folder::with_store();
    let server = Server::start(&folder, &["--request-timeout", "300ms", "--connections", "2"]);
    let mut slow: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let head = format!(
                "POST /v1/barriers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\
                 content-length: 10\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // A third one has to wait for a place, and gets one when a slow one has gone.
    let mut third = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    third.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    third.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(third.read(&mut [0; 1]).is_err(), "there was a third place");
    for stream in &mut slow {
        let mut answer = vec![0; 4_096];
        let count = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"timeout\""), "{answer}");
    }
    drop(slow);
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.stop();
}

#[test]
fn a_server_without_a_token_or_with_a_weak_one_does_not_start() {
    let folder = Folder::with_store();
    for (variables, words) in [
        (vec![], "no bearer token"),
        (vec![("SENDOFF_SERVE_TOKENS", "too-short")], "fewer than 16 characters"),
        (
            vec![("SENDOFF_SERVE_TOKENS", TOKEN), ("SENDOFF_SERVE_CALLBACK_SECRET", "too-short")],
            "fewer than 32 characters",
        ),
        (vec![("SENDOFF_SERVE_TOKENS", TOKEN), ("SENDOFF_SERVE_LISTEN", "here")], "not an address"),
    ] {
        let said = folder.run_with(&["serve"], &variables);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(words) && !said.err.contains("too-short"), "{said:?}");
    }
    let shown = folder.run_with(&["config", "show"], &[("SENDOFF_SERVE_TOKENS", TOKEN)]).ok();
    assert!(!shown.out.contains(TOKEN) && shown.out.contains("***"), "{}", shown.out);
}

#[test]
fn a_stop_finishes_what_was_begun() {
    let folder = Folder::with_store();
    let server = Server::start(&folder, &[]);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{"id":"b","members":["a"]}"#;
    let head = format!(
        "POST /v1/barriers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // It asks for the body: the request is being answered.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100 "));
    server.process.signal(Signal::TERM);
    until("it says that it stops", || server.process.err().contains("stopping"));
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    server.process.wait().ok();
    assert_eq!(folder.state("b")["pending"], 1);
}
