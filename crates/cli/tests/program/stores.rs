//! A folder with a migrated store in it, on SQLite and on PostgreSQL.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sendoff_conformance::servers::fresh_database;
use serde_json::Value;

use crate::folder::{Folder, Process, Said};

/// Runs `test` on each kind of store, in a folder whose configuration names it.
pub(crate) fn on_each(test: impl Fn(&Folder)) {
    for folder in [Folder::with_store(), postgres()] {
        test(&folder);
    }
}

fn postgres() -> Folder {
    let folder = Folder::new();
    let url = fresh_database().unwrap();
    folder.write("sendoff.toml", format!("store = \"{url}\"\nto = \"file:out.jsonl\"\n"));
    folder.run(&["migrate"]).ok();
    folder
}

impl Folder {
    /// Runs `sendoff barrier ... --json` to its end.
    pub(crate) fn barrier(&self, arguments: &[&str]) -> Said {
        let mut all = vec!["barrier"];
        all.extend(arguments);
        all.push("--json");
        self.run(&all)
    }

    /// The same with names at the end that need not be UTF-8.
    pub(crate) fn barrier_bytes(&self, arguments: &[&str], names: &[&[u8]]) -> Said {
        let mut all = vec!["barrier", "--json"];
        all.extend(arguments);
        let mut command = self.command(&all);
        command.args(names.iter().map(|name| OsStr::from_bytes(name)));
        Process::spawn(command).wait()
    }

    /// Creates a barrier with these members, one a line.
    pub(crate) fn create(&self, id: &str, members: &[&str], more: &[&str]) -> Value {
        let mut arguments = vec!["barrier", "create", id, "--members-file", "-", "--json"];
        arguments.extend(more);
        let list: String = members.iter().map(|name| format!("{name}\n")).collect();
        self.feed(&arguments, list.as_bytes()).ok().json()
    }

    /// Runs the relay until nothing due is pending, to `out.jsonl`, and gives what arrived of a topic.
    pub(crate) fn arrived(&self, topic: &str) -> Vec<Value> {
        self.run(&["relay", "--once", "--to", "file:out.jsonl"]).ok();
        self.deliveries("out.jsonl").into_iter().filter(|line| line["topic"] == topic).collect()
    }

    /// The state of a barrier.
    pub(crate) fn state(&self, id: &str) -> Value {
        self.barrier(&["status", id]).ok().json()
    }

    /// Refused with this exit code and this word.
    pub(crate) fn refused(&self, arguments: &[&str], exit: i32, code: &str) -> Value {
        let said = self.barrier(arguments);
        assert_eq!(said.code, exit, "{arguments:?}: {said:?}");
        assert_eq!(said.out, "", "{arguments:?}");
        // Nothing but the error: no warning beside it.
        assert_eq!(said.err.lines().count(), 1, "{arguments:?}: {said:?}");
        let error = said.error();
        assert_eq!((&error["code"], &error["exit"]), (&code.into(), &exit.into()), "{error}");
        assert!(error["next"].is_string(), "what to do next is not said: {error}");
        error
    }
}
