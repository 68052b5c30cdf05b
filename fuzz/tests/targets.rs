//! Every target over its seeds and thousands of variations of them. What has no coverage to go by
//! finds less than libFuzzer does in a night; it runs each time.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use sendoff_fuzz::TARGETS;

/// Variations of each target; `SENDOFF_FUZZ_RUNS` says how many else.
fn runs() -> usize {
    std::env::var("SENDOFF_FUZZ_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(4_000)
}

/// Bytes that mean something to one decoder or another.
const TOKENS: [&[u8]; 28] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b":",
    b",",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\n\n",
    b"\r\n",
    b"%",
    b"%2F",
    b"%00",
    b"//",
    b"@",
    b"?",
    b"=",
    b"&",
    b"#",
    b"|",
    b".",
    b"*",
    b">",
    b"9999999999999999999",
    b"-1",
    b"\xff",
    b"\xf0\x9f\xa6\x80",
];

fn vary(random: &mut fastrand::Rng, seeds: &[&[u8]]) -> Vec<u8> {
    let mut bytes = random.choice(seeds).copied().unwrap_or_default().to_vec();
    for _ in 0..random.usize(0..8) {
        let at = random.usize(0..=bytes.len());
        match random.u8(0..6) {
            0 => bytes.truncate(at),
            1 => {
                bytes.splice(at..at, random.choice(TOKENS).unwrap().iter().copied()).for_each(drop)
            }
            2 => bytes.insert(at, random.u8(..)),
            3 if at < bytes.len() => bytes[at] ^= 1 << random.u8(0..8),
            4 => {
                let end = random.usize(at..=bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part).for_each(drop);
            }
            _ => {
                let other = random.choice(seeds).copied().unwrap_or_default();
                let from = random.usize(0..=other.len());
                bytes.splice(at.., other[from..].iter().copied()).for_each(drop);
            }
        }
    }
    bytes
}

#[test]
fn no_bytes_break_a_decoder() {
    let seed = std::env::var("SENDOFF_FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    for target in TARGETS {
        let mut random = fastrand::Rng::with_seed(seed);
        let varied = (0..runs()).map(|_| vary(&mut random, target.seeds));
        for input in target.seeds.iter().map(|seed| seed.to_vec()).chain(varied) {
            let broken = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err();
            assert!(
                !broken,
                "{} breaks with SENDOFF_FUZZ_SEED={seed} at {:?}",
                target.name,
                String::from_utf8_lossy(&input)
            );
        }
    }
}
