//! `barrier grow`, `seal`, `reopen`, `exclude`, `reconcile`, deadlines, policies and parents.

use serde_json::{Value, json};

use crate::folder::until;
use crate::stores::on_each;

#[test]
fn a_list_that_grows_completes_when_it_is_sealed_and_not_before() {
    on_each(|folder| {
        folder.create("b", &["a"], &["--unsealed", "--continue-with", "done"]);
        assert_eq!(folder.barrier(&["ack", "b", "a"]).ok().json()["complete"], false);
        folder.write("more", r#"["b", "a"]"#);
        let grown = folder.barrier(&["grow", "b", "--members-json", "more"]).ok().json();
        assert_eq!((&grown["members"], &grown["complete"]), (&json!(1), &json!(false)));
        assert_eq!(folder.barrier(&["ack", "b", "b"]).ok().json()["complete"], false);
        assert_eq!(folder.barrier(&["seal", "b"]).ok().json()["complete"], true);
        folder.barrier(&["seal", "b"]).ok();
        assert_eq!(folder.arrived("done").len(), 1);
    });
}

#[test]
fn failed_members_are_reopened_under_a_new_epoch_with_a_continuation_of_its_own() {
    on_each(|folder| {
        folder.create("b", &["a", "b", "c"], &["--continue-with", "done"]);
        folder.barrier(&["ack", "b", "a"]).ok();
        folder.barrier(&["ack", "b", "b", "--failed"]).ok();
        folder.barrier(&["ack", "b", "c", "--failed"]).ok();
        assert_eq!(folder.arrived("done").len(), 1);
        let reopened = folder.barrier(&["reopen", "b", "b"]).ok().json();
        assert_eq!((&reopened["members"], &reopened["epoch"]), (&json!(1), &json!(2)));
        assert_eq!(folder.state("b")["pending"], 1);
        assert_eq!(folder.barrier(&["ack", "b", "b"]).ok().json()["complete"], true);
        let bodies: Vec<Value> =
            folder.arrived("done").iter().map(|line| line["body"].clone()).collect();
        assert_eq!(bodies.len(), 2);
        assert!(bodies[1].as_str().unwrap().contains("\"epoch\":2"), "{bodies:?}");
        assert_eq!(folder.barrier(&["reopen", "b"]).ok().json()["members"], 1);
    });
}

#[test]
fn a_member_that_will_never_come_is_excluded_and_the_barrier_completes() {
    on_each(|folder| {
        folder.create("b", &["a", "b"], &[]);
        folder.barrier(&["ack", "b", "a"]).ok();
        assert_eq!(folder.barrier(&["exclude", "b", "b"]).ok().json()["complete"], true);
        let failures = folder.barrier(&["results", "b", "--failures"]).ok().json();
        assert_eq!(failures["members"][0]["error"], "excluded");
    });
}

#[test]
fn a_deadline_that_continues_brings_the_continuation_and_names_what_is_missing() {
    on_each(|folder| {
        let deadline = ["--deadline", "1s", "--on-deadline", "continue", "--continue-with", "done"];
        folder.create("b", &["a", "b"], &deadline);
        folder.create("m", &["a"], &["--deadline", "1s"]);
        folder.barrier(&["ack", "b", "a"]).ok();
        until("their deadlines have come", || folder.state("m")["overdue"] == true);
        let mut arrived = Vec::new();
        until("the relay has closed it", || {
            arrived = folder.arrived("done");
            !arrived.is_empty()
        });
        assert!(arrived[0]["body"].as_str().unwrap().contains("\"reason\":\"deadline\""));
        let status = folder.state("b");
        assert_eq!((&status["state"], &status["missing"]), (&json!("deadline"), &json!(1)));
        let missing = folder.barrier(&["results", "b", "--missing"]).ok().json();
        assert_eq!(missing["members"][0]["member"], "b");
        // One that only marks goes on.
        let marked = folder.state("m");
        assert_eq!((&marked["state"], &marked["overdue"]), (&json!("open"), &json!(true)));
        folder.barrier(&["ack", "m", "a"]).ok();
    });
}

#[test]
fn policies_end_a_barrier_early() {
    on_each(|folder| {
        folder.create("q", &["a", "b", "c"], &["--at-least", "2", "--counting", "successful"]);
        assert_eq!(folder.barrier(&["ack", "q", "a", "--failed"]).ok().json()["complete"], false);
        assert_eq!(folder.barrier(&["ack", "q", "b"]).ok().json()["complete"], false);
        assert_eq!(folder.barrier(&["ack", "q", "c"]).ok().json()["complete"], true);

        folder.write("groups", r#"{"core": ["a"], "rest": ["x", "y"]}"#);
        let policy = r#"{"groups":{"core":{"wanted":"all"},"rest":{"wanted":{"at_least":1}}}}"#;
        folder.barrier(&["create", "g", "--members-json", "groups", "--policy", policy]).ok();
        assert_eq!(folder.barrier(&["ack", "g", "x"]).ok().json()["complete"], false);
        assert_eq!(folder.barrier(&["ack", "g", "a"]).ok().json()["complete"], true);

        folder.create("f", &["a", "b", "c"], &["--first-failure", "--continue-with", "ended"]);
        folder.barrier(&["ack", "f", "b", "--failed"]).ok();
        let mut arrived = Vec::new();
        until("the first failure has ended it", || {
            arrived = folder.arrived("ended");
            !arrived.is_empty()
        });
        assert!(arrived[0]["body"].as_str().unwrap().contains("first_failure"), "{arrived:?}");
        assert_eq!(folder.state("f")["missing"], 2);
    });
}

#[test]
fn a_barrier_is_a_member_of_another() {
    on_each(|folder| {
        folder.create("up", &["first", "second"], &["--continue-with", "done"]);
        for (child, member) in [("one", "first"), ("two", "second")] {
            folder.create(child, &["x"], &["--parent", "up", "--parent-member", member]);
        }
        folder.barrier(&["ack", "one", "x"]).ok();
        folder.barrier(&["cancel", "two"]).ok();
        until("the children have acknowledged themselves", || {
            folder.run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
            folder.state("up")["complete"] == true
        });
        assert_eq!(folder.arrived("done").len(), 1);
        let failures = folder.barrier(&["results", "up", "--failures"]).ok().json();
        assert_eq!(failures["members"][0]["member"], "second");
        assert_eq!(failures["members"][0]["channel"], "barrier");
    });
}

#[test]
fn lost_acknowledgements_are_found_by_the_probe() {
    on_each(|folder| {
        let query = "SELECT 'a' AS member UNION ALL SELECT 'c'";
        folder.create("b", &["a", "b", "c"], &["--probe-sql", query]);
        let found = folder.barrier(&["reconcile", "b"]).ok().json();
        assert_eq!((&found["resolved"], &found["complete"]), (&json!(2), &json!(false)));
        let results = folder.barrier(&["results", "b"]).ok().json();
        assert_eq!(results["members"][0]["channel"], "probe");
        assert_eq!(folder.barrier(&["ack", "b", "b"]).ok().json()["complete"], true);
    });
}

#[test]
fn files_under_a_prefix_are_acknowledgements() {
    on_each(|folder| {
        std::fs::create_dir_all(folder.path("acks/b")).unwrap();
        folder.write("acks/b/a", b"");
        folder.write("acks/b/b", br#"{"ok":false,"error":"no"}"#);
        folder.write("acks/b/c.tmp", b"");
        folder.write("acks/b/nobody", b"");
        folder.create("b", &["a", "b", "c"], &["--probe-keys", "folder:acks/b/"]);
        let found = folder.barrier(&["reconcile", "b"]).ok().json();
        assert_eq!((&found["resolved"], &found["complete"]), (&json!(2), &json!(false)));
        let failures = folder.barrier(&["results", "b", "--failures"]).ok().json();
        assert_eq!(failures["members"][0]["member"], "b");
        assert_eq!(failures["members"][0]["error"], "no");
        assert_eq!(failures["members"][0]["channel"], "probe");
        assert_eq!(folder.barrier(&["ack", "b", "c"]).ok().json()["complete"], true);

        folder.write("members", b"a\n");
        let lines = ["create", "c", "--members-file", "members", "--probe-keys", "acks/c/"];
        let error = folder.barrier(&lines).error();
        assert!(error.to_string().contains("folder:"), "{error}");
    });
}

#[test]
fn a_relay_looks_into_the_folder_before_a_deadline() {
    on_each(|folder| {
        std::fs::create_dir_all(folder.path("acks")).unwrap();
        folder.write("acks/b-a", b"");
        let deadline = ["--deadline", "1s", "--on-deadline", "continue", "--continue-with", "done"];
        let probe = ["--probe-keys", "folder:acks/b-"];
        folder.create("b", &["a", "z"], &[&deadline[..], &probe[..]].concat());
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        assert_eq!(folder.arrived("done").len(), 1);
        let status = folder.state("b");
        assert_eq!((&status["state"], &status["resolved"]), (&json!("deadline"), &json!(1)));
        assert_eq!(status["missing"], 1);
    });
}
