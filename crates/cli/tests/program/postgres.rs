//! The program on PostgreSQL: a private server that is killed and comes back, with a password.

use rustix::process::Signal;
use sendoff_conformance::servers::{Postgres, fresh_database, pooled};
use serde_json::Value;

use crate::folder::{Folder, until};

#[test]
fn the_verbs_work_on_postgres_and_a_second_migration_changes_nothing() {
    let url = fresh_database().unwrap();
    let folder = Folder::new();
    let run = |arguments: &[&str]| folder.run_with(arguments, &[("SENDOFF_STORE", url.as_str())]);
    let unmigrated = run(&["status", "--json"]);
    assert_eq!((unmigrated.code, &unmigrated.error()["kind"]), (5, &Value::from("schema_missing")));
    assert!(
        unmigrated.error()["next"].as_str().unwrap().contains("`sendoff migrate`"),
        "{unmigrated:?}"
    );

    assert_eq!(run(&["migrate", "--json"]).ok().json()["from"], 0);
    let second = run(&["migrate", "--json"]).ok().json();
    assert_eq!(second["from"], second["version"]);
    run(&["send", "--topic", "t", "--key", "k", "--id", "one", "first"]).ok();
    let again = run(&["send", "--topic", "t", "--id", "one", "--json", "again"]);
    assert_eq!(again.error()["kind"], "duplicate");
    run(&["send", "--topic", "t", "--key", "k", "--id", "two", "second"]).ok();
    assert_eq!(run(&["show", "two", "--json"]).ok().json()["messages"][0]["place"], "ready");
    run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
    let ids: Vec<Value> =
        folder.deliveries("out.jsonl").iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, ["one", "two"]);
    let status = run(&["status", "--json"]).ok().json();
    assert_eq!((&status["pending"], &status["published"]), (&Value::from(0), &Value::from(2)));
}

#[test]
fn a_relay_starts_while_the_database_is_down_and_survives_its_next_crash() {
    let mut server = Postgres::start().unwrap();
    let plain = server.create_database("shop").unwrap();
    server.execute("shop", "CREATE ROLE teller LOGIN SUPERUSER PASSWORD 'hidden-word'").unwrap();
    let (_, place) =
        plain.rsplit_once('@').unwrap_or(("", plain.trim_start_matches("postgres://")));
    let url = format!("postgres://teller:hidden-word@{place}");
    let folder = Folder::new();
    folder.write("sendoff.toml", format!("store = \"{url}\"\nto = \"file:out.jsonl\"\n"));
    folder.run(&["migrate"]).ok();
    folder.run(&["send", "--topic", "t", "one"]).ok();
    let arrived =
        || std::fs::read_to_string(folder.path("out.jsonl")).map_or(0, |text| text.lines().count());

    server.kill().unwrap();
    let relay = folder.start(&["relay"]);
    until("it says that it is not ready", || relay.err().contains("not ready"));
    server.restart().unwrap();
    until("the first has arrived", || arrived() == 1);

    server.kill().unwrap();
    until("it says that the store failed", || relay.err().contains("the store failed"));
    server.restart().unwrap();
    folder.run(&["send", "--topic", "t", "two"]).ok();
    until("the second has arrived", || arrived() >= 2);
    relay.signal(Signal::TERM);
    let said = relay.wait().ok();
    assert!(!format!("{said:?}").contains("hidden-word"), "{said:?}");
}

#[test]
fn a_wrong_password_ends_a_relay_with_an_error_that_does_not_repeat_it() {
    let folder = Folder::new();
    let place = fresh_database().unwrap();
    let (_, place) = place.split_once("://").unwrap();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let url = format!("postgres://nobody-of-this-name:hidden-word@{place}");
    let said = folder.run(&["relay", "--store", &url, "--to", "file:out.jsonl"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(!said.err.contains("hidden-word"), "{said:?}");
}

#[test]
fn send_and_relay_warn_of_commits_that_a_crash_can_lose() {
    let durable = fresh_database().unwrap();
    let weak = format!("{durable}?options=-csynchronous_commit%3Doff");
    let folder = Folder::new();
    let warnings = |url: &str, arguments: &[&str]| {
        let said = folder.run_with(arguments, &[("SENDOFF_STORE", url)]).ok();
        said.err.matches("synchronous_commit is off").count()
    };
    let send = ["send", "--topic", "t", "body"];
    let relay = ["relay", "--once", "--to", "file:out.jsonl"];
    assert_eq!(warnings(&durable, &["migrate"]), 0);
    assert_eq!((warnings(&durable, &send), warnings(&durable, &relay)), (0, 0));
    assert_eq!((warnings(&weak, &send), warnings(&weak, &relay)), (1, 1));
    assert_eq!(warnings(&weak, &["status"]), 0);
}

#[test]
fn the_verbs_work_in_another_schema_and_through_a_pooler_and_a_wrong_name_is_refused() {
    let direct = fresh_database().unwrap();
    let through = pooled(&direct).unwrap();
    let folder = Folder::new();
    let environment = [
        ("SENDOFF_STORE", through.as_str()),
        ("SENDOFF_POSTGRES_POOLER", "transaction"),
        ("SENDOFF_POSTGRES_SCHEMA", "Übel \"x\""),
    ];
    let run = |arguments: &[&str]| folder.run_with(arguments, &environment);
    run(&["migrate"]).ok();
    for id in ["one", "two"] {
        run(&["send", "--topic", "t", "--key", "k", "--id", id, "body"]).ok();
    }
    folder.write("members.txt", "m\n");
    run(&["barrier", "create", "b", "--members-file", "members.txt", "--continue-with", "b.done"])
        .ok();
    run(&["barrier", "ack", "b", "m"]).ok();
    assert_eq!(run(&["show", "two", "--json"]).ok().json()["messages"][0]["place"], "ready");
    run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
    assert_eq!(folder.deliveries("out.jsonl").len(), 3);
    assert_eq!(run(&["status", "--json"]).ok().json()["published"], 3);

    // The flag wins, and the remedy repeats it.
    let other = run(&["status", "--schema", "it isn't there", "--json"]);
    assert_eq!(other.error()["kind"], "invalid", "{other:?}");
    let other = run(&["status", "--schema", "other one", "--json"]);
    assert_eq!(other.error()["kind"], "schema_missing", "{other:?}");
    let remedy = other.error()["next"].as_str().unwrap().to_owned();
    assert!(remedy.contains("--schema 'other one'"), "{remedy}");
    let sqlite = folder.run(&["migrate", "--store", "sqlite:x.db", "--schema", "x", "--json"]);
    assert_eq!(sqlite.error()["kind"], "invalid", "{sqlite:?}");
}

#[test]
fn roles_are_printed_without_a_database_and_run_with_one() {
    let url = fresh_database().unwrap();
    let folder = Folder::new();
    let run = |arguments: &[&str]| folder.run_with(arguments, &[("SENDOFF_STORE", url.as_str())]);
    let name = format!("writer \"{}\"", std::process::id());
    let printed = folder.run(&["roles", "--writer", &name]).ok().out;
    assert!(printed.starts_with("BEGIN;") && printed.trim_end().ends_with("COMMIT;"), "{printed}");
    assert!(folder.run(&["roles"]).ok().out.contains("sendoff_operator"));

    let early = run(&["roles", "--writer", &name, "--apply", "--json"]);
    assert_eq!(early.error()["kind"], "schema_missing", "{early:?}");
    run(&["migrate"]).ok();
    let granted = run(&["roles", "--writer", &name, "--apply", "--json"]).ok().json();
    assert_eq!(granted["granted"][0], name.as_str());
    let sqlite = folder.run(&["roles", "--store", "sqlite:x.db", "--apply", "--json"]);
    assert_eq!(sqlite.error()["kind"], "invalid", "{sqlite:?}");
    let both = folder.run(&["roles", "--print", "--apply"]);
    assert_eq!(both.code, 2, "{both:?}");
}
