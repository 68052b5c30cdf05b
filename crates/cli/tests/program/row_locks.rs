//! `relay --mode row-locks`, and the drain of either mode.

use rustix::process::Signal;
use serde_json::Value;

use crate::folder::{Folder, until};

#[test]
fn row_locks_publish_what_is_there_in_order_and_tell_it_as_lanes_do() {
    let folder = Folder::with_store();
    folder.feed(&["send", "--topic", "t", "--lines"], b"one\ntwo\nthree\n").ok();
    let once = ["relay", "--mode", "row-locks", "--batch", "2", "--to", "file:out.jsonl", "--once"];
    let said = folder.run(&[&once[..], &["--json"]].concat()).ok().json();
    assert_eq!((&said["end"], &said["tally"]["settled"]), (&"drained".into(), &3.into()), "{said}");
    let bodies: Vec<Value> =
        folder.deliveries("out.jsonl").iter().map(|line| line["body"].clone()).collect();
    assert_eq!(bodies, ["one", "two", "three"]);
    let status = folder.run(&["status", "--json"]).ok().json();
    assert_eq!((&status["published"], &status["lanes_leased"]), (&3.into(), &0.into()), "{status}");
}

#[test]
fn a_relay_with_row_locks_runs_until_it_is_stopped() {
    let folder = Folder::with_store();
    let arguments = ["relay", "--mode", "row-locks", "--to", "file:out.jsonl", "--drain", "1s"];
    let relay = folder.start(&[&arguments[..], &["--json"]].concat());
    until("it has begun", || relay.err().contains("the relay starts"));
    folder.run(&["send", "--topic", "t", "while"]).ok();
    until("it has arrived", || folder.run(&["status", "--json"]).ok().json()["published"] == 1);
    relay.signal(Signal::TERM);
    let said = relay.wait().ok().json();
    assert_eq!((&said["end"], &said["tally"]["settled"]), (&"stopped".into(), &1.into()), "{said}");
}

#[test]
fn settings_that_do_not_go_together_are_refused_by_name() {
    let folder = Folder::with_store();
    let relay = ["relay", "--to", "file:out.jsonl"];
    for (more, words) in [
        (&["--batch", "5"][..], "--batch"),
        (&["--drain", "10s"], "cancel_after"),
        (&["--mode", "row-locks", "--drain", "10s"], "cancel_after"),
        (&["--mode", "rows"], "row-locks"),
    ] {
        let said = folder.run(&[&relay[..], more].concat());
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(words), "{words}: {said:?}");
    }
}
