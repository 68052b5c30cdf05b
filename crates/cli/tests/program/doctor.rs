//! The doctor: exit codes, what it finds about settings and targets, and that it changes nothing.

use sendoff_conformance::servers;
use serde_json::Value;

use crate::folder::{Folder, Said};
use crate::stores::on_each;

/// The grade of a check, with what was found.
fn grade(said: &Said, check: &str) -> (String, String) {
    let findings = said.json()["findings"].clone();
    let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no check {check}: {said:?}"));
    (found["grade"].as_str().unwrap().to_owned(), found["found"].as_str().unwrap().to_owned())
}

fn is(said: &Said, check: &str, expected: &str) -> String {
    let (grade, found) = grade(said, check);
    assert_eq!(grade, expected, "{check}: {said:?}");
    found
}

#[test]
fn the_exit_code_is_that_of_the_worst_finding() {
    on_each(|folder| {
        let said = folder.run(&["doctor", "--json", "--to", "file:out.jsonl"]);
        assert_ne!(said.code, 0, "no relay runs: {said:?}");
        assert!(is(&said, "lanes", "warning").contains("0 relays"));
        is(&said, "schema", "ok");
        is(&said, "relay-settings", "ok");
        is(&said, "target", "ok");
        assert!(!folder.path("out.jsonl").exists(), "it changes nothing");
        folder.run(&["send", "--topic", "t", "x"]).ok();
        let said = folder.run(&["doctor", "--json"]);
        assert_eq!(said.code, 11, "{said:?}");
        assert!(is(&said, "lanes", "failure").contains("1 messages are due"));
        let text = folder.run(&["doctor"]);
        assert_eq!(text.code, 11, "{text:?}");
        assert!(text.out.contains("FAILURE  lanes") && text.out.contains("-> start"), "{text:?}");
    });
    let folder = Folder::with_store();
    let relay = folder.start(&["relay", "--to", "file:out.jsonl"]);
    let mut said = folder.run(&["doctor", "--json"]);
    crate::folder::until("the relay has its lane", || {
        said = folder.run(&["doctor", "--json"]);
        grade(&said, "lanes").0 == "ok"
    });
    assert_eq!(said.code, 0, "{said:?}");
    drop(relay);
}

#[test]
fn a_store_that_is_not_there_is_a_finding_and_no_store_named_is_an_error() {
    let folder = Folder::new();
    let said = folder.run(&["doctor", "--json", "--store", "sqlite:nowhere.db"]);
    assert_eq!(said.code, 11, "{said:?}");
    is(&said, "reachable", "failure");
    let said = folder.run(&["doctor", "--json", "--store", "postgres://me:hush@127.0.0.1:1/shop"]);
    assert_eq!(said.code, 11, "{said:?}");
    is(&said, "reachable", "failure");
    assert!(!format!("{said:?}").contains("hush"));
    assert_eq!(folder.run(&["doctor"]).code, 2);
}

#[test]
fn weak_settings_of_sqlite_and_of_the_relay_are_named() {
    let folder = Folder::with_store();
    let said = folder.run_with(
        &["doctor", "--json"],
        &[("SENDOFF_SQLITE_SYNCHRONOUS", "normal"), ("SENDOFF_RELAY_PUBLISH_TIMEOUT", "20s")],
    );
    assert!(is(&said, "synchronous", "warning").contains("NORMAL"));
    assert!(is(&said, "relay-settings", "failure").contains("lease"), "{said:?}");
    folder.database().pragma_update(None, "journal_mode", "delete").unwrap();
    let said = folder.run(&["doctor", "--json"]);
    assert!(is(&said, "journal-mode", "warning").contains("delete"));
    folder.database().execute_batch("DROP INDEX sendoff_outbox_ready").unwrap();
    let said = folder.run(&["doctor", "--json"]);
    assert!(is(&said, "schema", "failure").contains("sendoff_outbox_ready"));
    folder.write("broken.db", "no database at all, and long enough to be told from one");
    let said = folder.run(&["doctor", "--json", "--store", "sqlite:broken.db"]);
    is(&said, "reachable", "failure");
}

#[test]
fn what_is_wrong_with_a_stream_is_named() {
    let folder = Folder::with_store();
    let url = servers::nats().unwrap();
    let stream = format!("DOCTOR{}", std::process::id());
    let doctor = |target: &str| folder.run(&["doctor", "--json", "--to", target]);
    let target = format!("{url}/{stream}");
    assert!(is(&doctor(&target), "stream", "failure").contains("no stream"));
    is(&doctor(&format!("{target}?create=true")), "stream", "ok");
    is(&doctor(&target), "stream", "failure");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(&url).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let config = async_nats::jetstream::stream::Config {
            name: stream.clone(),
            subjects: vec![format!("{stream}.>")],
            storage: async_nats::jetstream::stream::StorageType::Memory,
            duplicate_window: std::time::Duration::from_secs(30),
            ..Default::default()
        };
        context.create_stream(config).await.unwrap();
    });
    let said = doctor(&target);
    is(&said, "subjects", "ok");
    // A lease of 10 s and waits of up to 60 s.
    let window = is(&said, "duplicate-window", "warning");
    assert!(window.contains("30 s") && window.contains("70 s"), "{window}");
    assert!(is(&said, "storage", "warning").contains("memory"));
    let elsewhere = doctor(&format!("{target}?prefix=elsewhere"));
    assert!(is(&elsewhere, "subjects", "failure").contains("elsewhere.>"));
    let said = doctor(&format!("nats://me:hush@127.0.0.1:1/{stream}"));
    assert_eq!(said.code, 11, "{said:?}");
    is(&said, "target", "failure");
    assert!(!format!("{said:?}").contains("hush"));
    runtime.block_on(async {
        let client = async_nats::connect(&url).await.unwrap();
        async_nats::jetstream::new(client).delete_stream(&stream).await.unwrap();
    });
}

#[test]
fn a_webhook_that_is_down_or_unsigned_and_a_file_that_cannot_be_written_are_named() {
    let folder = Folder::with_store();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = format!("http://127.0.0.1:{port}/hook");
    let said = folder.run(&["doctor", "--json", "--to", &target]);
    is(&said, "target", "ok");
    assert!(is(&said, "webhook-secrets", "warning").contains("not signed"));
    is(&said, "encryption", "warning");
    let secret = ("SENDOFF_WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let said = folder.run_with(&["doctor", "--json", "--to", &target], &[secret]);
    is(&said, "webhook-secrets", "ok");
    assert!(!format!("{said:?}").contains("MfKQ9r8"), "{said:?}");
    drop(listener);
    let said = folder.run(&["doctor", "--json", "--to", &target]);
    is(&said, "target", "failure");
    let said = folder.run(&["doctor", "--json", "--to", "file:/nowhere/at/all/out.jsonl"]);
    assert_eq!((said.code, Value::from("failure")), (11, said.json()["worst"].clone()));
    is(&said, "target", "failure");
}
