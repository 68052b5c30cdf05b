//! Every mutation still applies to the sources: a stale one would show nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_mutation_still_applies_to_the_sources() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().and_then(Path::parent).unwrap();
    let patches: Vec<_> = fs::read_dir(here.join("mutations"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "patch"))
        .collect();
    assert_eq!(patches.len(), 7);
    for patch in patches {
        let checked =
            Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root).output();
        let checked = checked.unwrap();
        let words = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{} is stale: {words}", patch.display());
        let head = fs::read_to_string(&patch).unwrap();
        assert!(head.contains("\nRuns: ") && head.contains("\nSays: "), "{}", patch.display());
    }
}
