//! Retention, sending again, and the tail, on both stores.

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, until};
use crate::stores::on_each;

fn relay(folder: &Folder) {
    folder.run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
}

fn ids(folder: &Folder) -> Vec<String> {
    let lines = folder.deliveries("out.jsonl");
    lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_kept_is_shown_and_sent_again_with_the_id_that_it_had() {
    on_each(|folder| {
        let off = folder.run(&["retention", "--json"]).ok().json();
        assert_eq!((&off["keeps"], &off["keep_for_ms"]), (&Value::from(false), &Value::Null));
        let on = folder.run(&["retention", "--keep", "7d"]).ok();
        assert!(on.out.contains("kept for 7d"), "{on:?}");
        for (id, topic) in [("1", "orders.eu"), ("2", "orders.us"), ("3", "bills.eu")] {
            folder.run(&["send", "--topic", topic, "--key", "k", "--id", id, "the body"]).ok();
        }
        relay(folder);
        let shown = folder.run(&["show", "2", "--json"]).ok().json();
        assert_eq!(shown["messages"][0]["place"], "gone");
        let kept = &shown["kept"][0];
        assert_eq!((&kept["id"], &kept["topic"]), (&Value::from("2"), &Value::from("orders.us")));
        assert!(kept["target"].as_str().unwrap().contains("out.jsonl"), "{kept}");
        let text = folder.run(&["show", "2"]).ok();
        assert!(text.out.contains("sendoff resend --id 2 --yes"), "{text:?}");
        assert!(!format!("{shown}{text:?}").contains("the body"), "{text:?}");

        let refused = folder.run(&["resend", "--from", "1h"]);
        assert_eq!(refused.code, 2, "neither --yes nor --dry-run: {refused:?}");
        let dry = ["resend", "--from", "1h", "--topic", "orders.*", "--dry-run", "--json"];
        let dry = folder.run(&dry).ok().json();
        assert_eq!((&dry["progress"]["wanted"], &dry["progress"]["sent"]), (&2.into(), &0.into()));
        let sent = folder.run(&["resend", "--from", "1h", "--topic", "orders.*", "--yes"]).ok();
        assert!(sent.out.contains("sent 2 messages again"), "{sent:?}");
        let again = folder.run(&["resend", "--id", "1", "--yes", "--json"]).ok().json();
        assert_eq!(again["progress"]["waiting"], 1);
        relay(folder);
        assert_eq!(ids(folder), ["1", "2", "3", "1", "2"]);
        let lines = folder.deliveries("out.jsonl");
        assert_eq!(
            (&lines[0]["source"], &lines[0]["body"]),
            (&lines[3]["source"], &lines[3]["body"])
        );

        folder.run(&["retention", "--delete-behind"]).ok();
        folder.run(&["send", "--topic", "t", "--id", "4", "x"]).ok();
        relay(folder);
        let none = folder.run(&["resend", "--id", "4", "--yes", "--json"]).ok().json();
        assert_eq!(none["progress"]["wanted"], 0);
    });
}

#[test]
fn a_time_a_pattern_a_mark_or_a_retention_that_cannot_be_is_refused() {
    let folder = Folder::with_store();
    for arguments in [
        &["resend", "--from", "yesterday", "--yes"][..],
        &["resend", "--from", "1h", "--to", "x", "--yes"],
        &["resend", "--from", "1h", "--topic", "a.>.b", "--yes"],
        &["resend", "--from", "1h", "--after", "1:2", "--yes"],
        &["resend", "--yes"],
        &["retention", "--keep", "7"],
        &["retention", "--keep", "1s"],
        &["retention", "--keep", "1d", "--delete-behind"],
        &["tail", "--topic", ""],
        &["doctor", "--oldest-due", "soon"],
    ] {
        let said = folder.run(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
        assert_eq!(said.out, "", "{arguments:?}");
    }
}

#[test]
fn the_tail_shows_what_is_sent_and_what_becomes_of_it_until_it_is_stopped() {
    on_each(|folder| {
        folder.run(&["send", "--topic", "orders", "--key", "k", "--id", "first", "secret"]).ok();
        folder.run(&["send", "--topic", "bills", "--id", "other", "secret"]).ok();
        let lines = folder.run(&["tail", "--topic", "orders", "--json"]).ok();
        let line = lines.json();
        assert_eq!((&line["id"], &line["place"]), (&Value::from("first"), &Value::from("ready")));
        assert_eq!((&line["key"], &line["body_bytes"]), (&Value::from("k"), &Value::from(6)));
        assert!(!lines.out.contains("secret"), "{lines:?}");
        let bodies = folder.run(&["tail", "--bodies", "-n", "1"]).ok();
        assert!(bodies.out.contains("secret") && !bodies.out.contains("first"), "{bodies:?}");

        let mut tail = folder.start(&["tail", "--follow", "--json"]);
        until("it shows what is there", || tail.out().lines().count() == 2);
        folder.run(&["send", "--topic", "orders", "--id", "second", "secret"]).ok();
        until("it shows what is sent", || tail.out().contains("\"second\""));
        relay(folder);
        until("it shows that they have left", || {
            tail.out().lines().filter(|line| line.contains("\"gone\"")).count() == 3
        });
        let last: Value = serde_json::from_str(tail.out().lines().last().unwrap()).unwrap();
        assert_eq!(last["topic"], "orders", "it remembers what the store has forgotten");
        assert!(tail.is_running());
        tail.signal(Signal::INT);
        let said = tail.wait().ok();
        assert!(!format!("{said:?}").contains("secret"), "{said:?}");
    });
}
