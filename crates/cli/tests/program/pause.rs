//! `pause`, `resume` and `pauses`.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::folder::{Folder, until};
use crate::routes::{add_routes, ids, send};
use crate::stores::on_each;

fn pauses(folder: &Folder) -> Vec<Value> {
    folder.run(&["pauses", "--json"]).ok().json()["pauses"].as_array().unwrap().clone()
}

#[test]
fn what_is_paused_by_topic_key_or_target_stays_and_leaves_in_order_after_the_resume() {
    on_each(|folder| {
        add_routes(folder);
        let scopes = [("--topic", "mail.bulk.>"), ("--key", "ada"), ("--target", "orders")];
        for (flag, name) in scopes {
            let said = folder.run(&["pause", flag, name, "--reason", "why not", "--json"]).ok();
            assert_eq!(said.json()["was_paused"], false);
        }
        for (id, topic, key) in [
            ("1", "mail.bulk.x", "k1"),
            ("2", "mail.x", "ada"),
            ("3", "mail.x", "ada"),
            ("4", "orders.x", "k2"),
            ("5", "mail.x", "k3"),
        ] {
            send(folder, id, topic, key);
        }
        let answer = folder.run(&["relay", "--once", "--json"]).ok().json();
        assert_eq!((&answer["end"], &answer["tally"]["settled"]), (&json!("drained"), &json!(1)));
        assert_eq!(ids(folder, "mail.jsonl"), ["5"]);
        let counts: Vec<(Value, Value, Value)> = pauses(folder)
            .into_iter()
            .map(|pause| (pause["name"].clone(), pause["parked"].clone(), pause["held"].clone()))
            .collect();
        let expected = [("mail.bulk.>", 1, 0), ("ada", 1, 1), ("orders", 1, 0)]
            .map(|(name, parked, held)| (json!(name), json!(parked), json!(held)));
        assert_eq!(counts, expected);
        let status = folder.run(&["status", "--json"]).ok().json();
        assert_eq!(
            (&status["paused"], &status["held"], &status["due"]),
            (&json!(3), &json!(1), &json!(0))
        );
        let shown = folder.run(&["show", "2", "--json"]).ok().json();
        assert_eq!(shown["messages"][0]["place"], "paused");
        let table = folder.run(&["pauses"]).ok().out;
        assert!(table.contains("why not") && table.contains("held behind"), "{table}");
        folder.run(&["resume", "--key", "ada"]).ok();
        folder.run(&["relay", "--once"]).ok();
        assert_eq!(ids(folder, "mail.jsonl"), ["5", "2", "3"]);
        let ended = folder.run(&["resume", "--all", "--json"]).ok().json();
        assert_eq!(ended["pauses"], 2);
        folder.run(&["relay", "--once"]).ok();
        assert_eq!(ids(folder, "mail.jsonl"), ["5", "2", "3", "1"]);
        assert_eq!(ids(folder, "orders.jsonl"), ["4"]);
        assert!(pauses(folder).is_empty());
    });
}

#[test]
fn a_running_relay_sees_a_pause_and_its_end() {
    let folder = Folder::with_store();
    let relay = folder.start(&["relay", "--to", "file:out.jsonl"]);
    send(&folder, "1", "t", "k");
    until("the first arrives", || {
        folder.path("out.jsonl").exists() && ids(&folder, "out.jsonl") == ["1"]
    });
    folder.run(&["pause", "--target", "default"]).ok();
    // It is seen within the poll interval, 200 ms.
    std::thread::sleep(std::time::Duration::from_millis(700));
    send(&folder, "2", "t", "k");
    until("it is set aside", || folder.run(&["status", "--json"]).ok().json()["paused"] == 1);
    assert_eq!(ids(&folder, "out.jsonl"), ["1"]);
    folder.run(&["resume", "--target", "default"]).ok();
    until("the second arrives", || ids(&folder, "out.jsonl") == ["1", "2"]);
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code, 0);
}

#[test]
fn what_cannot_be_paused_or_resumed_is_told() {
    let folder = Folder::with_store();
    for arguments in [
        &["pause"][..],
        &["pause", "--topic", "a", "--key", "b"][..],
        &["pause", "--topic", "a.>.b"][..],
        &["pause", "--target", ""][..],
        &["resume"][..],
    ] {
        assert_eq!(folder.run(arguments).code, 2, "{arguments:?}");
    }
    let said = folder.run(&["resume", "--topic", "a", "--json"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(
        said.error()["message"].as_str().unwrap().contains("topic a is not paused"),
        "{said:?}"
    );
    folder.run(&["pause", "--topic", "a"]).ok();
    let again = folder.run(&["pause", "--topic", "a", "--json"]).ok().json();
    assert_eq!(again["was_paused"], true);
}
