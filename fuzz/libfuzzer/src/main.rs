//! Runs the target that `SENDOFF_FUZZ_TARGET` names with libFuzzer. Start it with `fuzz/run`.

#![no_main]

use std::sync::LazyLock;

use sendoff_fuzz::{Target, target};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("SENDOFF_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("there is no target {name:?}"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
