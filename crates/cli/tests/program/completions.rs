//! Completions and help.

use std::process::Command;

use crate::folder::Folder;

#[test]
fn completions_name_every_verb_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = folder.run(&["completions", shell]).ok();
        for verb in [
            "up",
            "verify",
            "migrate",
            "send",
            "relay",
            "status",
            "show",
            "quarantine",
            "barrier",
            "reconcile",
            "serve",
        ] {
            assert!(said.out.contains(verb), "{shell} does not know {verb}");
        }
        folder.write(shell, &said.out);
    }
    // bash is there wherever the tests run; it says whether it can read its own.
    let read = Command::new("bash").arg("-n").arg(folder.path("bash")).status();
    assert!(read.unwrap().success());
}

#[test]
fn help_and_version_are_answers_and_a_wrong_verb_is_not() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).ok();
    assert!(help.out.contains("Exit codes:"), "{}", help.out);
    assert!(folder.run(&["--version"]).ok().out.starts_with("sendoff "));
    assert_eq!(folder.run(&["relai"]).code, 2);
    let json = folder.run(&["relai", "--json"]);
    assert_eq!(json.code, 2);
    assert_eq!(json.error()["kind"], "invalid");
}
