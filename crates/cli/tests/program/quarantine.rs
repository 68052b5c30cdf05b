//! `quarantine`, and what it holds back.

use serde_json::Value;

use crate::folder::Folder;

/// A store with a row that does not decode, one of its key behind it, and one of another key.
fn with_an_odd_row() -> Folder {
    let folder = Folder::with_store();
    folder
        .database()
        .execute_batch(
            "INSERT INTO sendoff_outbox (id, source, topic, key, headers)
                  VALUES ('odd', 'shop', 't', 'ada', '{\"n\": 3}');
             INSERT INTO sendoff_outbox (id, source, topic, key) VALUES ('next', 'shop', 't', 'ada');
             INSERT INTO sendoff_outbox (id, source, topic, key) VALUES ('other', 'shop', 't', 'bob');",
        )
        .unwrap();
    folder
}

fn once(folder: &Folder) -> (i32, Value) {
    let said = folder.run(&["relay", "--once", "--to", "file:out.jsonl", "--json"]);
    (said.code, said.json())
}

fn ids(folder: &Folder) -> Vec<String> {
    let deliveries = folder.deliveries("out.jsonl");
    let id = |line: &Value| line["id"].as_str().unwrap().to_owned();
    deliveries.iter().map(id).collect()
}

#[test]
fn a_row_that_does_not_decode_is_set_aside_told_by_the_exit_code_shown_and_requeued_in_order() {
    let folder = with_an_odd_row();
    let (code, answer) = once(&folder);
    assert_eq!((code, &answer["end"]), (3, &Value::from("quarantined")), "{answer}");
    let status = folder.run(&["status", "--json"]).ok().json();
    assert_eq!((&status["quarantined"], &status["held"]), (&Value::from(1), &Value::from(1)));

    let list = folder.run(&["quarantine", "list", "--json"]).ok().json();
    let odd = &list["messages"][0];
    assert_eq!((&odd["id"], &odd["reason"]), (&Value::from("odd"), &Value::from("undecodable")));
    assert_eq!(odd["holds"], 1);
    assert!(folder.run(&["quarantine", "list"]).ok().out.contains("undecodable"));

    let shown = folder.run(&["quarantine", "show", "odd", "--json"]).ok().json();
    assert_eq!(shown["messages"][0]["id"], "odd");
    assert!(folder.run(&["quarantine", "show", "odd"]).ok().out.contains("requeue odd"));
    let held = folder.run(&["show", "next", "--json"]).ok().json();
    assert_eq!(
        (&held["messages"][0]["place"], &held["messages"][0]["held_behind"]),
        (&Value::from("held"), &Value::from("odd"))
    );

    let mend = "UPDATE sendoff_outbox SET headers = '{}' WHERE id = 'odd'";
    folder.database().execute(mend, []).unwrap();
    let mended = folder.run(&["quarantine", "requeue", "odd", "--json"]).ok().json();
    assert_eq!((&mended["done"], &mended["messages"]), (&Value::from("requeued"), &Value::from(1)));
    assert_eq!(once(&folder).0, 0);
    assert_eq!(ids(&folder), ["other", "odd", "next"]);
}

#[test]
fn discarding_lets_go_what_was_held() {
    let folder = with_an_odd_row();
    assert_eq!(once(&folder).0, 3);
    let mended =
        folder.run(&["quarantine", "discard", "--reason", "undecodable", "--json"]).ok().json();
    assert_eq!((&mended["messages"], &mended["released"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(once(&folder).0, 0);
    assert_eq!(ids(&folder), ["other", "next"]);
}

#[test]
fn all_takes_all_and_an_id_that_is_not_there_is_told() {
    let folder = with_an_odd_row();
    for verb in ["show", "requeue", "discard"] {
        let said = folder.run(&["quarantine", verb, "other", "--json"]);
        assert_eq!(said.code, 6, "{said:?}");
        assert!(said.error()["next"].as_str().unwrap().contains("sendoff show other"), "{said:?}");
    }
    let none = folder.run(&["quarantine", "requeue", "--all", "--json"]).ok().json();
    assert_eq!(none["messages"], 0);
    assert_eq!(once(&folder).0, 3);
    let one = folder.run(&["quarantine", "discard", "--all", "--json"]).ok().json();
    assert_eq!(one["messages"], 1);

    assert_eq!(folder.run(&["quarantine", "requeue"]).code, 2);
    assert_eq!(folder.run(&["quarantine", "requeue", "odd", "--all"]).code, 2);
    assert_eq!(folder.run(&["quarantine", "requeue", "--reason", "bad-luck"]).code, 2);
}

#[test]
fn a_long_list_comes_in_pages() {
    let folder = Folder::with_store();
    let mut rows = String::new();
    for number in 0..5 {
        rows.push_str(&format!(
            "INSERT INTO sendoff_outbox (id, source, topic, headers)
                  VALUES ('odd-{number}', 'shop', 't', '[]');"
        ));
    }
    folder.database().execute_batch(&rows).unwrap();
    assert_eq!(once(&folder).0, 3);
    let (mut seen, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let list = ["quarantine", "list", "--limit", "2", "--after", &after, "--json"];
        let page = folder.run(&list).ok().json();
        seen.extend(page["messages"].as_array().unwrap().iter().map(|m| m["id"].to_string()));
        match page["next_after"].as_i64() {
            Some(seq) => after = seq.to_string(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}
