//! `barrier ack --lines`: many acknowledgements, in transactions of a fixed size.

use serde_json::{Value, json};

use crate::folder::{Folder, Said};
use crate::stores::on_each;

fn lines(folder: &Folder, input: &str) -> Said {
    folder.feed(&["barrier", "ack", "b", "--lines", "--json"], input.as_bytes())
}

fn summary(said: &Said) -> [u64; 5] {
    let value = said.json();
    ["lines", "resolved", "duplicate", "failed", "refused"]
        .map(|name| value[name].as_u64().unwrap_or_else(|| panic!("{value}")))
}

#[test]
fn one_summary_counts_what_was_resolved_duplicate_failed_and_refused() {
    on_each(|folder| {
        folder.create("b", &["a", "b", "c", "d"], &[]);
        let said = lines(
            folder,
            "{\"member\":\"a\"}\n{\"member\":\"b\",\"ok\":false,\"error\":\"no\"}\n\
             {\"member\":\"a\",\"ok\":true}\n{\"member\":\"A\"}\nnonsense\n{\"member\":\"c\",\"result\":{\"n\":1}}",
        );
        assert_eq!((said.code, summary(&said)), (8, [6, 3, 1, 1, 2]));
        let value = said.json();
        let refusals: Vec<(&Value, &Value)> = value["refusals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|refusal| (&refusal["line"], &refusal["code"]))
            .collect();
        assert_eq!(
            refusals,
            [(&json!(4), &json!("unknown_member")), (&json!(5), &json!("invalid"))]
        );
        assert_eq!(value["refusals"][0]["near"], json!(["a"]));
        assert_eq!(value["complete"], false);
        assert_eq!(folder.state("b")["pending"], 1);

        // Only duplicates and good ones: nothing was refused.
        let rest = lines(folder, "{\"member\":\"a\"}\n{\"member\":\"d\"}\n").ok();
        assert_eq!((summary(&rest), &rest.json()["complete"]), ([2, 1, 1, 0, 0], &json!(true)));
        let none = lines(folder, "").ok();
        assert_eq!(summary(&none), [0, 0, 0, 0, 0]);
    });
}

#[test]
fn thousands_of_lines_are_a_few_transactions() {
    on_each(|folder| {
        let names: Vec<String> = (0..2_500).map(|n| format!("m{n}")).collect();
        let members: Vec<&str> = names.iter().map(String::as_str).collect();
        folder.create("b", &members, &["--continue-with", "done"]);
        let input: String =
            names.iter().rev().map(|name| format!("{{\"member\":\"{name}\"}}\n")).collect();
        let said = lines(folder, &input).ok();
        assert_eq!(summary(&said), [2_500, 2_500, 0, 0, 0]);
        assert_eq!(
            (&said.json()["transactions"], &said.json()["complete"]),
            (&json!(3), &json!(true))
        );
        let again = lines(folder, &input).ok();
        assert_eq!(summary(&again), [2_500, 0, 2_500, 0, 0]);
        assert_eq!(folder.arrived("done").len(), 1);
    });
}

#[test]
fn a_barrier_that_takes_none_ends_it_with_the_line_where() {
    on_each(|folder| {
        let said = lines(folder, "{\"member\":\"a\"}\n");
        assert_eq!((said.code, &said.error()["code"]), (6, &json!("not_found")));
        folder.create("b", &["a"], &[]);
        folder.barrier(&["cancel", "b"]).ok();
        let said = lines(folder, "nonsense\n{\"member\":\"a\"}\n");
        assert_eq!((said.code, &said.error()["code"]), (8, &json!("cancelled")));
        assert!(said.error()["next"].as_str().unwrap().contains("stopped at line 1"), "{said:?}");
    });
}

#[test]
fn what_was_refused_is_named_for_people_and_the_list_has_an_end() {
    on_each(|folder| {
        folder.create("b", &["a"], &[]);
        let input: String = (0..150).map(|n| format!("{{\"member\":\"x{n}\"}}\n")).collect();
        let said = folder.feed(&["barrier", "ack", "b", "--lines"], input.as_bytes());
        assert_eq!(said.code, 8);
        assert!(said.out.contains("line 100: x99: "), "{}", said.out);
        assert!(
            said.out.contains("and 50 more refused lines\n150 lines: 0 resolved"),
            "{}",
            said.out
        );
        // No more evidence than is kept of one barrier.
        let why = folder.barrier(&["why", "b"]).ok().json();
        assert!(why["evidence"].as_array().unwrap().len() <= 100);
    });
}

#[test]
fn flags_of_one_acknowledgement_do_not_go_with_lines() {
    let folder = Folder::with_store();
    for wrong in [
        &["ack", "b", "--lines", "a"][..],
        &["ack", "b", "--lines", "--failed"],
        &["ack", "b"],
        &["ack", "b", "a", "--per-transaction", "5"],
        &["ack", "b", "--lines", "--per-transaction", "0"],
    ] {
        assert_eq!(folder.barrier(wrong).code, 2, "{wrong:?}");
    }
}
