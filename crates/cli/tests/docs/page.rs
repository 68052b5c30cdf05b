//! Reading a page's blocks.
//!
//! A block's first line, after the three backticks, says its language and what to do with it:
//!
//! - `sh`, `python`: it is run.
//! - `sql postgres`, `sql sqlite`: it is run by `psql` or by `sqlite3` on `shop.db`.
//! - `LANGUAGE file=NAME`: it is written to that file.
//! - `text output`: what the block before it has to print.
//! - `LANGUAGE no-run: REASON`: it cannot be run here, and why.
//!
//! Blocks of any other language are for reading only.

use std::io;
use std::path::Path;

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path from the repository's root.
    pub(crate) path: String,
    /// Its blocks that do something, in their order.
    pub(crate) blocks: Vec<Block>,
}

/// A block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line that it begins at.
    pub(crate) line: usize,
    /// What is done with it.
    pub(crate) act: Act,
    /// Its lines.
    pub(crate) text: String,
    /// What it has to print, where the page says so.
    pub(crate) expected: Option<String>,
    /// Why it is not run.
    pub(crate) no_run: Option<String>,
}

/// What is done with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Run by the shell.
    Shell,
    /// Run by Python.
    Python,
    /// Run by psql.
    Postgres,
    /// Run by sqlite3.
    Sqlite,
    /// Written to a file.
    File(String),
    /// It has the expected output of the block before it.
    Output,
    /// Read by people.
    Nothing,
}

impl Block {
    /// Whether it is run.
    pub(crate) fn runs(&self) -> bool {
        self.no_run.is_none() && !matches!(self.act, Act::Nothing | Act::File(_))
    }
}

/// The README, and every page under `docs/`.
pub(crate) fn all(root: &Path) -> io::Result<Vec<String>> {
    let mut pages = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if Path::new(&path).extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

impl Page {
    /// Reads the page at `path`.
    pub(crate) fn read(root: &Path, path: &str) -> io::Result<Self> {
        let text = std::fs::read_to_string(root.join(path))?;
        Self::parse(path, &text).map_err(io::Error::other)
    }

    fn parse(path: &str, text: &str) -> Result<Self, String> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open: Option<Block> = None;
        for (index, line) in text.lines().enumerate() {
            let fence = line.strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(info)) => open = Some(Block::begin(index + 1, info)),
                (None, None) => {}
                (Some(block), None) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (Some(_), Some(_)) => {
                    let Some(block) = open.take() else { continue };
                    if block.act != Act::Output {
                        blocks.push(block);
                    } else if let Some(before) = blocks.last_mut().filter(|before| before.runs()) {
                        before.expected = Some(block.text);
                    } else if blocks.last().is_none_or(|before| before.no_run.is_none()) {
                        return Err(format!("{path}:{}: an output of no block", block.line));
                    }
                }
            }
        }
        Ok(Self { path: path.to_owned(), blocks })
    }
}

impl Block {
    fn begin(line: usize, info: &str) -> Self {
        let (words, no_run) = match info.split_once("no-run:") {
            Some((words, reason)) => (words, Some(reason.trim().to_owned())),
            None => (info, None),
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        let file = words.iter().find_map(|word| word.strip_prefix("file="));
        let act = match (words.as_slice(), file) {
            (_, Some(name)) => Act::File(name.to_owned()),
            (["sh", ..], _) => Act::Shell,
            (["python", ..], _) => Act::Python,
            (["sql", "postgres", ..], _) => Act::Postgres,
            (["sql", "sqlite", ..], _) => Act::Sqlite,
            (["text", "output", ..], _) => Act::Output,
            _ => Act::Nothing,
        };
        Self { line, act, text: String::new(), expected: None, no_run }
    }
}

#[test]
fn a_page_is_read_with_its_outputs_and_its_reasons() {
    let text = "# T\n```sh\necho hi\n```\n```text output\nhi\n```\n```toml file=a.toml\nx = 1\n```\n\
                ```sh no-run: it needs a printer\nlpr\n```\n```sql postgres\nSELECT 1;\n```\n";
    let page = Page::parse("p.md", text).unwrap();
    let acts: Vec<_> = page.blocks.iter().map(|block| block.act.clone()).collect();
    assert_eq!(acts, [Act::Shell, Act::File("a.toml".to_owned()), Act::Shell, Act::Postgres]);
    assert_eq!(page.blocks[0].expected.as_deref(), Some("hi\n"));
    assert_eq!(page.blocks[2].no_run.as_deref(), Some("it needs a printer"));
    assert!(page.blocks[0].runs() && !page.blocks[2].runs());
    assert!(Page::parse("p.md", "```text output\nhi\n```\n").is_err());
}
