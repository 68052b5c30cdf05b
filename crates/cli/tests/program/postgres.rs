//! The program on PostgreSQL: a private server that is killed and comes back, with a password.

use rustix::process::Signal;
use sendoff_conformance::servers::{Postgres, fresh_database};
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
