//! Rules for pages: links lead somewhere, every block says what it is, the changelog has its shape.

use std::collections::BTreeSet;

use sendoff_house::{Faults, Tree, markdown_lines};

const CONTRIBUTING_LINES_MAX: usize = 120;

/// The headings that a release in the changelog may have.
const CHANGE_KINDS: [&str; 8] = [
    "### Added",
    "### Changed",
    "### Deprecated",
    "### Removed",
    "### Fixed",
    "### Security",
    "### Migrations",
    "### Wire",
];

/// The targets of a line's links: what stands in `](...)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(move |(at, _)| line[at + 2..].split(')').next())
}

/// The anchor that a heading gets: lower case, spaces to hyphens, punctuation dropped.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    markdown_lines(text)
        .any(|(_, line, fenced)| !fenced && line.starts_with('#') && anchor(line) == wanted)
}

/// Joins a link's path to the folder of the page that it stands on.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for page in tree.ending(".md") {
        for (number, line, fenced) in markdown_lines(&page.text) {
            if fenced {
                continue;
            }
            for link in
                links(line).filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
            {
                let (path, wanted) = link.split_once('#').unwrap_or((link, ""));
                let target =
                    if path.is_empty() { page.path.clone() } else { resolve(&page.path, path) };
                if !tree.has(&target) {
                    faults.add(&page.path, number, format!("`{link}` leads nowhere"));
                } else if !wanted.is_empty()
                    && !tree.text(&target).is_some_and(|text| has_anchor(text, wanted))
                {
                    faults.add(&page.path, number, format!("`{link}`: there is no such heading"));
                }
            }
        }
    }
    faults.check("every link to a file or a heading of ours resolves");
}

#[test]
fn every_page_of_the_docs_is_linked_from_another() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let linked: BTreeSet<String> = tree
        .ending(".md")
        .flat_map(|page| {
            page.text
                .lines()
                .flat_map(links)
                .map(|link| resolve(&page.path, link.split('#').next().unwrap_or_default()))
                .filter(|target| *target != page.path)
                .collect::<Vec<_>>()
        })
        .collect();
    for page in tree.ending(".md").filter(|page| page.path.starts_with("docs/")) {
        if !linked.contains(&page.path) {
            faults.add(&page.path, 0, "no other page links to it");
        }
    }
    faults.check("no page of the documentation is an orphan");
}

#[test]
fn every_block_says_its_language() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    for page in tree.ending(".md") {
        let mut open = false;
        for (number, line, _) in markdown_lines(&page.text) {
            if let Some(info) = line.trim_start().strip_prefix("```") {
                if !open && info.trim().is_empty() {
                    faults.add(
                        &page.path,
                        number,
                        "name the block's language (`text` where it has none)",
                    );
                }
                open = !open;
            }
        }
        if open {
            faults.add(&page.path, 0, "a block is not closed");
        }
    }
    faults.check("a block without a language is taken for Rust by rustdoc and run by nobody");
}

/// The excerpts of a page: the line that each begins at, the file that it is from, and its lines without
/// their indentation.
fn excerpts(text: &str) -> Vec<(usize, &str, Vec<&str>)> {
    let mut excerpts = Vec::new();
    let mut open: Option<(usize, &str, Vec<&str>)> = None;
    for (number, line, inside) in markdown_lines(text) {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            excerpts.extend(open.take());
            let from = info.split_whitespace().find_map(|word| word.strip_prefix("from="));
            open = from.map(|from| (number, from, Vec::new()));
        } else if let (Some((_, _, lines)), true) = (&mut open, inside) {
            lines.push(line.trim());
        }
    }
    excerpts
}

#[test]
fn every_excerpt_stands_in_its_file() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let mut count = 0;
    for page in tree.ending(".md") {
        for (number, from, excerpt) in excerpts(&page.text) {
            count += 1;
            let Some(text) = tree.text(from) else {
                faults.add(&page.path, number, format!("`{from}` is not there"));
                continue;
            };
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            if !excerpt.is_empty() && !lines.windows(excerpt.len()).any(|part| part == excerpt) {
                faults.add(&page.path, number, format!("`{from}` does not say this any more"));
            }
        }
    }
    assert!(count > 3, "the excerpts are no longer found");
    faults.check("a block with `from=FILE` is an excerpt of that file, line by line");
}

#[test]
fn every_page_with_rust_is_compiled() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let list = "examples/src/lib.rs";
    let compiled = tree.text(list).unwrap();
    for page in tree.ending(".md") {
        let has_rust = page.text.lines().any(|line| line.starts_with("```rust"));
        if has_rust && !compiled.contains(&format!("include_str!(\"../../{}\")", page.path)) {
            faults.add(&page.path, 0, format!("has Rust blocks: include it in {list}"));
        }
    }
    faults.check("Rust blocks of pages are doc tests");
}

#[test]
fn the_changelog_has_its_shape() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let path = "CHANGELOG.md";
    let text = tree.text(path).unwrap();
    if !text.starts_with("# Changelog\n") || !text.contains("\n## [Unreleased]\n") {
        faults.add(path, 1, "begins with `# Changelog` and has `## [Unreleased]`");
    }
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("### ") && !CHANGE_KINDS.contains(&line) {
            faults.add(path, index + 1, format!("`{line}` is not one of {CHANGE_KINDS:?}"));
        }
        if line.starts_with("## ") && !line.starts_with("## [") {
            faults.add(path, index + 1, "a release is written `## [version] - date`");
        }
    }
    faults.check("the changelog keeps the form of keepachangelog.com");
}

#[test]
fn decisions_are_numbered_and_complete() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let decisions: Vec<_> =
        tree.files().filter(|file| file.path.starts_with("docs/adr/0")).collect();
    for (index, file) in decisions.iter().enumerate() {
        let number = format!("{:04}", index + 1);
        if !file.path.starts_with(&format!("docs/adr/{number}-")) {
            faults.add(&file.path, 0, format!("the next number is {number}"));
        }
        if !file.text.starts_with(&format!("# {number}: ")) {
            faults.add(&file.path, 1, format!("the title begins with `# {number}: `"));
        }
        for part in ["\nStatus: ", "\n## Context\n", "\n## Decision\n", "\n## Consequences\n"] {
            if !file.text.contains(part) {
                faults.add(&file.path, 0, format!("`{}` is missing", part.trim()));
            }
        }
    }
    faults.check("decisions are numbered without gaps and have all four parts");
}

#[test]
fn contributing_stays_short_enough_to_be_read() {
    let tree = Tree::read().unwrap();
    let lines = tree.text("CONTRIBUTING.md").unwrap().lines().count();
    assert!(lines <= CONTRIBUTING_LINES_MAX, "CONTRIBUTING.md has {lines} lines");
}

#[test]
fn every_kind_of_error_is_in_the_reference() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let reference = "docs/reference/errors.md";
    let page = tree.text(reference).unwrap();
    let source = tree.text("crates/core/src/error.rs").unwrap();
    let words: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \""))
        .filter_map(|(_, word)| word.strip_suffix("\","))
        .collect();
    assert!(words.len() > 10, "the kinds are no longer found in error.rs: {words:?}");
    for word in words {
        if !page.contains(&format!("| `{word}` |")) {
            faults.add(reference, 0, format!("`{word}` is missing"));
        }
    }
    faults.check("every kind of error has a row in the reference");
}

#[test]
fn every_word_and_limit_of_barriers_is_in_the_reference() {
    let tree = Tree::read().unwrap();
    let mut faults = Faults::default();
    let reference = "docs/reference/barriers.md";
    let page = tree.text(reference).unwrap();
    let words = |file: &str| -> Vec<String> {
        let source = tree.text(&format!("crates/core/src/barrier/{file}")).unwrap();
        source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \""))
            .filter_map(|(_, word)| word.strip_suffix("\",").map(str::to_owned))
            .collect()
    };
    let all = [words("refusal.rs"), words("status.rs")].concat();
    assert!(all.len() > 18, "the words are no longer found: {all:?}");
    for word in all {
        if !page.contains(&format!("| `{word}` |")) {
            faults.add(reference, 0, format!("`{word}` is missing"));
        }
    }
    let source = tree.text("crates/core/src/barrier/mod.rs").unwrap();
    let limits =
        source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(" = "));
    let mut count = 0;
    for (name, value) in limits {
        count += 1;
        let value = value.trim_end_matches(';').trim_start_matches("Duration::from_secs(");
        let factors = value.trim_end_matches(')').split(" * ");
        let value: u64 =
            factors.map(|factor| factor.replace('_', "").parse::<u64>().unwrap()).product();
        if !page.contains(&value.to_string()) {
            faults.add(reference, 0, format!("{value}, the limit {name}, is missing"));
        }
    }
    assert!(count > 5, "the limits are no longer found");
    faults.check("the reference of barriers has every code, state, reason and limit");
}
