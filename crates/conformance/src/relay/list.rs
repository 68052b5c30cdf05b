//! The list of cases, in one place, and the macro that makes a test of each.

use crate::cases::check;

/// How many cases the suite has. Committed: a case that is written and not listed, or listed no
/// more, turns every store's run red.
pub const CASES: usize = 26;

/// The sources of the cases, to count what is written.
const WRITTEN: [&str; 6] = [
    include_str!("time.rs"),
    include_str!("drain.rs"),
    include_str!("gate.rs"),
    include_str!("report.rs"),
    include_str!("modes.rs"),
    include_str!("batch.rs"),
];

/// Checks a generated list against the committed count and against what is written.
pub fn check_the_list(listed: &[&str]) {
    check(listed, CASES, &WRITTEN);
}

/// Makes one test of each case, for a [`Subject`](crate::store::Subject) that is in scope. Put it into a
/// module of its own.
#[macro_export]
macro_rules! relay_suite {
    ($subject:ident) => {
        $crate::__relay_cases! { $subject }
    };
}

/// The list.
#[doc(hidden)]
#[macro_export]
macro_rules! __relay_cases {
    ($subject:ident) => {
        $crate::__suite_tests! { relay check_the_list $subject
            time {
                a_hung_handler_is_ended_at_its_timeout_and_its_row_is_tried_again
                a_handler_that_ignores_its_deadline_has_its_row_rolled_back
                what_is_in_flight_at_a_stop_is_settled
                a_handler_that_outlasts_the_stop_is_cancelled
            }
            drain {
                without_a_drain_nothing_is_claimed_after_a_stop
                a_drain_publishes_what_was_committed_meanwhile_and_ends_when_nothing_is_left
                a_drain_ends_when_a_row_fails
                a_drain_bounds_claims_only
            }
            gate {
                nothing_is_claimed_in_flight_or_unsettled_while_somebody_holds_the_gate
                a_wait_for_the_gate_that_the_stop_ends_claims_and_reports_nothing
                a_drain_that_waits_for_the_gate_claims_and_reports_nothing
                a_gate_that_fails_is_reported_and_leaves_the_relay_ready
                a_gate_that_cannot_tell_who_waits_is_given_back_all_the_same
            }
            report {
                a_permanent_failure_is_quarantined_and_reported_with_its_cause_and_the_rest_goes_on
                a_transient_failure_is_reported_each_time_and_never_quarantines
                a_row_that_does_not_decode_is_quarantined_without_a_call
                ready_means_that_it_receives_and_speaks_for_the_database_only
            }
            modes {
                a_closure_takes_the_place_of_a_publisher
                one_relay_with_row_locks_publishes_in_seq_order_and_a_failure_holds_the_rest_back
                several_relays_with_row_locks_share_the_rows
                a_relay_with_lanes_and_one_with_row_locks_never_publish_the_same_row
            }
            batch {
                a_flush_publishes_one_batch_oldest_first_and_tells_how_it_went
                a_row_that_fails_is_marked_and_stops_nothing_behind_it
                a_drain_flushes_until_a_pass_publishes_nothing
                the_wait_after_a_failure_grows_in_steps_up_to_its_bound
                a_row_is_parked_after_so_many_attempts_when_asked_and_not_before
            }
        }
    };
}
