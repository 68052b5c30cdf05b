//! The list of cases, in one place, and the macro that makes a test of each.

use crate::cases::check;

/// How many cases the suite has. Committed: a case that is written and not listed, or listed no
/// more, turns every store's run red.
pub const CASES: usize = 91;

/// The sources of the cases, to count what is written.
const WRITTEN: [&str; 13] = [
    include_str!("create.rs"),
    include_str!("ack.rs"),
    include_str!("batch.rs"),
    include_str!("transaction.rs"),
    include_str!("life.rs"),
    include_str!("deadline.rs"),
    include_str!("policy.rs"),
    include_str!("change.rs"),
    include_str!("reopen.rs"),
    include_str!("nest.rs"),
    include_str!("probe.rs"),
    include_str!("read.rs"),
    include_str!("evidence.rs"),
];

/// Checks a generated list against the committed count and against what is written.
pub fn check_the_list(listed: &[&str]) {
    check(listed, CASES, &WRITTEN);
}

/// Makes one test of each case, for a [`Subject`](crate::barrier::Subject) that is in scope.
///
/// Put it into a module of its own; the crate needs `tokio` with the features `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! barrier_suite {
    ($subject:ident) => {
        $crate::__barrier_cases! { $subject }
    };
}

/// The list.
#[doc(hidden)]
#[macro_export]
macro_rules! __barrier_cases {
    ($subject:ident) => {
        $crate::__suite_tests! { barrier check_the_list $subject
            create {
                a_barrier_is_as_it_was_created
                an_id_that_is_there_is_answered_and_left_as_it_is
                a_strict_creation_refuses_other_members
                an_empty_list_completes_at_once
                a_barrier_without_a_continuation_is_a_work_list
                names_are_bytes
                tenants_share_ids_and_nothing_else
                a_deadline_lies_before_the_end
            }
            ack {
                the_last_acknowledgement_sends_one_continuation
                the_first_acknowledgement_wins
                a_failed_acknowledgement_resolves_its_member
                a_repeated_last_acknowledgement_sends_nothing
                an_unknown_member_is_refused_and_near_ones_are_named
                a_barrier_that_is_not_there_is_told
                an_outcome_has_at_most_8192_bytes_as_encoded
                outcomes_survive_as_they_were_written
                acknowledgements_at_once_send_one_continuation
            }
            batch {
                a_batch_answers_for_each_member
                a_member_twice_in_a_batch_is_a_duplicate_of_the_first
                all_or_nothing_is_all_or_nothing
                an_empty_batch_changes_nothing
                a_batch_for_another_epoch_is_refused
                a_batch_of_thousands_is_applied_whole
            }
            transaction {
                one_commit_has_it_all
                what_rolled_back_was_not_acknowledged
                a_creation_that_rolled_back_never_was
                a_savepoint_takes_its_acknowledgements_back
                a_barrier_can_begin_and_end_in_one_transaction
                one_transaction_can_complete_several_barriers
                a_refusal_leaves_the_transaction_usable
                a_transaction_reads_what_it_wrote
            }
            life {
                a_barrier_lives_a_week
                the_last_hour_takes_no_acknowledgement
                an_id_is_free_after_the_week
                a_barrier_outlives_its_unpublished_continuation
                the_expired_are_swept_in_pieces
                a_continuation_has_an_id_of_its_own
            }
            deadline {
                a_deadline_closes_with_what_is_missing
                a_deadline_alone_marks_the_barrier_overdue
                a_deadline_after_the_end_does_nothing
                a_deadline_closes_a_list_that_was_never_sealed
                an_errand_is_trusted_with_nothing
                a_malformed_errand_goes_to_quarantine
            }
            policy {
                so_many_resolved_members_are_enough
                so_many_successes_are_enough
                what_cannot_be_reached_ends_unmet
                every_group_has_its_quota
                the_first_failure_ends_it
                the_first_failure_of_a_transaction_ends_it
                a_batch_that_passes_a_quorum_completes_once
            }
            change {
                a_cancelled_barrier_ends_without_a_continuation
                what_is_complete_cannot_be_cancelled
                a_growing_list_completes_after_its_seal
                the_last_member_completes_a_sealed_list
                an_empty_list_completes_when_it_is_sealed
                what_is_sealed_cannot_grow
                growth_is_part_of_its_transaction
                an_excluded_member_is_resolved_as_failed
                growth_stays_within_the_policys_groups
            }
            reopen {
                failed_members_are_pending_again
                chosen_members_are_pending_again
                only_what_has_ended_is_reopened
                missing_members_can_come_after_all
                a_quorum_is_reached_again_after_a_reopening
                an_old_epochs_acknowledgement_is_refused
            }
            nest {
                a_complete_child_acknowledges_itself
                a_childs_failures_are_told
                a_cancelled_child_resolves_its_parents_member
                a_childs_deadline_resolves_its_parents_member
                an_empty_child_completes_its_parent
                generations_end_one_after_the_other
                a_child_needs_a_parent_that_waits_for_it
                a_child_goes_no_later_than_its_parent
            }
            probe {
                a_probe_finds_lost_acknowledgements
                a_probe_can_complete_a_barrier
                a_deadline_asks_the_probe_first
                a_probe_that_finds_everything_spares_the_deadline
                a_broken_probe_does_not_keep_the_deadline
                keys_under_a_prefix_are_acknowledged
                a_deadline_lists_the_keys_first
                what_cannot_be_probed_is_told
            }
            read {
                pages_are_bounded_and_give_everything
                a_continuation_is_hydrated_only_when_it_is_true
                a_member_is_read_by_its_name
                a_hundred_thousand_members_cost_an_acknowledgement_nothing
                why_tells_what_a_barrier_waits_for
                barriers_are_listed_in_pages
            }
            evidence {
                unknown_names_are_kept_with_near_ones
                late_acknowledgements_are_kept
                evidence_is_bounded
                a_probe_leaves_no_evidence
            }
        }
    };
}
