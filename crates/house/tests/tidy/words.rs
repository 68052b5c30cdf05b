//! Rules for words: what is never written anywhere.

use sendoff_house::{Faults, Tree};

/// This folder names what it forbids.
const RULES: &str = "crates/house/tests/tidy/";

/// Folders of one person's machine.
const MACHINE_PATHS: [&str; 4] = ["/work/", "/root/", "/home/", "/Users/"];

#[test]
fn nothing_happens_once_without_saying_what() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.files().filter(|file| !file.path.starts_with(RULES)) {
        let text = file.text.to_lowercase().replace("exactly-once", "exactly once");
        for (at, phrase) in text.match_indices("exactly once") {
            // "exactly once delivery" names what it speaks of (and that we do not claim it).
            if !text[at + phrase.len()..].trim_start().starts_with("delivery") {
                faults.add(
                    &file.path,
                    text[..at].lines().count(),
                    "say what: delivered at least once, applied once",
                );
            }
        }
    }
    faults.check("`exactly once` is never written without its noun");
}

#[test]
fn no_file_knows_one_machine() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.files().filter(|file| !file.path.starts_with(RULES)) {
        for (index, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS {
                let found = line.find(path).is_some_and(|at| {
                    // A path, not a part of one such as `docs/work/`.
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-".contains(c))
                });
                if found {
                    faults.add(&file.path, index + 1, format!("names `{path}`"));
                }
            }
        }
    }
    faults.check("no absolute path of a machine is written anywhere");
}

#[test]
fn what_is_left_to_do_has_an_issue() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.files().filter(|file| !file.path.starts_with(RULES)) {
        for (index, line) in file.text.lines().enumerate() {
            for word in ["TODO", "FIXME"] {
                let mut rest = line;
                while let Some(at) = rest.find(word) {
                    let whole = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                    rest = &rest[at + word.len()..];
                    let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
                    if whole && ends && !rest.starts_with("(#") {
                        faults.add(&file.path, index + 1, format!("write {word}(#number)"));
                    }
                }
            }
        }
    }
    faults.check("what is left to do carries the number of an issue");
}
