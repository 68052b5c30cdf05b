//! `send`, `status`, `show` and `migrate`.

use serde_json::Value;

use crate::folder::{Folder, Process};

fn status(folder: &Folder) -> Value {
    folder.run(&["status", "--json"]).ok().json()
}

fn drain(folder: &Folder) -> Vec<Value> {
    folder.run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
    folder.deliveries("out.jsonl")
}

#[test]
fn migrate_makes_the_file_and_is_safe_twice_and_at_once() {
    let folder = Folder::new();
    let first = folder.run(&["migrate", "--store", "sqlite:shop.db", "--json"]).ok().json();
    assert_eq!((&first["from"], &first["state"]), (&Value::from(0), &Value::from("current")));
    let second = folder.run(&["migrate", "--store", "sqlite:shop.db", "--json"]).ok().json();
    assert_eq!(second["from"], second["version"]);

    let all: Vec<Process> =
        (0..6).map(|_| folder.start(&["migrate", "--store", "sqlite:other.db"])).collect();
    for process in all {
        process.wait().ok();
    }
}

#[test]
fn a_message_carries_everything_that_was_said_of_it() {
    let folder = Folder::with_store();
    let sent = folder
        .run(&[
            "send",
            "--topic",
            "orders.placed",
            "--key",
            "ada",
            "--header",
            "a=1",
            "--header",
            "b=x=y",
            "--id",
            "order-1",
            "--source",
            "shop",
            "the body",
            "--json",
        ])
        .ok()
        .json();
    assert_eq!(sent["id"], "order-1");
    let delivered = drain(&folder);
    let expected = serde_json::json!({
        "id": "order-1", "source": "shop", "topic": "orders.placed", "key": "ada",
        "headers": {"a": "1", "b": "x=y"}, "body": "the body",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&delivered[0][name], value, "{name}");
    }
}

#[test]
fn a_body_comes_from_a_file_or_standard_input_byte_for_byte() {
    let folder = Folder::with_store();
    let bytes = [0_u8, 255, 10, 13, 0];
    folder.write("body", bytes);
    folder.run(&["send", "--topic", "t", "--body-file", "body"]).ok();
    folder.feed(&["send", "--topic", "t", "-"], &bytes).ok();
    folder.feed(&["send", "--topic", "t", "-"], b"").ok();
    let delivered = drain(&folder);
    assert_eq!(delivered.len(), 3);
    assert_eq!(delivered[0]["body_base64"], "AP8KDQA=");
    assert_eq!(delivered[1]["body_base64"], "AP8KDQA=");
    assert_eq!(delivered[2]["body"], "");
}

#[test]
fn each_line_is_a_message_in_transactions_of_the_given_size() {
    let folder = Folder::with_store();
    let mut lines = String::new();
    for number in 0..2_500 {
        lines.push_str(&format!("{number}\n"));
    }
    lines.push('\n');
    let send = ["send", "--topic", "t", "--key", "k", "--lines", "--json"];
    let sent = folder.feed(&send, lines.as_bytes()).ok().json();
    assert_eq!(sent, serde_json::json!({ "sent": 2_501, "transactions": 3 }));
    let bodies: Vec<String> =
        drain(&folder).iter().map(|line| line["body"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (0..2_500).map(|n| n.to_string()).chain([String::new()]).collect();
    assert_eq!(bodies, expected);

    let none = folder.feed(&send, b"").ok().json();
    assert_eq!(none["sent"], 0);
    let one = folder.feed(&["send", "--topic", "t", "--lines"], b"one\n").ok();
    assert_eq!(one.out, "sent 1 message in 1 transaction\n");
}

#[test]
fn lines_that_fail_half_way_say_what_is_committed() {
    let folder = Folder::with_store();
    let mut lines = "x\n".repeat(1_499);
    lines.push_str("this one is too long\n");
    lines.push_str(&"x\n".repeat(1_000));
    let said = folder.feed(
        &["send", "--topic", "t", "--lines", "--body-bytes-max", "5", "--json"],
        lines.as_bytes(),
    );
    assert_eq!(said.code, 2, "{said:?}");
    let error = said.error().to_string();
    assert!(error.contains("line 1500"), "{error}");
    assert!(error.contains("the first 1000 lines are committed, go on with line 1001"), "{error}");
    assert_eq!(status(&folder)["pending"], 1_000);
}

#[test]
fn a_second_send_of_the_same_source_and_id_is_refused() {
    let folder = Folder::with_store();
    let send = ["send", "--topic", "t", "--id", "one", "body", "--json"];
    folder.run(&send).ok();
    let said = folder.run(&send);
    assert_eq!((said.code, &said.error()["kind"]), (1, &Value::from("duplicate")), "{said:?}");
    let other = ["send", "--topic", "t", "--id", "one", "--source", "other", "body"];
    folder.run(&other).ok();
    assert_eq!(status(&folder)["pending"], 2);
}

#[test]
fn a_due_time_holds_a_message_back_and_is_no_reason_to_wait() {
    let folder = Folder::with_store();
    let send = ["send", "--topic", "t", "--id", "later", "--at", "+1h", "body"];
    folder.run(&send).ok();
    folder
        .run(&["send", "--topic", "t", "--id", "past", "--at", "2001-01-01T00:00:00Z", "body"])
        .ok();
    let delivered = drain(&folder);
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0]["id"], "past");
    let now = status(&folder);
    assert_eq!((&now["pending"], &now["due"]), (&Value::from(1), &Value::from(0)));
    let shown = folder.run(&["show", "later", "--json"]).ok().json();
    assert_eq!(shown["messages"][0]["place"], "due_later");
}

#[test]
fn status_has_its_integers_and_published_survives() {
    let folder = Folder::with_store();
    folder.run(&["send", "--topic", "t", "body"]).ok();
    let before = status(&folder);
    for name in ["pending", "held", "quarantined", "published"] {
        assert!(before[name].is_u64(), "{name}: {before}");
    }
    assert_eq!((&before["pending"], &before["published"]), (&Value::from(1), &Value::from(0)));
    drain(&folder);
    let after = status(&folder);
    assert_eq!((&after["pending"], &after["published"]), (&Value::from(0), &Value::from(1)));
    let text = folder.run(&["status"]).ok().out;
    assert!(text.contains("published    1\n"), "{text}");
}

#[test]
fn show_says_where_a_message_is_and_why() {
    let folder = Folder::with_store();
    folder.run(&["send", "--topic", "t", "--id", "one", "body"]).ok();
    let shown = folder.run(&["show", "one", "--json"]).ok().json();
    assert_eq!(shown["messages"][0]["place"], "ready");
    assert!(shown["messages"][0]["why"].as_str().unwrap().contains("no relay"), "{shown}");
    drain(&folder);
    let shown = folder.run(&["show", "one"]).ok().out;
    assert!(shown.contains("place    gone\n"), "{shown}");

    let said = folder.run(&["show", "never", "--json"]);
    assert_eq!((said.code, &said.error()["kind"]), (6, &Value::from("not_found")));
}
