//! What every suite does with its list of cases: a test of each, bounded in time, and a count that is
//! committed.

use std::future::Future;
use std::time::Duration;

use sendoff_core::Result;

/// Many times what the longest case takes on a busy machine.
const CASE_TIMEOUT: Duration = Duration::from_secs(180);

/// Checks a generated list against the committed count and against what is written.
pub(crate) fn check(listed: &[&str], committed: usize, sources: &[&str]) {
    let written = sources
        .iter()
        .flat_map(|source| source.lines())
        .filter(|line| line.starts_with("pub async fn "))
        .count();
    let mut unique = listed.to_vec();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(listed.len(), committed, "as many tests as are committed");
    assert_eq!(unique.len(), committed, "every name stands once");
    assert_eq!(written, committed, "every case that is written is listed");
}

/// Runs a case, and fails where it does not end: what waits for ever has failed.
///
/// # Errors
/// The case's own.
///
/// # Panics
/// Where it does not end.
pub async fn in_time(case: impl Future<Output = Result<()>>) -> Result<()> {
    match tokio::time::timeout(CASE_TIMEOUT, case).await {
        Ok(ended) => ended,
        Err(_) => panic!("it did not end within {CASE_TIMEOUT:?}"),
    }
}

/// The tests of a suite: its module, the function that checks its list, the subject, and the cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __suite_tests {
    ($suite:ident $check:ident $subject:ident $($theme:ident { $($case:ident)* })*) => {
        const LISTED: &[&str] = &[
            $($(concat!(stringify!($theme), "::", stringify!($case)),)*)*
        ];

        #[test]
        fn every_case_of_the_suite_is_a_test_here() {
            $crate::$suite::$check(LISTED);
        }

        $(
            mod $theme {
                use super::$subject;
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() -> sendoff_core::Result<()> {
                        $crate::cases::in_time($crate::$suite::$theme::$case::<$subject>()).await
                    }
                )*
            }
        )*
    };
}
