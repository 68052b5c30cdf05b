//! Races: acknowledgements of one barrier that are committed at once, in every way that was ever seen
//! to lose, double or hurry a continuation. Each round has exactly one.

use std::time::Duration;

use sendoff_core::barrier::{Change, Counting, Outcome, Plan, Policy, Quota, Wanted};
use tokio_postgres::IsolationLevel;

use crate::barrier_stage::{Part, Race, Step, Verdict, plan, rounds};

fn members(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("member-{n}")).collect()
}

fn all(n: usize) -> impl Fn(&str) -> Plan + Send + Sync {
    move |id| plan(id).members(members(n)).build().unwrap()
}

fn pause() -> Step {
    Step::Pause(Duration::from_micros(500))
}

/// Every session acknowledges the member of its number.
fn own(_: usize, session: usize) -> Part {
    vec![vec![Step::ok(format!("member-{session}")), pause()]]
}

async fn clean(race: Race) {
    let rounds = race.rounds;
    assert_eq!(race.run().await, Verdict::clean(rounds));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_members_acknowledged_at_once() {
    clean(Race::new(rounds(1_500), 2, all(2), own)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_members_acknowledged_at_once_with_rollbacks() {
    clean(Race::new(rounds(375), 8, all(8), own).rolled_back(30)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stricter_isolation_levels_run_again() {
    for isolation in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        clean(Race::new(rounds(250), 2, all(2), own).isolated(isolation).rolled_back(20)).await;
        clean(Race::new(rounds(60), 4, all(4), own).isolated(isolation)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_members_in_one_transaction_one_by_one_and_as_batches() {
    let one_by_one = |_: usize, session: usize| -> Part {
        let mut steps: Vec<Step> =
            (0..3).map(|n| Step::ok(format!("member-{}", session * 3 + n))).collect();
        steps.push(pause());
        vec![steps]
    };
    clean(Race::new(rounds(200), 4, all(12), one_by_one).rolled_back(20)).await;
    let batches = |_: usize, session: usize| -> Part {
        let acks = (0..25).map(|n| (format!("member-{}", session * 25 + n), Outcome::ok()));
        vec![vec![Step::Ack(acks.collect()), pause()]]
    };
    clean(Race::new(rounds(200), 4, all(100), batches).rolled_back(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_of_everything_change_nothing() {
    let both = |_: usize, session: usize| -> Part {
        let first = session % 2;
        vec![
            vec![Step::ok(format!("member-{first}")), pause()],
            vec![Step::failed(format!("member-{}", 1 - first))],
            vec![Step::ok("member-0"), Step::ok("member-1")],
        ]
    };
    clean(Race::new(rounds(200), 4, all(2), both).rolled_back(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growth_while_acknowledgements_come_and_a_seal_at_any_moment() {
    let unsealed = |id: &str| plan(id).members(members(2)).unsealed().build().unwrap();
    let part = |round: usize, session: usize| -> Part {
        match session {
            0 => {
                let mut part: Part = (1..=3)
                    .map(|n| {
                        let more = Change::grow("", [format!("more-{n}")]).unwrap();
                        vec![Step::Change(more), Step::ok(format!("more-{n}"))]
                    })
                    .collect();
                let late = Step::Change(Change::grow("", ["late"]).unwrap());
                // Sealed in a transaction of its own, or in that of the last growth.
                if round % 2 == 0 {
                    part.push(vec![late, pause()]);
                    part.push(vec![Step::Change(Change::Seal)]);
                } else {
                    part.push(vec![late, Step::Change(Change::Seal), pause()]);
                }
                part.push(vec![Step::ok("late")]);
                part
            }
            n => vec![vec![pause(), Step::ok(format!("member-{}", n - 1)), pause()]],
        }
    };
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
        clean(Race::new(rounds(150), 3, unsealed, part).isolated(isolation).rolled_back(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_of_resolved_members() {
    let quorum = |id: &str| {
        let policy = Policy::at_least(5, Counting::Resolved);
        plan(id).members(members(8)).policy(policy).build().unwrap()
    };
    // Only as many as are wanted ever come.
    clean(Race::new(rounds(250), 5, quorum, own).rolled_back(20)).await;
    clean(Race::new(rounds(150), 8, quorum, own)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_of_successes_with_failures_between() {
    let quorum = |id: &str| {
        let policy = Policy::at_least(3, Counting::Successful);
        plan(id).members(members(8)).policy(policy).build().unwrap()
    };
    let part = |round: usize, session: usize| -> Part {
        // From all of them to none going well.
        let well = session < round % 9;
        let member = format!("member-{session}");
        let step = if well { Step::ok(member) } else { Step::failed(member) };
        vec![vec![step, pause()]]
    };
    clean(Race::new(rounds(300), 8, quorum, part).rolled_back(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_in_each_of_three_groups() {
    let groups = |id: &str| {
        let resolved = |wanted| Quota { wanted, counting: Counting::Resolved };
        plan(id)
            .group("all", ["member-0", "member-1"])
            .group("two", ["member-2", "member-3", "member-4"])
            .group("well", ["member-5", "member-6", "member-7"])
            .policy(Policy::groups([
                ("all", resolved(Wanted::All)),
                ("two", resolved(Wanted::AtLeast(2))),
                ("well", Quota { wanted: Wanted::AtLeast(1), counting: Counting::Successful }),
            ]))
            .build()
            .unwrap()
    };
    let part = |round: usize, session: usize| -> Part {
        let member = format!("member-{session}");
        let fails = session >= 5 && session - 5 < round % 4;
        vec![vec![if fails { Step::failed(member) } else { Step::ok(member) }, pause()]]
    };
    clean(Race::new(rounds(250), 8, groups, part).rolled_back(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_with_batches_and_transactions_that_wait_for_each_other() {
    let quorum = |id: &str| {
        let policy = Policy::at_least(30, Counting::Resolved);
        plan(id).members(members(40)).policy(policy).build().unwrap()
    };
    let part = |_: usize, session: usize| -> Part {
        let acks = (0..10).map(|n| (format!("member-{}", session * 10 + n), Outcome::ok()));
        vec![vec![Step::Ack(acks.collect()), pause()]]
    };
    clean(Race::new(rounds(60), 4, quorum, part)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_against_the_last_acknowledgement() {
    let part = |round: usize, session: usize| -> Part {
        if session == 2 {
            return vec![vec![pause(), Step::Change(Change::Cancel)]];
        }
        let mut part = own(round, session);
        part[0].insert(0, pause());
        part
    };
    clean(Race::new(rounds(300), 3, all(2), part)).await;
}
