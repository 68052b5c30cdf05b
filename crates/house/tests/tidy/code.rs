//! Rules for Rust files: size, opening comment, names, exceptions to lints.

use sendoff_house::{Faults, File, Tree};

/// A file reads well up to here.
const LINES_SOFT: usize = 400;
/// No file is longer than this.
const LINES_HARD: usize = 700;
/// A trait is a promise to keep: few methods.
const TRAIT_METHODS_MAX: usize = 10;

/// Files over the soft bound, each with the length that it must not outgrow. The list may get
/// shorter and its numbers smaller; a longer list wants a reason in the commit.
const LONG_FILES: [(&str, usize); 2] = [
    ("crates/core/src/memory/publisher.rs", 413),
    // One structure, whose rules about one key only make sense side by side.
    ("crates/core/src/relay/window.rs", 432),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared_utils", "stuff"];

fn rust_files(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.ending(".rs")
}

#[test]
fn no_file_outgrows_its_bound() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in rust_files(&tree) {
        let lines = file.text.lines().count();
        let listed = LONG_FILES.iter().find(|(path, _)| *path == file.path);
        match listed {
            _ if lines > LINES_HARD => {
                faults.add(&file.path, 0, format!("{lines} lines; the hard bound is {LINES_HARD}"));
            }
            Some((_, max)) if lines > *max => {
                faults.add(
                    &file.path,
                    0,
                    format!("{lines} lines; it was {max} and may only shrink"),
                );
            }
            Some(_) if lines <= LINES_SOFT => {
                faults.add(&file.path, 0, "short enough now: take it off the list in code.rs");
            }
            None if lines > LINES_SOFT => {
                faults.add(&file.path, 0, format!("{lines} lines; split it at {LINES_SOFT}"));
            }
            _ => {}
        }
    }
    for (path, _) in LONG_FILES {
        if !tree.has(path) {
            faults.add(path, 0, "is on the list in code.rs and not in the tree");
        }
    }
    faults.check("files stay readable: 400 lines, 700 with a reason");
}

#[test]
fn every_module_says_what_it_is_for() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in rust_files(&tree) {
        let first = file.text.lines().next().unwrap_or_default();
        // A room's opening comment may be a page of its own.
        if !first.starts_with("//! ") && !first.starts_with("#![doc = include_str!") {
            faults.add(&file.path, 1, "has to begin with `//! ` and what the module is for");
        }
    }
    faults.check("every module begins with a comment that says what it is for");
}

#[test]
fn names_of_modules_say_what_is_inside() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in tree.files() {
        for part in file.path.split(['/', '.']) {
            if EMPTY_NAMES.contains(&part) {
                faults.add(&file.path, 0, format!("`{part}` says nothing about what is inside"));
            }
        }
    }
    faults.check("folders and files are named after what is inside");
}

#[test]
fn every_exception_to_a_lint_has_a_reason() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in rust_files(&tree) {
        for (at, _) in file.text.match_indices("[allow(").chain(file.text.match_indices("[expect("))
        {
            if !file.text[..at].ends_with(['#', '!']) {
                continue;
            }
            let attribute = file.text[at..].split(")]").next().unwrap_or_default();
            if !attribute.contains("reason") {
                let line = file.text[..at].lines().count();
                faults.add(&file.path, line, "give a `reason`, and prefer `expect` to `allow`");
            }
        }
    }
    faults.check("an exception to a lint says why");
}

#[test]
fn traits_have_few_methods() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for file in rust_files(&tree) {
        let mut inside: Option<(usize, usize)> = None;
        for (index, line) in file.text.lines().enumerate() {
            match inside {
                None if line.starts_with("pub trait ") => inside = Some((index + 1, 0)),
                Some((begin, methods)) if line == "}" => {
                    if methods > TRAIT_METHODS_MAX {
                        faults.add(&file.path, begin, format!("{methods} methods"));
                    }
                    inside = None;
                }
                Some((_, ref mut methods)) => {
                    let is_method =
                        line.starts_with("    fn ") || line.starts_with("    async fn ");
                    *methods += usize::from(is_method);
                }
                None => {}
            }
        }
    }
    faults.check("a public trait has at most 10 methods");
}
