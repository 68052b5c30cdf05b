//! The repository's own files, read for the tests that hold the rules of the house.
//!
//! The rules are in `tests/tidy/`, one file for each kind. What does not belong here: anything that
//! runs Sendoff. A rule belongs here when a person would otherwise have to remember it in a review.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Every text file of the repository, with its path from the root.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

/// A text file.
#[derive(Debug)]
pub struct File {
    /// Its path from the root, with `/` between the parts.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// What is not ours, by name: git's own (a folder, in a worktree a file), builds, a trial's data.
const NOT_OURS: [&str; 3] = [".git", "target", "sendoff-data"];

/// Files whose words are not ours: licence texts and what cargo writes.
const NOT_OUR_WORDS: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

impl Tree {
    /// Reads the repository that this crate is part of.
    ///
    /// # Errors
    /// Those of reading a folder or a file.
    pub fn read() -> std::io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let mut files = Vec::new();
        read_folder(&root, &root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root, files })
    }

    /// The files whose path ends with `ending`.
    pub fn ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The text of the file at `path`, or nothing where there is none.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Whether a file or folder is at `path`.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            // A build folder inside the repository has this mark of cargo's.
            if !path.join("CACHEDIR.TAG").exists() {
                read_folder(root, &path, files)?;
            }
        } else if kind.is_file()
            && !NOT_OUR_WORDS.contains(&name.as_str())
            && let Ok(text) = String::from_utf8(std::fs::read(&path)?)
        {
            let path = path.strip_prefix(root).unwrap_or(&path);
            files.push(File { path: path.to_string_lossy().into_owned(), text });
        }
    }
    Ok(())
}

/// What breaks a rule: collected, so that one run shows all of it.
#[derive(Debug, Default)]
pub struct Faults(Vec<String>);

impl Faults {
    /// Adds a fault in `path`, at `line` (from 1; 0 for the file as a whole).
    pub fn add(&mut self, path: &str, line: usize, what: impl AsRef<str>) {
        let place = if line == 0 { path.to_owned() } else { format!("{path}:{line}") };
        self.0.push(format!("{place}: {}", what.as_ref()));
    }

    /// Ends a test.
    ///
    /// # Panics
    /// Where there is a fault. The panic's message lists all of them under the rule.
    pub fn check(self, rule: &str) {
        let mut list = String::new();
        for fault in &self.0 {
            let _ = write!(list, "\n  {fault}");
        }
        assert!(self.0.is_empty(), "{rule}{list}");
    }
}

/// The lines of a Markdown text, each with its number (from 1) and whether it is inside a fence.
pub fn markdown_lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fenced = false;
    text.lines().enumerate().map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        let inside = fenced || is_fence;
        if is_fence {
            fenced = !fenced;
        }
        (index + 1, line, inside)
    })
}
