//! Bad input: each is refused with its code, says what to do next, and leaves nothing behind.

use serde_json::Value;

use crate::folder::Folder;

fn refused(folder: &Folder, arguments: &[&str], code: i32) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    let said = folder.run(&arguments);
    assert_eq!(said.code, code, "{arguments:?}: {said:?}");
    assert_eq!(said.out, "", "{arguments:?}");
    let error = said.error();
    assert_eq!(error["exit"], code, "{error}");
    assert!(!error["next"].is_null(), "what to do next is not said: {error}");
    error
}

fn pending(folder: &Folder) -> Value {
    folder.run(&["status", "--json"]).ok().json()["pending"].clone()
}

#[test]
fn a_malformed_store_url_is_refused_with_an_example_and_no_password() {
    let folder = Folder::new();
    for url in [
        "shop.db",
        "sqlite:",
        "sqlite://shop.db",
        "sqlite::memory:",
        "mysql://u:secret@h/d",
        "postgres:u:secret@h/d",
        "postgres://u:secret@h:notaport/d",
    ] {
        let error = refused(&folder, &["status", "--store", url], 2);
        let text = error.to_string();
        assert!(text.contains("sqlite:") || text.contains("postgres"), "{url}: {text}");
        assert!(!text.contains("secret"), "{url}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0);
}

#[test]
fn a_malformed_target_url_is_refused_with_an_example_and_no_password() {
    let folder = Folder::with_store();
    for url in ["out.jsonl", "file:", "kafka://u:secret@h", "nats://u:secret@h:4222", "stdout:x"] {
        let error = refused(&folder, &["relay", "--once", "--to", url], 2);
        let text = error.to_string();
        assert!(text.contains("file:") || text.contains("nats://"), "{url}: {text}");
        assert!(!text.contains("secret"), "{url}: {text}");
    }
}

#[test]
fn a_store_or_target_that_nobody_named_is_asked_for() {
    let folder = Folder::new();
    let error = refused(&folder, &["status"], 2);
    assert!(error["message"].as_str().unwrap().contains("--store"), "{error}");
    let folder = Folder::with_store();
    let error = refused(&folder, &["relay"], 2);
    assert!(error["message"].as_str().unwrap().contains("--to"), "{error}");
}

#[test]
fn a_store_that_is_not_there_is_not_made_and_the_whole_command_is_named() {
    let folder = Folder::new();
    for verb in [
        vec!["status"],
        vec!["send", "--topic", "t", "body"],
        vec!["relay", "--to", "file:out.jsonl"],
        vec!["show", "x"],
        vec!["quarantine", "list"],
    ] {
        let mut arguments = verb.clone();
        arguments.extend(["--store", "sqlite:shop.db"]);
        let error = refused(&folder, &arguments, 5);
        let next = error["next"].as_str().unwrap();
        assert!(next.contains("`sendoff migrate --store sqlite:shop.db`"), "{next}");
        assert!(!folder.path("shop.db").exists(), "{verb:?} made the file");
    }
}

#[test]
fn an_unmigrated_store_names_the_command_as_it_was_configured() {
    let folder = Folder::new();
    drop(
        rusqlite::Connection::open(folder.path("shop.db"))
            .unwrap()
            .execute_batch("CREATE TABLE x (y)"),
    );
    folder.write("other.toml", "store = \"sqlite:shop.db\"\n");
    let error = refused(&folder, &["status", "--config", "other.toml"], 5);
    assert_eq!(error["kind"], "schema_missing");
    let next = error["next"].as_str().unwrap();
    assert!(next.contains("`sendoff --config other.toml migrate`"), "{next}");
    folder.run(&["--config", "other.toml", "migrate"]).ok();
    folder.run(&["--config", "other.toml", "status"]).ok();
}

#[test]
fn a_schema_that_is_too_new_is_refused_and_not_touched() {
    let folder = Folder::with_store();
    let version = || -> i64 {
        folder
            .database()
            .query_row("SELECT max(version) FROM sendoff_schema_version", [], |row| row.get(0))
            .unwrap()
    };
    let newest = "UPDATE sendoff_schema_version SET version = 999, usable_from = NULL \
                  WHERE version = (SELECT max(version) FROM sendoff_schema_version)";
    folder.database().execute(newest, []).unwrap();
    for verb in [
        vec!["status"],
        vec!["migrate"],
        vec!["send", "--topic", "t", "body"],
        vec!["relay", "--to", "file:out.jsonl"],
    ] {
        let error = refused(&folder, &verb, 5);
        assert_eq!(error["kind"], "schema_too_new", "{verb:?}: {error}");
    }
    assert_eq!(version(), 999);
}

#[test]
fn a_message_that_breaks_a_rule_is_refused_before_anything_is_sent() {
    let folder = Folder::with_store();
    let long = "k".repeat(1025);
    for arguments in [
        vec!["--topic", "", "body"],
        vec!["--topic", "a\nb", "body"],
        vec!["--topic", "t", "--key", &long, "body"],
        vec!["--topic", "t", "--id", "", "body"],
        vec!["--topic", "t", "--header", "no-equals-sign", "body"],
        vec!["--topic", "t", "--header", "a=one\ntwo", "body"],
        vec!["--topic", "t", "--header", "a b=x", "body"],
        vec!["--topic", "t", "--at", "tomorrow", "body"],
        vec!["--topic", "t", "--body-bytes-max", "4", "12345"],
        vec!["--topic", "t", "--body-file", "not-there"],
        vec!["--topic", "t"],
        vec!["--topic", "t", "body", "--lines"],
        vec!["--topic", "t", "--id", "x", "--lines"],
        vec!["--topic", "t", "--lines", "--per-transaction", "0"],
        vec!["body"],
    ] {
        let mut all = vec!["send"];
        all.extend(arguments);
        let mut command = folder.command(&all);
        command.arg("--json");
        let said = crate::folder::Process::spawn(command).wait();
        assert_eq!(said.code, 2, "{all:?}: {said:?}");
        assert_eq!(said.error()["exit"], 2, "{all:?}");
    }
    assert_eq!(pending(&folder), 0);
}

#[test]
fn a_setting_that_is_out_of_range_is_refused_by_the_relay() {
    let folder = Folder::with_store();
    for (flag, value) in [
        ("--lease", "10"),
        ("--publish-timeout", "10s"),
        ("--in-flight", "0"),
        ("--in-flight", "13000"),
        ("--attempts-max", "often"),
        ("--max-wait", "soon"),
    ] {
        let said = folder.run(&["relay", "--once", "--to", "file:out.jsonl", flag, value]);
        assert_eq!(said.code, 2, "{flag} {value}: {said:?}");
    }
    assert!(!folder.path("out.jsonl").exists());
}

#[test]
fn a_password_on_a_command_line_that_is_no_command_is_not_repeated() {
    let folder = Folder::new();
    for form in [vec!["status"], vec!["status", "--json"]] {
        let mut arguments = form;
        arguments.push("postgres://u:secret@h/d");
        let said = folder.run(&arguments);
        assert_eq!(said.code, 2);
        assert!(!said.err.contains("secret"), "{said:?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_told_without_a_panic() {
    let folder = Folder::new();
    folder.write(
        "shop.db",
        "this is a text, and long enough to be none of SQLite's headers\n".repeat(100),
    );
    for verb in ["status", "migrate"] {
        let said = folder.run(&[verb, "--store", "sqlite:shop.db"]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.starts_with("error: "), "{said:?}");
        assert!(!said.err.contains("panicked"), "{said:?}");
    }
}
