//! The breaker opens once, tries one publish after each wait, and closes at the first success.

use std::time::Duration;

use tokio::time::Instant;

use crate::relay::breaker::{Allows, Breaker};

#[test]
fn a_wave_of_failures_is_one_failure() {
    let now = Instant::now();
    let mut breaker = Breaker::default();
    assert_eq!(breaker.allows(now), Allows::All);
    assert!(breaker.failed(now, None, 1.0), "the first failure is news");
    let Allows::NoneBefore(until) = breaker.allows(now) else { panic!("it is open") };
    for _ in 0..2_000 {
        assert!(!breaker.failed(now, None, 1.0), "the rest of the wave is not");
    }
    assert_eq!(breaker.allows(now), Allows::NoneBefore(until), "nor does it lengthen the wait");
}

#[test]
fn after_each_wait_one_publish_is_tried_and_the_waits_grow_to_a_bound() {
    let mut now = Instant::now();
    let mut breaker = Breaker::default();
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        breaker.failed(now, None, 1.0);
        let Allows::NoneBefore(until) = breaker.allows(now) else { panic!("it is open") };
        assert!(until - now >= longest, "waits do not shrink");
        longest = until - now;
        now = until;
        assert_eq!(breaker.allows(now), Allows::One);
    }
    assert_eq!(longest, Duration::from_secs(2));
    assert!(breaker.confirmed(), "closing is news");
    assert_eq!(breaker.allows(now), Allows::All);
    assert!(!breaker.confirmed());
}

#[test]
fn a_target_that_says_how_long_to_wait_is_believed() {
    let now = Instant::now();
    let mut breaker = Breaker::default();
    breaker.failed(now, Some(Duration::from_secs(30)), 0.0);
    assert_eq!(breaker.allows(now), Allows::NoneBefore(now + Duration::from_secs(30)));
    breaker.failed(now, Some(Duration::from_secs(20)), 0.0);
    breaker.failed(now, Some(Duration::from_secs(40)), 0.0);
    let longest = Allows::NoneBefore(now + Duration::from_secs(40));
    assert_eq!(breaker.allows(now), longest, "of several answers the longest wait counts");
}
