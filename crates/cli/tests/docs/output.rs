//! Comparing what a block printed with what its page says.
//!
//! In the page, `[..]` stands for any text within a line, and a line of `...` for any lines.

/// Whether `printed` is what `expected` says.
pub(crate) fn matches(expected: &str, printed: &str) -> bool {
    let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    lines_match(&expected, &printed)
}

fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| lines_match(rest, &printed[skip..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    let Some((before, after)) = expected.split_once("[..]") else {
        return expected == printed;
    };
    let Some(rest) = printed.strip_prefix(before) else {
        return false;
    };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| line_matches(after, &rest[at..]))
}

#[test]
fn wildcards_stand_for_what_varies_and_for_nothing_else() {
    assert!(matches("one\ntwo\n", "one\ntwo"));
    assert!(matches("id [..] sent\n", "id 0198-77 sent\n"));
    assert!(matches("first\n...\nlast\n", "first\na\nb\nlast\n"));
    assert!(matches("...\nlast\n", "last\n"));
    assert!(!matches("one\n", "one\ntwo\n"));
    assert!(!matches("id [..] sent\n", "id 7 held\n"));
    assert!(!matches("first\n...\nlast\n", "first\na\n"));
}
