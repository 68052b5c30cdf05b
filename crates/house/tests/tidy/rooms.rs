//! Rules for rooms: who may import whom. ARCHITECTURE.md says why.

use std::collections::BTreeSet;

use sendoff_house::{Faults, Tree};

/// Each room with the rooms of ours that it may use, in its product and in its tests.
///
/// `conformance` is for tests: nothing that users run may depend on it.
const ROOMS: [(&str, &[&str], &[&str]); 13] = [
    ("crates/core", &[], &[]),
    ("crates/stores", &["core"], &["conformance"]),
    ("crates/brokers", &["core"], &["conformance"]),
    ("crates/formats", &["core"], &[]),
    ("crates/sendoff", &["core", "stores", "brokers", "formats"], &["conformance"]),
    ("crates/conformance", &["core"], &[]),
    ("crates/cli", &["sendoff"], &["conformance"]),
    ("crates/crash", &["sendoff", "core", "stores", "brokers", "conformance"], &[]),
    ("crates/house", &[], &[]),
    ("bench", &["sendoff", "core", "stores", "brokers", "formats", "conformance"], &[]),
    ("examples", &["sendoff"], &["conformance", "core"]),
    ("fuzz", &["core", "stores", "brokers"], &[]),
    ("fuzz/libfuzzer", &["fuzz"], &[]),
];

/// What core must never know: databases, brokers, the web and the command line.
const DRIVERS: [&str; 7] =
    ["tokio-postgres", "rusqlite", "sqlx", "async-nats", "axum", "clap", "toml"];

/// The rooms of core, from the nouns to the motion: a module uses its own rank or a lower one.
const CORE_RANKS: [(&str, u8); 10] = [
    ("error", 0),
    ("time", 0),
    ("lane", 0),
    ("message", 1),
    ("store", 2),
    ("publisher", 2),
    ("outbox", 3),
    ("barrier", 3),
    ("relay", 4),
    ("memory", 4),
];

fn ours(manifest: &toml::Table, section: &str) -> BTreeSet<String> {
    manifest
        .get(section)
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten()
        .filter_map(|(name, _)| match name.strip_prefix("sendoff") {
            Some("") => Some("sendoff".to_owned()),
            Some(rest) => Some(rest.trim_start_matches('-').to_owned()),
            None => None,
        })
        .collect()
}

#[test]
fn a_room_uses_only_the_rooms_it_may() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.ending("Cargo.toml").filter(|file| file.path != "Cargo.toml") {
        let room = file.path.trim_end_matches("/Cargo.toml");
        let manifest: toml::Table = file.text.parse().unwrap();
        let Some((_, product, tests)) = ROOMS.iter().find(|(name, _, _)| *name == room) else {
            faults.add(
                &file.path,
                0,
                "a new room: say in rooms.rs and ARCHITECTURE.md whom it may use",
            );
            continue;
        };
        for used in ours(&manifest, "dependencies") {
            if !product.contains(&used.as_str()) {
                faults.add(&file.path, 0, format!("{room} may not use {used}"));
            }
        }
        for used in ours(&manifest, "dev-dependencies") {
            if !product.contains(&used.as_str()) && !tests.contains(&used.as_str()) {
                faults.add(&file.path, 0, format!("the tests of {room} may not use {used}"));
            }
        }
    }
    faults.check("everything points at core; stores and brokers never import each other");
}

#[test]
fn core_knows_no_driver() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let path = "crates/core/Cargo.toml";
    let manifest: toml::Table = tree.text(path).unwrap().parse().unwrap();
    for section in ["dependencies", "dev-dependencies"] {
        for driver in DRIVERS {
            let named = manifest.get(section).and_then(|table| table.get(driver));
            if named.is_some() {
                faults.add(path, 0, format!("core may not use {driver}"));
            }
        }
    }
    faults.check("core has no database driver, broker client or command line");
}

#[test]
fn the_modules_of_core_use_only_what_is_above_them() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let rank =
        |name: &str| CORE_RANKS.iter().find(|(module, _)| *module == name).map(|(_, rank)| *rank);
    for file in tree.files().filter(|file| file.path.starts_with("crates/core/src/")) {
        let inner = file.path.trim_start_matches("crates/core/src/");
        let module = inner.split(['/', '.']).next().unwrap_or_default();
        if module == "lib" || inner.ends_with("tests.rs") || inner.contains("/tests/") {
            continue;
        }
        let Some(own) = rank(module) else {
            faults.add(&file.path, 0, "a new module of core: give it a rank in rooms.rs");
            continue;
        };
        let product = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (index, line) in product.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (at, prefix) in code.match_indices("crate::") {
                let used = code[at + prefix.len()..]
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .next()
                    .unwrap_or_default();
                // Memory is a store like any other: it knows the ports and not the relay.
                let sideways = own == 4 && module != used;
                if rank(used).is_some_and(|used| used > own || (used == 4 && sideways)) {
                    faults.add(&file.path, index + 1, format!("`{module}` may not use `{used}`"));
                }
            }
        }
    }
    faults.check(
        "core reads from the nouns down to the motion, and each module uses what is above it",
    );
}

/// The files that each database's folder has.
const STORE_FILES: [&str; 7] =
    ["mod.rs", "sql.rs", "store.rs", "desk.rs", "schema.rs", "error.rs", "send.rs"];

#[test]
fn every_store_has_the_same_files() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for folder in folders(&tree, "crates/stores/src/") {
        for name in STORE_FILES {
            let path = format!("crates/stores/src/{folder}/{name}");
            if !tree.has(&path) && !tree.has(&path.replace(".rs", "/mod.rs")) {
                faults.add(&path, 0, "is missing: knowing one store is knowing all");
            }
        }
    }
    faults.check("each database has a folder with the same file names");
}

#[test]
fn sql_stands_in_sql_files_only() {
    const VERBS: [&str; 8] = [
        "\"SELECT ",
        "\"INSERT ",
        "\"UPDATE ",
        "\"DELETE ",
        "\"CREATE ",
        "\"ALTER ",
        "\"DROP ",
        "\"WITH ",
    ];
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.ending(".rs") {
        let may = |part: &str| file.path.contains(part);
        let product = [
            "crates/core/src/",
            "crates/stores/src/",
            "crates/brokers/src/",
            "crates/formats/src/",
            "crates/sendoff/src/",
        ]
        .iter()
        .any(|room| file.path.starts_with(room));
        if !product || may("/sql.rs") || may("/sql/") || may("/tests") {
            continue;
        }
        let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (index, line) in code.lines().enumerate() {
            if !line.trim_start().starts_with("//") && VERBS.iter().any(|verb| line.contains(verb))
            {
                faults.add(&file.path, index + 1, "SQL belongs in the store's sql.rs");
            }
        }
    }
    faults.check("all SQL of the product stands in the stores' sql.rs");
}

fn folders(tree: &Tree, under: &str) -> BTreeSet<String> {
    tree.files()
        .filter_map(|file| file.path.strip_prefix(under)?.split_once('/'))
        .map(|(folder, _)| folder.to_owned())
        .collect()
}
