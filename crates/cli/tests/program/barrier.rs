//! `barrier create`, `ack`, `status`, `results`, `why` and `list`.

use serde_json::{Value, json};

use crate::stores::on_each;

#[test]
fn the_last_acknowledgement_completes_and_one_continuation_arrives() {
    on_each(|folder| {
        // Bytes as they are: spaces, a carriage return, what is no UTF-8.
        folder.write("members", b"a.xml\n b \r\n\xff\xfe\n");
        let create = ["create", "b-1", "--members-file", "members", "--continue-with", "done"];
        let created = folder.barrier(&create).ok().json();
        assert_eq!(created, json!({"id":"b-1","existing":false,"differs":false,"complete":false}));
        assert_eq!(folder.barrier(&create).ok().json()["existing"], true);

        let acked = folder.barrier(&["ack", "b-1", "a.xml", "--result", r#"{"n": 1.10}"#]);
        let acked = acked.ok().json();
        assert_eq!((&acked["duplicate"], &acked["complete"]), (&json!(false), &json!(false)));
        let second =
            folder.barrier_bytes(&["ack", "b-1", "--failed", "--error", "no"], &[b" b \r"]);
        assert_eq!(second.ok().json()["duplicate"], false);
        let last = folder.barrier_bytes(&["ack", "b-1"], &[b"\xff\xfe"]).ok().json();
        assert_eq!((&last["complete"], &last["remaining"]), (&json!(true), &json!(0)));

        let arrived = folder.arrived("done");
        assert_eq!(arrived.len(), 1, "{arrived:?}");
        let body: Value = serde_json::from_str(arrived[0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(body, json!({"barrier":"b-1","epoch":1,"reason":"all"}));
        let status = folder.state("b-1");
        for (name, value) in [
            ("id", json!("b-1")),
            ("total", json!(3)),
            ("resolved", json!(3)),
            ("pending", json!(0)),
            ("failed", json!(1)),
            ("complete", json!(true)),
            ("state", json!("complete")),
            ("dispatched", json!(true)),
            ("reason", json!("all")),
        ] {
            assert_eq!(status[name], value, "{name} of {status}");
        }
        let results = folder.barrier(&["results", "b-1"]).ok();
        // The result is as it was written.
        assert!(results.out.contains(r#""result":{"n": 1.10}"#), "{}", results.out);
        let names: Vec<Value> = results.json()["members"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| member["member"].clone())
            .collect();
        assert_eq!(names, [json!(" b \r"), json!("a.xml"), json!({"base64":"//4="})]);
        let failures = folder.barrier(&["results", "b-1", "--failures"]).ok().json();
        assert_eq!(failures["members"][0]["error"], "no");
        assert_eq!(failures["next_after"], Value::Null);
        let one = folder.barrier(&["results", "b-1", "--member", " b \r"]).ok().json();
        assert_eq!(one["members"].as_array().map(Vec::len), Some(1), "{one}");
        assert_eq!(one["members"][0]["error"], "no");
        folder.refused(&["results", "b-1", "--member", "b"], 8, "unknown_member");
    });
}

#[test]
fn a_duplicate_is_no_failure_and_says_who_won() {
    on_each(|folder| {
        folder.create("b", &["a", "b"], &[]);
        folder.barrier(&["ack", "b", "a", "--error", "odd", "--channel", "letter"]).ok();
        let again = folder.barrier(&["ack", "b", "a", "--failed"]).ok().json();
        assert_eq!((&again["duplicate"], &again["conflict"]), (&json!(true), &json!(true)));
        let winner = &again["winner"];
        // Without --failed it went well, whatever it says besides.
        assert_eq!((&winner["ok"], &winner["error"]), (&json!(true), &json!("odd")));
        assert_eq!(winner["channel"], "letter");
        assert!(winner["at"].is_string());
        let same = folder.barrier(&["ack", "b", "a", "--error", "odd"]).ok().json();
        assert_eq!(same["conflict"], false);
        assert_eq!(folder.state("b")["resolved"], 1);
        // For people too.
        let text = folder.run(&["barrier", "ack", "b", "a"]).ok().out;
        assert!(text.starts_with("a was acknowledged before: ok at "), "{text}");
    });
}

#[test]
fn an_empty_list_completes_at_once_and_no_list_is_refused() {
    on_each(|folder| {
        folder.write("none", "");
        let create =
            folder.barrier(&["create", "b", "--members-file", "none", "--continue-with", "done"]);
        assert_eq!(create.ok().json()["complete"], true);
        assert_eq!(folder.arrived("done").len(), 1);
        assert_eq!(folder.barrier(&["create", "c"]).code, 2);
    });
}

#[test]
fn what_is_handed_to_the_continuation_is_in_the_status_as_it_was_written() {
    on_each(|folder| {
        folder.create("b", &["a"], &["--state", r#"{"ref": 12345678901234567890123}"#]);
        let said = folder.barrier(&["status", "b"]).ok();
        assert!(said.out.contains(r#""state_value":{"ref": 12345678901234567890123}"#), "{said:?}");
        assert_eq!(said.json()["state"], "open");
    });
}

#[test]
fn results_come_in_pages_by_name() {
    on_each(|folder| {
        let names: Vec<String> = (0..2_500).map(|n| format!("m{n:04}")).collect();
        folder.write("members", names.join("\n"));
        folder.barrier(&["create", "b", "--members-file", "members"]).ok();
        let lines: String = names
            .iter()
            .map(|name| format!("{{\"member\":\"{name}\",\"result\":[1]}}\n"))
            .collect();
        folder.feed(&["barrier", "ack", "b", "--lines"], lines.as_bytes()).ok();
        let all = folder.barrier(&["results", "b"]).ok().json();
        assert_eq!(all["members"].as_array().unwrap().len(), 2_500);
        assert_eq!(all["next_after"], Value::Null);
        let page =
            folder.barrier(&["results", "b", "--after", "m0009", "--limit", "3"]).ok().json();
        let first: Vec<&Value> =
            page["members"].as_array().unwrap().iter().map(|member| &member["member"]).collect();
        assert_eq!(first, ["m0010", "m0011", "m0012"]);
        assert_eq!(page["next_after"], "m0012");
        let last = folder.barrier(&["results", "b", "--after", "m2499"]).ok().json();
        assert_eq!(last["members"], json!([]));
        let text = folder.run(&["barrier", "results", "b", "--limit", "2"]).ok().out;
        assert!(text.contains("ok       m0001  [1]\n2 members; there may be more"), "{text}");
    });
}

#[test]
fn why_names_what_is_missing_and_near_misses() {
    on_each(|folder| {
        folder.create("b", &["Invoice 1.xml", "x"], &[]);
        let error = folder.refused(&["ack", "b", "invoice%201.xml"], 8, "unknown_member");
        assert_eq!(error["near"], json!(["Invoice 1.xml"]));
        folder.barrier(&["ack", "b", "x"]).ok();
        let why = folder.barrier(&["why", "b"]).ok().json();
        assert_eq!(why["waiting_for"], json!(["Invoice 1.xml"]));
        let evidence = &why["evidence"][0];
        assert_eq!(
            (&evidence["kind"], &evidence["near"]),
            (&json!("unknown"), &json!(["Invoice 1.xml"]))
        );
        assert_eq!(evidence["channel"], "cli");
        let text = folder.run(&["barrier", "why", "b"]).ok().out;
        assert!(text.contains("waiting for  Invoice 1.xml"), "{text}");
        assert!(text.contains("\"invoice%201.xml\" is not on the list"), "{text}");
    });
}

#[test]
fn barriers_are_listed_by_id_in_pages() {
    on_each(|folder| {
        assert_eq!(folder.barrier(&["list"]).ok().json()["barriers"], json!([]));
        for id in ["c", "a", "b"] {
            folder.create(id, &["m"], &[]);
        }
        let page = folder.barrier(&["list", "--limit", "2"]).ok().json();
        let ids: Vec<&Value> =
            page["barriers"].as_array().unwrap().iter().map(|barrier| &barrier["id"]).collect();
        assert_eq!((ids, &page["next_after"]), (vec![&json!("a"), &json!("b")], &json!("b")));
        let rest = folder.barrier(&["list", "--after", "b"]).ok().json();
        assert_eq!((&rest["barriers"][0]["id"], &rest["next_after"]), (&json!("c"), &Value::Null));
    });
}
