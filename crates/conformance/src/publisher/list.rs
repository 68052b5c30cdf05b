//! The lists of cases, in one place, and the macros that make a test of each.

use crate::cases::check;

/// How many cases every publisher has. Committed: a case that is written and not listed, or listed
/// no more, turns every publisher's run red.
pub const CASES: usize = 21;

/// How many more a target that can be taken away has.
pub const OUTAGE_CASES: usize = 7;

/// Checks a generated list against the committed count and against what is written.
pub fn check_the_list(listed: &[&str]) {
    let sources = [include_str!("delivery.rs"), include_str!("limits.rs"), include_str!("stop.rs")];
    check(listed, CASES, &sources);
}

/// As [`check_the_list`], for the outages.
pub fn check_the_outage_list(listed: &[&str]) {
    check(listed, OUTAGE_CASES, &[include_str!("outage.rs")]);
}

/// Makes one test of each case, for a [`Subject`](crate::publisher::Subject) that is in scope.
///
/// Put it into a module of its own; the crate needs `tokio` with the features `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! publisher_suite {
    ($subject:ident) => {
        $crate::__suite_tests! { publisher check_the_list $subject
            delivery {
                a_confirmed_message_has_arrived
                bodies_arrive_byte_for_byte
                a_body_of_a_mebibyte_arrives
                headers_arrive
                names_arrive
                a_message_with_a_due_time_arrives
                a_repetition_carries_the_same_id
                different_messages_never_share_an_id
                two_thousand_publishes_at_once_are_all_confirmed
                publishes_one_after_another_keep_their_order
                two_publishers_do_not_disturb_each_other
            }
            limits {
                the_largest_body_passes_the_check_and_arrives
                an_oversize_message_is_told_before_the_publish
                an_oversize_message_is_refused_for_good_and_alone
            }
            stop {
                a_reset_before_the_first_publish_is_harmless
                publishing_goes_on_after_a_reset
                a_reset_in_the_middle_leaves_no_confirmation_without_a_message
                publishes_that_are_dropped_disturb_no_other
                nothing_is_published_after_the_close
                a_close_leaves_no_confirmation_without_a_message
                another_publisher_goes_on_where_one_was_closed_or_dropped
            }
        }
    };
}

/// As [`publisher_suite!`], for what a [`Breakable`](crate::publisher::Breakable) target can show.
#[macro_export]
macro_rules! publisher_outage_suite {
    ($subject:ident) => {
        $crate::__suite_tests! { publisher check_the_outage_list $subject
            outage {
                a_target_that_was_never_there_is_unreachable
                publishes_fail_fast_while_the_target_is_down
                what_was_confirmed_before_a_kill_is_there_after_it
                what_is_in_flight_when_the_target_dies_fails_at_once
                a_silent_target_is_waited_for_no_longer_than_the_caller_wants
                a_slow_answer_is_waited_for
                nothing_buffered_leaves_after_a_reset
            }
        }
    };
}
