//! Waits stay within their bounds, whatever the attempt and the jitter.

use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, proptest};

use crate::relay::{Backoff, RelaySettings};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_wait_is_between_half_and_the_whole_of_its_step(
        first_ms in 1u64..10_000, more_ms in 0u64..1_000_000, attempt in any::<u32>(), jitter in 0f64..=1.0,
    ) {
        let first = Duration::from_millis(first_ms);
        let backoff = Backoff { first, max: first + Duration::from_millis(more_ms) };
        let wait = backoff.wait(attempt, jitter);
        let whole = first
            .checked_mul(2u32.saturating_pow(attempt.saturating_sub(1).min(30)))
            .unwrap_or(Duration::MAX)
            .min(backoff.max);
        assert!(wait <= whole + Duration::from_micros(1), "{wait:?} is over {whole:?}");
        assert!(wait + Duration::from_micros(1) >= whole / 2, "{wait:?} is under half of {whole:?}");
    }

    #[test]
    fn waits_never_shrink_from_one_attempt_to_the_next(attempt in 1u32..100, jitter in 0f64..=1.0) {
        let backoff = Backoff::default();
        assert!(backoff.wait(attempt, jitter) <= backoff.wait(attempt + 1, jitter));
    }

    #[test]
    fn a_jitter_out_of_range_is_brought_into_it(attempt in 1u32..40, jitter in -1e9f64..1e9) {
        let backoff = Backoff::default();
        let wait = backoff.wait(attempt, jitter);
        assert!(wait >= backoff.wait(attempt, 0.0) && wait <= backoff.wait(attempt, 1.0));
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let ok = RelaySettings::default();
    assert!(ok.check().is_ok());
    let cases: [(&str, RelaySettings); 7] = [
        ("lease", RelaySettings { lease: Duration::from_millis(1), ..ok.clone() }),
        ("shorter than the lease", RelaySettings { publish_timeout: ok.lease, ..ok.clone() }),
        ("poll", RelaySettings { poll: Duration::ZERO, ..ok.clone() }),
        ("at least 1", RelaySettings { in_flight_max: 0, ..ok.clone() }),
        ("window", RelaySettings { window_rows: 1, ..ok.clone() }),
        ("attempts", RelaySettings { attempts_max: Some(0), ..ok.clone() }),
        (
            "backoff",
            RelaySettings {
                backoff: Backoff { first: Duration::ZERO, ..Backoff::default() },
                ..ok.clone()
            },
        ),
    ];
    for (word, settings) in cases {
        let error = settings.check().expect_err(word);
        assert!(error.to_string().contains(word), "{error} does not say {word:?}");
    }
}
