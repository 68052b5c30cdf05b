//! The list of cases, in one place, and the macro that makes a test of each.

use crate::cases::check;

/// How many cases the suite has. Committed: a case that is written and not listed, or listed no
/// more, turns every store's run red.
pub const CASES: usize = 173;

/// The sources of the cases, to count what is written.
const WRITTEN: [&str; 18] = [
    include_str!("send.rs"),
    include_str!("survive.rs"),
    include_str!("look.rs"),
    include_str!("wait.rs"),
    include_str!("lease.rs"),
    include_str!("settle.rs"),
    include_str!("hold.rs"),
    include_str!("policy.rs"),
    include_str!("relay.rs"),
    include_str!("fence.rs"),
    include_str!("backlog.rs"),
    include_str!("claim.rs"),
    include_str!("desk.rs"),
    include_str!("mend.rs"),
    include_str!("keep.rs"),
    include_str!("schema.rs"),
    include_str!("pause.rs"),
    include_str!("route.rs"),
];

/// Checks a generated list against the committed count and against what is written.
pub fn check_the_list(listed: &[&str]) {
    check(listed, CASES, &WRITTEN);
}

/// Makes one test of each case, for a [`Subject`](crate::store::Subject) that is in scope.
///
/// Put it into a module of its own; the crate needs `tokio` with the features `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! store_suite {
    ($subject:ident) => {
        $crate::__store_cases! { $subject }
    };
}

/// The list.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($subject:ident) => {
        $crate::__suite_tests! { store check_the_list $subject
            send {
                a_committed_message_is_found
                an_uncommitted_message_is_not_found
                a_rolled_back_message_never_was
                a_dropped_transaction_is_a_rollback
                what_a_savepoint_undid_never_was_and_the_rest_is_kept
                messages_of_one_transaction_keep_their_order
                a_second_send_of_a_pair_is_refused
                a_second_send_is_refused_after_the_publish_too
                a_pair_twice_in_one_command_is_refused
                two_sources_may_use_the_same_id
                one_pair_sent_at_once_is_one_message
                the_desks_send_is_all_or_none
                a_send_takes_none_or_thousands
                a_pair_of_a_running_transaction_is_decided_by_its_end
                a_running_transaction_and_a_relay_do_not_disturb_each_other
            }
            survive {
                bodies_survive_byte_for_byte
                headers_survive
                names_survive
                due_times_survive_to_the_microsecond
                a_name_over_its_limit_is_refused_by_the_store
                a_plain_insert_is_complete
                a_message_takes_the_lane_of_its_key
            }
            look {
                ready_rows_come_in_seq_order
                a_look_gives_what_is_above_its_lanes_mark
                a_look_is_bounded_in_rows
                a_look_is_bounded_in_rows_of_one_lane
                a_look_is_bounded_in_bytes
                the_first_row_is_given_whatever_it_weighs
                known_rows_are_left_out
                a_look_changes_nothing
                a_look_reads_its_own_lanes_only
                a_look_reads_the_kinds_that_are_asked_for
                a_late_commit_with_a_lower_seq_is_found
                a_seq_drawn_long_before_its_insert_is_found
                horizons_tell_when_a_floor_may_move
                a_row_that_does_not_decode_is_told_and_stops_nothing
            }
            wait {
                a_message_is_not_given_before_its_due_time
                waiting_rows_come_in_the_order_of_their_time
                a_row_tells_its_attempts_and_that_it_blocks
                a_row_sent_behind_a_retrying_one_is_blocked
                a_row_sent_behind_a_quarantined_one_is_blocked
                a_row_with_a_lower_seq_than_the_blocker_is_not_blocked
                a_row_that_falls_due_is_blocked_by_any_blocker
                a_retrying_row_is_blocked_by_an_earlier_blocker
                rows_without_a_key_block_nobody
                rows_that_wait_do_not_fill_a_look
                rows_that_are_held_do_not_fill_a_look
            }
            lease {
                the_only_relay_gets_every_lane
                lanes_are_shared_when_a_relay_joins
                a_lapsed_lease_is_taken_over_under_the_next_epoch
                a_renewal_keeps_the_epoch
                a_renewal_prolongs_the_lease
                a_lapsed_lease_that_nobody_took_is_renewed_under_its_epoch
                a_lease_that_another_took_is_not_renewed
                a_late_release_or_floor_changes_nothing
                a_released_lane_is_free_at_once
                floors_are_handed_on
                a_relay_that_leaves_keeps_what_is_in_flight_until_it_lapses
                a_relay_that_asks_for_nothing_takes_nothing
                a_lost_answer_loses_no_lane
                several_relays_rebalance
                relays_that_ask_at_once_get_different_lanes
            }
            settle {
                a_published_message_is_deleted_and_counted_once
                one_settlement_takes_verdicts_of_every_kind
                a_settlement_takes_none_or_a_thousand
                a_verdict_on_a_row_that_is_gone_is_harmless
                a_retry_comes_back_at_its_time_and_not_before
                a_retry_of_a_row_with_a_due_time_waits_for_the_retry
                attempts_are_counted_where_they_are_the_messages_own
                the_last_error_is_kept_with_the_message
                a_quarantined_message_is_set_aside_with_its_reason
                a_retrying_message_can_go_to_quarantine
            }
            hold {
                a_failing_message_holds_its_followers_until_it_is_published
                a_message_that_fails_again_still_holds
                a_follower_sent_later_is_held_and_let_go
                a_new_owner_keeps_the_followers_held
                a_held_message_waits_for_every_blocker_before_it
                a_message_is_not_held_behind_nothing
                one_settlement_can_hold_and_release_a_key
                one_settlement_can_publish_a_message_and_hold_behind_the_next
                held_messages_without_a_blocker_are_let_go_by_a_lease
                a_release_pulls_the_floor_down
                a_held_message_that_has_failed_does_not_wait_for_itself
                a_message_that_falls_due_is_held_and_let_go
            }
            policy {
                a_failing_message_can_hold_nobody
                a_quarantined_message_can_hold_nobody
                what_was_held_goes_on_when_its_blocker_stops_holding
                a_message_begins_to_hold_when_it_fails_under_another_policy
                a_requeued_message_can_stop_holding
                one_settlement_takes_failures_that_hold_and_that_do_not
                the_line_of_all_rows_is_in_seq_order
                the_line_ends_at_a_message_that_failed_and_holds
                the_line_goes_past_what_holds_nobody
                all_lanes_are_given_to_one_relay_or_none
                the_messages_that_others_wait_for_are_named
            }
            relay {
                under_all_everything_leaves_in_order_and_a_second_relay_stands_by
                under_none_a_failing_message_stands_in_nobodys_way
                what_one_policy_left_the_next_one_goes_on_with
                a_target_that_is_unreachable_uses_up_nobodys_attempts
                a_target_that_asks_to_wait_is_waited_for
                what_can_never_be_taken_goes_to_quarantine_at_once
                a_message_of_unknown_outcome_keeps_its_lane
            }
            fence {
                a_late_verdict_is_fenced
                a_late_publish_is_recorded_and_told
                a_late_publish_lets_nobody_pass
                a_batch_is_fenced_row_by_row
                another_relays_verdict_is_fenced
                a_verdict_after_the_release_is_fenced
                a_lapsed_lease_that_nobody_took_still_settles
                a_take_over_fences_settlements_that_run_at_the_same_time
                a_publish_that_two_relays_record_at_once_counts_once
            }
            claim {
                a_claim_gives_the_oldest_rows_that_may_go_within_its_bounds
                claimed_rows_are_nobody_elses_until_the_claim_ends
                relays_that_claim_at_once_get_different_rows
                one_mark_takes_verdicts_of_every_kind
                a_claim_that_has_lasted_too_long_is_over
                nothing_is_claimed_while_lanes_are_leased
                no_lane_is_leased_while_rows_are_claimed
                what_was_held_is_claimed_in_order_and_what_is_left_goes_on
                a_row_that_does_not_decode_can_be_claimed_and_set_aside
                what_was_held_behind_a_row_that_is_set_aside_goes_on
                what_is_marked_as_published_is_kept_where_the_store_keeps
            }
            desk {
                an_empty_outbox_counts_nothing
                a_message_is_counted_and_found_wherever_it_is
                what_is_found_is_told_in_full
                the_oldest_due_message_has_an_age
                an_id_is_found_by_its_source
                the_published_count_is_kept
                the_quarantine_is_read_in_pages
                an_undecodable_row_can_be_shown_and_discarded
            }
            backlog {
                a_backlog_is_counted_as_the_desk_counts_it
                a_backlog_is_counted_no_further_than_it_is_asked_to_be
                a_backlog_is_as_old_as_its_oldest_due_message
                a_row_tells_how_long_it_has_been_due
            }
            mend {
                a_requeue_keeps_the_order_of_the_key
                a_requeued_message_that_fails_again_holds_again
                a_requeued_message_is_found_below_the_floor
                a_discard_lets_the_followers_go
                mending_takes_what_is_asked_for
            }
            keep {
                nothing_is_kept_unless_it_is_asked_for
                a_time_that_is_out_of_range_is_refused
                a_published_message_is_kept_in_full
                what_is_discarded_is_not_kept
                a_publish_that_two_relays_record_is_kept_one_time
                kept_messages_are_sent_again_as_they_were
                what_waits_already_is_not_sent_again
                a_resent_message_joins_the_order_of_its_key
                what_is_wanted_is_chosen
                a_stopped_run_goes_on_behind_its_mark
                what_was_sent_lately_is_told
            }
            pause {
                a_parked_row_leaves_the_looks_and_comes_back_in_order
                nothing_comes_back_before_its_pause_has_ended
                a_target_takes_back_what_it_has_room_for
                another_relay_brings_nothing_back
                pauses_are_kept_and_counted
                a_late_parking_is_fenced_and_a_late_publish_is_not
                a_parked_row_that_gets_another_verdict_is_parked_no_more
                parked_rows_fill_no_look_and_come_back_in_bounded_steps
            }
            route {
                a_target_that_is_down_holds_up_nobody_else
                a_target_that_is_slow_holds_up_nobody_else
                a_target_that_throttles_holds_up_nobody_else
                a_message_that_no_route_takes_is_quarantined
                a_key_keeps_its_order_across_targets
                pauses_of_each_kind_reach_every_relay
                a_paused_backlog_holds_up_nothing_and_comes_back_whole
            }
            schema {
                a_store_without_a_schema_says_so
                a_migration_is_safe_twice
                a_migration_is_safe_at_once
                a_newer_schema_is_refused_and_not_touched
                a_newer_schema_that_only_added_is_used
                pairs_are_swept_after_their_horizon
                a_pair_whose_message_is_there_is_not_swept
                a_sweep_is_bounded_and_reaches_everything
            }
        }
    };
}
