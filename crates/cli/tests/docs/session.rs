//! Running a page's blocks, one after another, in one shell.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use sendoff_conformance::servers;

use crate::output;
use crate::page::{Act, Block, Page};

/// The longest that a page may take, in seconds. A reader would have given up.
const PAGE_SECONDS_MAX: &str = "150";

/// Before the first block: a failure ends the page, and what it started ends with it.
const PROLOGUE: &str = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n";

/// Runs the page; the failure is a text that shows the block and what it printed.
pub(crate) fn run(page: &Page) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let session = Session::prepare(page, folder.path())
        .map_err(|error| format!("{}: preparing the session: {error}", page.path))?;
    let status = session.command().status().map_err(|error| format!("running bash: {error}"))?;
    for (number, block) in page.blocks.iter().enumerate().filter(|(_, block)| block.runs()) {
        let printed = fs::read_to_string(session.block_file(number, "out")).ok();
        let later_began =
            (number + 1..page.blocks.len()).any(|later| session.block_file(later, "out").exists());
        let ended_well = status.success() || later_began;
        let as_expected = match (&block.expected, &printed) {
            (Some(expected), Some(printed)) => output::matches(expected, printed),
            (_, printed) => printed.is_some(),
        };
        if !ended_well || !as_expected {
            let code = status.code().unwrap_or(-1);
            let what = if ended_well {
                "did not print what the page says".to_owned()
            } else {
                format!("ended with {code} (124: it took longer than {PAGE_SECONDS_MAX} s)")
            };
            return Err(session.failure(page, number, block, &what));
        }
    }
    if status.success() { Ok(()) } else { Err(format!("{}: ended with {status}", page.path)) }
}

/// A page's folders: what the reader sees is in `work`, what the test needs beside it.
struct Session {
    blocks: PathBuf,
    work: PathBuf,
    programs: PathBuf,
    database: String,
    nats: String,
}

impl Session {
    fn prepare(page: &Page, folder: &Path) -> io::Result<Self> {
        let uses =
            |word: &str| page.blocks.iter().any(|block| block.runs() && block.text.contains(word));
        let postgres =
            uses("DATABASE_URL") || page.blocks.iter().any(|block| block.act == Act::Postgres);
        let session = Self {
            blocks: folder.join("blocks"),
            work: folder.join("work"),
            programs: folder.join("programs"),
            database: if postgres { servers::fresh_database()? } else { String::new() },
            nats: if uses("NATS_URL") { servers::nats()? } else { String::new() },
        };
        for made in [&session.blocks, &session.work, &session.programs] {
            fs::create_dir(made)?;
        }
        symlink(env!("CARGO_BIN_EXE_sendoff"), session.programs.join("sendoff"))?;
        // Debian's Python, for which Debian's driver packages are made.
        symlink("/usr/bin/python3", session.programs.join("python3"))?;
        let mut script = PROLOGUE.to_owned();
        for (number, block) in page.blocks.iter().enumerate() {
            session.add(&mut script, number, block)?;
        }
        fs::write(session.blocks.join("session.sh"), script)?;
        Ok(session)
    }

    fn block_file(&self, number: usize, ending: &str) -> PathBuf {
        self.blocks.join(format!("{number}.{ending}"))
    }

    /// Writes a block's text and adds the line that runs it.
    fn add(&self, script: &mut String, number: usize, block: &Block) -> io::Result<()> {
        let text = self.block_file(number, "text");
        fs::write(&text, &block.text)?;
        let text = text.display();
        if let Act::File(name) = &block.act {
            let _ = writeln!(script, "cp '{text}' '{name}'");
        }
        if !block.runs() {
            return Ok(());
        }
        // Standard output goes to the block's file; the shell itself goes on, with what it exported.
        let out = self.block_file(number, "out");
        let _ = writeln!(script, "exec >'{}'", out.display());
        let _ = match &block.act {
            Act::Shell => writeln!(script, ". '{text}'"),
            Act::Python => writeln!(script, "python3 '{text}'"),
            Act::Postgres => {
                writeln!(script, "psql \"$DATABASE_URL\" -X -q -v ON_ERROR_STOP=1 -f '{text}'")
            }
            Act::Sqlite => writeln!(script, "sqlite3 -batch -bail shop.db <'{text}'"),
            Act::File(_) | Act::Output | Act::Nothing => Ok(()),
        };
        Ok(())
    }

    fn command(&self) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", PAGE_SECONDS_MAX, "bash"])
            .arg(self.blocks.join("session.sh"))
            .current_dir(&self.work)
            .stdin(std::process::Stdio::null())
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("DATABASE_URL", &self.database)
            .env("NATS_URL", &self.nats);
        // A reader has no variable of ours set, unless the page told him to.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SENDOFF_")) {
            command.env_remove(name);
        }
        command
    }

    fn failure(&self, page: &Page, number: usize, block: &Block, what: &str) -> String {
        let printed = fs::read_to_string(self.block_file(number, "out")).unwrap_or_default();
        let mut text = format!("{}:{}: this block {what}\n\n{}", page.path, block.line, block.text);
        if let Some(expected) = &block.expected {
            let _ = write!(text, "\n--- what the page says\n{expected}");
        }
        let _ = write!(text, "\n--- what it printed (standard error stands above)\n{printed}");
        text
    }
}
