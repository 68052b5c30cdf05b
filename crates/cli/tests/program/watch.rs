//! What a relay tells those who watch it: health, figures, logs.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, Process, until};
use crate::http;

/// Starts a relay that answers over HTTP, and gives its port.
fn relay(folder: &Folder, more: &[&str]) -> (Process, u16) {
    let mut arguments = vec!["relay", "--listen", "127.0.0.1:0", "--log-format", "json"];
    if !more.contains(&"--to") {
        arguments.extend(["--to", "file:out.jsonl"]);
    }
    arguments.extend(more);
    let process = folder.start(&arguments);
    let mut port = None;
    until("it listens", || {
        port = events(&process.err())
            .into_iter()
            .find(|event| event["event"] == "listening")
            .map(|event| event["address"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned());
        port.is_some()
    });
    (process, port.unwrap().parse().unwrap())
}

/// The lines of a JSON log.
fn events(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The value of a sample, by its name and labels as they stand on the page.
fn sample(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(&format!("{name} ")))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn a_relay_tells_its_health_and_its_figures() {
    let folder = Folder::with_store();
    folder.run(&["send", "--topic", "t", "--key", "k", "secret-body"]).ok();
    let (relay, port) = relay(&folder, &[]);
    assert_eq!(
        http::request(port, "GET", "/health/live", b""),
        (200, serde_json::json!({"live": true}))
    );
    until("it is ready", || http::request(port, "GET", "/health/ready", b"").0 == 200);
    let target = "{target=\"file:out.jsonl\"}";
    let mut page = String::new();
    until("the message is counted", || {
        page = http::text(port, "/metrics");
        sample(&page, "sendoff_relay_messages_settled_total") == Some(1.0)
    });
    for (name, value) in [
        (format!("sendoff_relay_publishes_confirmed_total{target}"), 1.0),
        (format!("sendoff_relay_publishes_in_flight{target}"), 0.0),
        (format!("sendoff_relay_target_down{target}"), 0.0),
        (format!("sendoff_relay_publish_duration_seconds_count{target}"), 1.0),
        ("sendoff_relay_lanes_owned".to_owned(), 1.0),
        ("sendoff_ready".to_owned(), 1.0),
        ("sendoff_store_up".to_owned(), 1.0),
    ] {
        assert_eq!(sample(&page, &name), Some(value), "{name} in {page}");
    }
    let lag =
        "sendoff_relay_message_lag_seconds_count{target=\"file:out.jsonl\",since=\"creation\"}";
    assert_eq!(sample(&page, lag), Some(1.0));
    assert!(!page.contains("secret-body"), "{page}");
    assert_eq!(http::request(port, "GET", "/elsewhere", b"").0, 404);
    relay.signal(Signal::TERM);
    relay.wait().ok();
}

/// Every metric that a real relay answers with has a help and a type, and is in the reference.
#[test]
fn what_a_relay_answers_is_what_the_reference_has() {
    let folder = Folder::with_store();
    let (_relay, port) = relay(&folder, &[]);
    until("it has begun", || http::text(port, "/metrics").contains("sendoff_relay_looks_total"));
    let page = http::text(port, "/metrics");
    let reference = include_str!("../../../../docs/reference/metrics.md");
    let described: BTreeSet<&str> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("sendoff_"))
        .collect();
    let typed: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(typed, described);
    for name in &typed {
        assert!(page.contains(&format!("# HELP {name} ")), "{name}");
    }
}

#[test]
fn a_relay_whose_database_cannot_be_reached_lives_and_is_not_ready() {
    let folder = Folder::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://u:secret@{}/d", listener.local_addr().unwrap());
    drop(listener);
    let (relay, port) = relay(&folder, &["--store", &store]);
    assert_eq!(http::request(port, "GET", "/health/live", b"").0, 200);
    let (status, value) = http::request(port, "GET", "/health/ready", b"");
    assert_eq!((status, &value["reason"]), (503, &Value::from("starting")));
    let page = http::text(port, "/metrics");
    assert_eq!(sample(&page, "sendoff_ready"), Some(0.0));
    assert_eq!(sample(&page, "sendoff_store_up"), Some(0.0));
    assert!(!page.contains("secret") && !relay.err().contains("secret"), "{page}");
}

#[test]
fn a_database_that_goes_away_is_told_and_a_target_that_is_down_is_not() {
    let folder = Folder::with_store();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("nats://{}/S", listener.local_addr().unwrap());
    drop(listener);
    folder.run(&["send", "--topic", "t", "body"]).ok();
    let (relay, port) = relay(&folder, &["--to", &to]);
    let down = format!("sendoff_relay_target_down{{target=\"{to}\"}}");
    until("the target is down", || sample(&http::text(port, "/metrics"), &down) == Some(1.0));
    assert_eq!(http::request(port, "GET", "/health/ready", b"").0, 200);
    // The file is moved away: the store cannot be opened any more.
    std::fs::rename(folder.path("shop.db"), folder.path("away.db")).unwrap();
    until("it is not ready", || http::request(port, "GET", "/health/ready", b"").0 == 503);
    let (_, value) = http::request(port, "GET", "/health/ready", b"");
    assert_eq!(value["reason"], "store");
    std::fs::rename(folder.path("away.db"), folder.path("shop.db")).unwrap();
    until("it is ready again", || http::request(port, "GET", "/health/ready", b"").0 == 200);
    drop(relay);
}

/// Every report is one line of JSON with the fields that the reference names, and says nothing of what
/// a message holds.
#[test]
fn a_json_log_has_an_event_for_each_report_and_no_payload() {
    let folder = Folder::with_store();
    // Headers that are no object of texts: it goes to quarantine.
    folder
        .database()
        .execute(
            "INSERT INTO sendoff_outbox (id, source, topic, headers, body) \
             VALUES ('odd', 'shop', 'orders', '{\"a\": 1}', 'secret-body')",
            [],
        )
        .unwrap();
    folder.write("sendoff.toml", "store = \"sqlite:shop.db\"\n[relay]\nalert_every = \"100ms\"\n");
    let (relay, _port) = relay(&folder, &[]);
    until("the alert is told", || relay.err().contains("\"growing\""));
    let which = ["quarantine", "discard", "--all"];
    folder.run(&which).ok();
    until("its end is told", || relay.err().contains("\"recovered\""));
    relay.signal(Signal::TERM);
    let said = relay.wait().ok();
    let events = events(&said.err);
    assert_eq!(events.len(), said.err.lines().count(), "every line is JSON: {}", said.err);
    let find = |name: &str| events.iter().find(|event| event["event"] == name).unwrap().clone();
    let quarantined = find("quarantined");
    assert_eq!(quarantined["level"], "ERROR");
    assert_eq!(quarantined["reason"], "undecodable");
    assert_eq!(quarantined["target_address"], "file:out.jsonl");
    assert!(quarantined["seq"].is_i64());
    let growing = find("growing");
    assert_eq!((&growing["alert"], &growing["count"]), (&"quarantined".into(), &1.into()));
    assert_eq!(find("recovered")["alert"], "quarantined");
    assert!(!said.err.contains("secret-body"), "{}", said.err);
    let reference = include_str!("../../../../docs/reference/logs.md");
    for event in events.iter().filter_map(|event| event["event"].as_str()) {
        assert!(reference.contains(&format!("| `{event}` |")), "{event} is not in the reference");
    }
}

#[test]
fn a_server_tells_its_figures_only_to_whoever_has_a_token() {
    let folder = Folder::with_store();
    let token = "0123456789abcdef";
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("SENDOFF_SERVE_TOKENS", token);
    let server = Process::spawn(command);
    until("it listens", || server.out().contains('\n'));
    let started: Value = serde_json::from_str(server.out().lines().next().unwrap()).unwrap();
    let port = u16::try_from(started["port"].as_u64().unwrap()).unwrap();
    assert_eq!(http::request(port, "GET", "/health/live", b"").0, 200);
    assert_eq!(http::request(port, "GET", "/health/ready", b"").0, 200);
    assert_eq!(http::request(port, "GET", "/metrics", b"").0, 401);
    let page = http::text_with(port, "/metrics", &format!("authorization: Bearer {token}\r\n"));
    assert_eq!(sample(&page, "sendoff_store_up"), Some(1.0), "{page}");
    assert!(!page.contains("sendoff_relay_"), "{page}");
}
