//! Runs every example and compares what it prints.

use std::process::Command;

use sendoff_conformance::servers;

/// Runs a program as a reader would and gives what it printed.
fn printed(program: &str, database: Option<&str>) -> String {
    let mut command = Command::new(program);
    if let Some(url) = database {
        command.env("DATABASE_URL", url);
    }
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_rusqlite_transaction_sends_if_and_only_if_it_commits() {
    assert_eq!(
        printed(env!("CARGO_BIN_EXE_send_rusqlite"), None),
        "ada orders a tent: committed\n\
         bob orders a dragon: rolled back, we do not sell dragons\n\
         orders: 1, messages waiting: 1\n"
    );
}

#[test]
fn an_sqlx_transaction_on_sqlite_sends_if_and_only_if_it_commits() {
    assert_eq!(
        printed(env!("CARGO_BIN_EXE_send_sqlx_sqlite"), None),
        "ada orders a tent: committed\n\
         bob orders a dragon: rolled back, we do not sell dragons\n\
         orders: 1, messages waiting: 1\n"
    );
}

#[test]
fn a_savepoint_that_is_rolled_back_takes_its_message_back() {
    let url = servers::fresh_database().unwrap();
    assert_eq!(
        printed(env!("CARGO_BIN_EXE_send_tokio_postgres"), Some(&url)),
        "order: Ready\n\
         gift: never sent\n\
         the order again: refused\n"
    );
}

#[test]
fn an_sqlx_transaction_on_postgres_sends_if_and_only_if_it_commits() {
    let url = servers::fresh_database().unwrap();
    assert_eq!(
        printed(env!("CARGO_BIN_EXE_send_sqlx_postgres"), Some(&url)),
        "ada orders a tent: committed\n  \
           its message: waiting\n\
         bob orders a dragon: rolled back, we do not sell dragons\n  \
           its message: never sent\n"
    );
}

#[test]
fn a_relay_inside_a_service_delivers_what_the_service_commits() {
    assert_eq!(
        printed(env!("CARGO_BIN_EXE_relay_in_process"), None),
        "confirmed: 3, settled: 3\n\
         waiting: 0\n\
         arrived: placed, packed, shipped\n"
    );
}

#[test]
fn a_publisher_of_ones_own_takes_a_repeated_message_once() {
    assert_eq!(
        printed(env!("CARGO_BIN_EXE_own_publisher"), None),
        "settled: 3\n\
         shop/1: a tent\n\
         shop/2: a rope\n\
         shop/3: a lamp\n"
    );
}

#[test]
fn every_example_is_run_here_and_listed_in_the_readme() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let (manifest, readme) = (read("Cargo.toml"), read("README.md"));
    let tests = read("tests/run.rs") + &read("tests/documents/programs.rs");
    let values = |key: &str| -> Vec<String> {
        let lines = manifest.lines().take_while(|line| *line != "[dependencies]");
        let value = |line: &str| line.strip_prefix(key)?.strip_suffix('"').map(str::to_owned);
        // The first name is the package's.
        lines.skip_while(|line| *line != "[[bin]]").filter_map(value).collect()
    };
    let (names, paths) = (values("name = \""), values("path = \""));
    for name in &names {
        assert!(tests.contains(&format!("CARGO_BIN_EXE_{name}\"")), "{name} is not run");
    }
    for path in &paths {
        assert!(readme.contains(&format!("({path})")), "{path} is not in README.md");
    }
    assert!(names.len() >= 8 && names.len() == paths.len(), "{names:?} {paths:?}");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with(".rs") || paths.contains(&name), "{name} is not in Cargo.toml");
    }
}
