//! The second scene of `up`: a batch of documents, a partner that misbehaves, and kills.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::folder::{Folder, until};
use crate::http::{request, request_with};
use crate::up::Up;

fn verify(folder: &Folder) -> Value {
    folder.run(&["verify", "--json"]).ok().json()
}

#[test]
fn a_thousand_documents_are_answered_and_continued_whatever_is_killed() {
    let folder = Folder::new();
    let start = || Up::start(&folder, &["--port", "0", "--rate", "5"]);
    let mut up = start();
    let asked = br#"{"documents":1000,"deadline_s":30}"#;
    let (status, batch) = request(up.port(), "POST", "/batches", asked);
    assert_eq!((status, &batch["documents"]), (201, &json!(1_000)), "{batch}");
    let path = format!("/batches/{}", batch["id"].as_str().unwrap());

    let resolved = |up: &Up| request(up.port(), "GET", &path, b"").1["resolved"].as_u64().unwrap();
    for so_many in [150, 400, 700] {
        until("it is in the middle of it", || resolved(&up) >= so_many);
        up.process.signal(Signal::KILL);
        assert_eq!(up.process.wait().code, 137);
        let verdict = verify(&folder);
        assert_eq!((&verdict["ok"], &verdict["batches"]["open"]), (&json!(true), &json!(1)));
        up = start();
    }
    // Ten are kept by the partner and four forgotten: the rest answers by itself.
    until("all answers have come that will", || resolved(&up) == 986);
    until("the deadline has closed it", || {
        request(up.port(), "GET", &path, b"").1["complete"] == true
    });
    let ended = request(up.port(), "GET", &path, b"").1;
    for (name, value) in [
        ("state", json!("deadline")),
        ("resolved", json!(996)),
        ("failed", json!(100)),
        ("missing", json!(4)),
        ("pending", json!(0)),
    ] {
        assert_eq!(ended[name], value, "{name} of {ended}");
    }
    until("its continuation has arrived", || verify(&folder)["batches"]["continued"] == 1);
    up.stop();
    let verdict = verify(&folder);
    assert_eq!(verdict["ok"], true, "{verdict}");
    assert_eq!(verdict["batches"]["wrong"], 0, "{verdict}");

    let store = "sqlite:sendoff-data/shop.db";
    let id = batch["id"].as_str().unwrap();
    let why = folder.run(&["barrier", "why", id, "--store", store, "--json"]).ok().json();
    assert!(why["evidence"].to_string().contains("DOC-00011.XML"), "{why}");
    let lost = folder.run(&["barrier", "results", id, "--store", store]).ok().out;
    assert_eq!(lost.lines().filter(|line| line.starts_with("ok ")).count(), 896, "{lost}");
}

#[test]
fn its_secrets_are_its_owners_and_open_the_barriers_routes() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    for name in ["api-token", "callback-secret"] {
        let path = folder.path("sendoff-data").join(name);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let token = folder.read("sendoff-data/api-token");
    let header = format!("authorization: Bearer {}\r\n", token.trim());
    let asked = br#"{"id":"b","members":["a"],"callbacks_expire_s":60}"#;
    assert_eq!(request(up.port(), "POST", "/v1/barriers", asked).0, 401);
    let created = request_with(up.port(), "POST", "/v1/barriers", &header, asked);
    assert_eq!(created.status, 201, "{created:?}");
    let callback = created.value["callbacks"][0]["path"].as_str().unwrap();
    assert_eq!(request(up.port(), "POST", callback, b"").0, 200);
    let nothing = request(up.port(), "GET", "/v1/nothing", b"");
    assert_eq!((nothing.0, &nothing.1["code"]), (404, &json!("no_route")));

    // The next start has the same ones.
    up.stop();
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    assert_eq!(folder.read("sendoff-data/api-token"), token);
    assert_eq!(request_with(up.port(), "GET", "/v1/barriers/b", &header, b"").status, 200);
    up.stop();
}
