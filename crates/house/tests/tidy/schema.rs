//! SQL that is written for the schema `sendoff` is put into the store's own schema, and keeps nothing in a
//! session: what escapes that is found here.

use sendoff_house::{Faults, Tree};

const STORE: &str = "crates/stores/src/postgres/";

/// What a string may begin with that is a value and no name.
const VALUES: [&str; 2] = ["'sendoff.barrier'", "'sendoff-barrier"];
/// What takes a name in a string.
const TAKE_NAMES: [&str; 4] = ["to_regclass(", "to_regnamespace(", "to_regrole(", "nextval("];
/// What a driver runs as it is given.
const RUN: [&str; 12] = [
    ".batch_execute(",
    ".execute(",
    ".execute_typed(",
    ".prepare(",
    ".prepare_typed(",
    ".query_one(",
    ".query_opt(",
    ".query_raw(",
    ".query_typed(",
    ".query_typed_one(",
    ".simple_query(",
    "sql_query(",
];
/// Statements that name nothing.
const NAMELESS: [&str; 5] = ["BEGIN", "BEGIN_COMMITTED", "COMMIT", "HEARTBEAT", "ROLLBACK"];

/// A line without what is a comment of Rust's or of SQL's.
fn code(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") { "" } else { line.split("-- ").next().unwrap_or_default() }
}

#[test]
fn every_name_in_sql_moves_with_its_schema() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.files().filter(|file| file.path.starts_with(STORE)) {
        let is_sql = file.path.contains("/sql/") || file.path.contains("/migrations/");
        if !is_sql {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let line = code(line);
            let mut fault = |what: &str| faults.add(&file.path, index + 1, what);
            for (at, _) in line.match_indices("'sendoff") {
                let takes = TAKE_NAMES.iter().any(|taker| line[..at].ends_with(taker));
                let is_value = VALUES.iter().any(|value| line[at..].starts_with(value));
                if !takes && !is_value {
                    fault(
                        "in a string it is a name only within to_regclass(), to_regnamespace() or \
                           nextval()",
                    );
                }
            }
            let is_word = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
            let words = line.match_indices("sendoff_").map(|(at, word)| &line[at + word.len()..]);
            if !file.path.ends_with("/roles.rs") && words.into_iter().any(is_word) {
                fault("sendoff_... is the same name in every schema");
            }
            if line.contains("\"sendoff\"") || line.contains("\\\"sendoff") {
                fault("write sendoff without quotation marks");
            }
        }
    }
    faults.check("SQL names the schema as `sendoff.` and by nothing else (ADR 0018)");
}

#[test]
fn nothing_is_kept_in_a_session_and_each_schema_has_its_own_locks_and_channel() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.files().filter(|file| file.path.starts_with(STORE)) {
        if file.path.contains("/tests/") {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let line = code(line);
            let mut fault = |what: &str| faults.add(&file.path, index + 1, what);
            if line.contains("pg_advisory") && !line.contains("schema.lock(") {
                fault("the key of an advisory lock comes from SchemaName::lock");
            }
            if ["pg_advisory_lock", "pg_try_advisory_lock"].iter().any(|lock| line.contains(lock)) {
                fault("a pooler gives the session away: pg_advisory_xact_lock");
            }
            let speaks = ["\"LISTEN ", "\"NOTIFY ", "pg_notify("];
            if speaks.iter().any(|word| line.contains(word)) && !line.contains(".channel()") {
                fault("the channel is the schema's own: SchemaName::channel");
            }
            if line.contains("CREATE TEMP") || line.contains("WITH HOLD") {
                fault("a pooler gives the session away");
            }
        }
    }
    faults.check("the PostgreSQL store works behind a pooler and beside other schemas");
}

#[test]
fn no_statement_is_run_before_it_was_put_into_its_schema() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.ending(".rs").filter(|file| file.path.starts_with(STORE)) {
        if file.path.contains("/sql/") || file.path.contains("/tests/") {
            continue;
        }
        let text = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for call in RUN {
            for (at, _) in text.match_indices(call) {
                let argument = text[at + call.len()..].trim_start().trim_start_matches('&');
                let Some(name) = argument.strip_prefix("sql::") else { continue };
                let end = name.find(|c: char| !c.is_ascii_uppercase() && c != '_');
                let name = &name[..end.unwrap_or(name.len())];
                if !name.is_empty() && !NAMELESS.contains(&name) {
                    let line = text[..at].lines().count();
                    faults.add(&file.path, line, "goes round SchemaName::sql");
                }
            }
        }
        for (index, line) in text.lines().enumerate() {
            let line = code(line);
            for (at, word) in line.match_indices("sendoff.") {
                let name = &line[at + word.len()..];
                if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                    faults.add(&file.path, index + 1, "SQL belongs in the sql folder");
                }
            }
        }
    }
    faults.check("every statement goes through SchemaName::sql (ADR 0018)");
}
