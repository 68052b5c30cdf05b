//! The cases of the public suite, each a test of its own.
//!
//! Each runs the case of that name in `vectors/`, which is our own, and, where the variable
//! `SENDOFF_BABELQUEUE_CONFORMANCE` names the folder of the public suite, the one there too.

mod attempts;
mod envelopes;
mod idempotency;
mod payload_schema;
mod projections;

use std::path::PathBuf;

use serde_json::Value;

/// The folder of the public suite, where there is one.
const SUITE: &str = "SENDOFF_BABELQUEUE_CONFORMANCE";

/// A manifest with its folder.
pub(crate) struct Suite {
    folder: PathBuf,
    pub(crate) manifest: Value,
}

impl Suite {
    fn read(folder: PathBuf) -> Self {
        let text = std::fs::read(folder.join("manifest.json")).unwrap();
        Self { folder, manifest: serde_json::from_slice(&text).unwrap() }
    }

    pub(crate) fn file(&self, name: &Value) -> Vec<u8> {
        std::fs::read(self.folder.join(name.as_str().unwrap())).unwrap()
    }

    /// The case of this name in the list at `pointer`.
    pub(crate) fn case(&self, pointer: &str, name: &str) -> &Value {
        let cases = self.manifest.pointer(pointer).and_then(Value::as_array).unwrap();
        cases.iter().find(|case| case["name"] == name).unwrap()
    }
}

/// Our own vectors, and the public suite where it is here.
pub(crate) fn suites() -> Vec<Suite> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/formats/babelqueue/vectors");
    let public = std::env::var_os(SUITE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    std::iter::once(own).chain(public).map(Suite::read).collect()
}

/// Makes a test of each case, named after it, and one that finds cases without a test.
macro_rules! cases {
    ($run:path, $pointer:literal, [$($test:ident: $name:literal,)*]) => {
        $(#[test]
        fn $test() {
            for suite in $crate::babelqueue::conformance::suites() {
                $run(&suite, suite.case($pointer, $name));
            }
        })*

        #[test]
        fn every_case_has_a_test() {
            let tests = [$($name),*];
            for suite in $crate::babelqueue::conformance::suites() {
                for case in suite.manifest.pointer($pointer).unwrap().as_array().unwrap() {
                    let name = case["name"].as_str().unwrap();
                    assert!(tests.contains(&name), "the case {name} has no test");
                }
            }
        }
    };
}
pub(crate) use cases;

#[test]
fn every_part_of_the_suite_has_tests() {
    let known = [
        "schema_version",
        "description",
        "cases",
        "idempotency",
        "sqs",
        "asb",
        "pulsar",
        "kafka",
        "artemis",
        "redis",
        "rabbitmq",
        "payload_schema",
    ];
    for suite in suites() {
        for part in suite.manifest.as_object().unwrap().keys() {
            assert!(known.contains(&part.as_str()), "the part {part} has no tests");
        }
    }
}
