//! What a barrier refuses: each with its code and exit code, and nothing changed.

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::stores::on_each;

#[test]
fn each_refusal_has_its_code_and_changes_nothing() {
    on_each(|folder| {
        folder.create("b", &["a", "b"], &[]);
        let before = folder.state("b");
        folder.refused(&["ack", "b", "c"], 8, "unknown_member");
        folder.refused(&["ack", "other", "a"], 6, "not_found");
        let large = format!("\"{}\"", "x".repeat(8_192));
        folder.refused(&["ack", "b", "a", "--result", &large], 2, "too_large");
        folder.refused(&["ack", "b", "a", "--result", "{nonsense"], 2, "invalid");
        folder.refused(&["ack", "b", ""], 2, "invalid");
        folder.refused(&["ack", "b", &"x".repeat(1_025)], 2, "too_large");
        for verb in ["status", "why", "results", "cancel", "seal", "reopen", "reconcile"] {
            folder.refused(&[verb, "other"], 6, "not_found");
        }
        folder.refused(&["exclude", "b", "c"], 8, "unknown_member");
        folder.refused(&["reopen", "b"], 8, "conflict");
        folder.write("more", "c\n");
        folder.refused(&["grow", "b", "--members-file", "more"], 8, "conflict");
        assert_eq!(folder.state("b"), before);

        folder.barrier(&["cancel", "b"]).ok();
        folder.refused(&["ack", "b", "a"], 8, "cancelled");
        assert_eq!(folder.state("b")["state"], "cancelled");
    });
}

#[test]
fn what_cannot_be_created_is_refused_and_not_there() {
    on_each(|folder| {
        for (list, code) in [
            ("a\nb\na\n", "duplicate_name"),
            ("a\n\nb\n", "invalid"),
            (&format!("{}\n", "x".repeat(1_025)), "too_large"),
        ] {
            folder.write("members", list);
            folder.refused(&["create", "b", "--members-file", "members"], 2, code);
        }
        folder.write("members", "a\nb\n");
        let create = |more: &[&str], exit, code| {
            let mut arguments = vec!["create", "b", "--members-file", "members"];
            arguments.extend(more);
            folder.refused(&arguments, exit, code)
        };
        create(&["--continue-with", ""], 2, "invalid");
        create(&["--state", "{"], 2, "invalid");
        create(&["--deadline", "8d"], 2, "invalid");
        create(&["--deadline", "soon"], 2, "invalid");
        create(&["--at-least", "3"], 2, "invalid");
        create(&["--policy", r#"{"group":{}}"#], 2, "invalid");
        create(&["--parent", "none", "--parent-member", "m"], 6, "not_found");
        let state = format!("\"{}\"", "x".repeat(65_536));
        // The system's own limit of an argument is below that of a state.
        assert!(state.len() < 128 * 1024);
        folder.write("json", r#"{"a": "not a list"}"#);
        let error =
            folder.refused(&["create", "b", "--members-json", "json"], 2, "invalid").to_string();
        assert!(!error.contains("not a list"), "{error}");
        folder.refused(&["create", "b", "--members-file", "nowhere"], 2, "invalid");
        assert_eq!(folder.barrier(&["list"]).ok().json()["barriers"], json!([]));
    });
}

#[test]
fn other_members_under_the_same_id_are_told_and_refused_only_when_strict() {
    on_each(|folder| {
        folder.create("b", &["a", "b"], &[]);
        let other = folder.create("b", &["a", "c"], &[]);
        assert_eq!((&other["existing"], &other["differs"]), (&json!(true), &json!(true)));
        assert_eq!(folder.create("b", &["b", "a"], &["--strict"])["differs"], false);
        folder.write("members", "a\nc\n");
        let strict = ["create", "b", "--members-file", "members", "--strict"];
        folder.refused(&strict, 8, "conflict");
        let pending = folder.barrier(&["results", "b", "--pending"]).ok().json();
        assert_eq!(pending["members"][1]["member"], "b");
    });
}

#[test]
fn a_late_acknowledgement_is_refused_and_kept_as_evidence() {
    on_each(|folder| {
        folder.create("b", &["a", "b"], &["--at-least", "1"]);
        assert_eq!(folder.barrier(&["ack", "b", "a"]).ok().json()["complete"], true);
        folder.refused(&["ack", "b", "b"], 8, "conflict");
        assert_eq!(folder.barrier(&["ack", "b", "a"]).ok().json()["duplicate"], true);
        let why = folder.barrier(&["why", "b"]).ok().json();
        assert_eq!(why["evidence"][0]["kind"], "late");
        assert_eq!(folder.state("b")["reason"], "policy");
    });
}

#[test]
fn a_store_without_barriers_says_what_to_run() {
    let folder = Folder::new();
    let said = folder.run(&["barrier", "list", "--store", "sqlite:shop.db", "--json"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert_eq!(said.error()["next"], Value::from("run `sendoff migrate --store sqlite:shop.db`"));
}
