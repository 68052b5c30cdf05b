//! Reading: pages that are bounded, what a barrier waits for, lists.

use std::time::Instant;

use sendoff_core::Result;
use sendoff_core::barrier::{
    BarrierState, Continuation, Json, OnDeadline, Outcome, Page, Plan, Reason, Which,
};

use super::stage::{HOUR, MINUTE, Stage, batch, continuation, id, name, plan};
use super::subject::Subject;

/// Pages begin after a name, are in order, bounded, and together give everything.
pub async fn pages_are_bounded_and_give_everything<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let names: Vec<String> = (0..2_500).map(|n| format!("m{n:04}")).collect();
    stage.create(plan("b", &names)).await?;
    stage.ack_all(&batch("b", &names[..2_001])).await?;
    let (mut all, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = Page { id: id("b"), which: Which::Resolved, after, limit: 100_000, only: None };
        let Some(page) = stage.store.barrier_outcomes(&page).await? else { panic!("it is there") };
        assert!(page.members.len() <= 1_000);
        all.extend(page.members.into_iter().map(|member| member.member.to_string()));
        pages += 1;
        after = page.next_after;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, names[..2_001]);
    assert_eq!(pages, 3);
    let page = Page {
        id: id("b"),
        which: Which::Pending,
        after: Some(name("m2400")),
        limit: 3,
        only: None,
    };
    let Some(page) = stage.store.barrier_outcomes(&page).await? else { panic!("it is there") };
    let read: Vec<String> = page.members.iter().map(|one| one.member.to_string()).collect();
    assert_eq!(read, ["m2401", "m2402", "m2403"]);
    assert!(page.members.iter().all(|one| one.outcome.is_none() && one.at.is_none()));
    Ok(())
}

/// A continuation is answered where its barrier is complete at its epoch, and nowhere else.
pub async fn a_continuation_is_hydrated_only_when_it_is_true<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    let asked = |tenant: &str, barrier: &str, epoch| Continuation {
        tenant: tenant.to_owned(),
        barrier: barrier.to_owned(),
        epoch,
        reason: None,
    };
    let b = asked("", "b", 1);
    assert!(stage.hydrate(&b).await?.is_none(), "not complete");
    stage.ok("b", "a").await?;
    assert!(stage.hydrate(&b).await?.is_none());
    stage.ok("b", "b").await?;
    assert!(stage.hydrate(&b).await?.is_some());
    for other in [asked("", "b", 2), asked("", "c", 1), asked("t", "b", 1)] {
        assert!(stage.hydrate(&other).await?.is_none(), "{other:?}");
    }
    Ok(())
}

/// What is hydrated counts its members, and gives each of them by its name: resolved, given up, or none.
pub async fn a_member_is_read_by_its_name<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let asked = plan("b", ["a", "ab", "b", "c"]).state(Json::parse(r#"{"n":1}"#)?);
    stage.create(asked.deadline(HOUR).on_deadline(OnDeadline::Continue)).await?;
    let failed = Outcome::failed().with_error("no");
    stage.ack("b", "ab", Outcome::ok().with_result(Json::parse("7")?)).await?;
    stage.ack("b", "c", failed.clone()).await?;
    let only = |of: &str, member: &str| Page::only(id(of), name(member));
    let Some(page) = stage.store.barrier_outcomes(&only("b", "a")).await? else {
        panic!("it is there")
    };
    assert_eq!(page.members.len(), 1, "also while it is pending");
    assert!(page.members[0].outcome.is_none() && page.next_after.is_none());
    assert!(stage.store.barrier_outcomes(&only("none", "a")).await?.is_none());
    stage.subject.age(HOUR + MINUTE).await?;
    let message = super::stage::only(stage.deliver().await?);

    let mut transaction = stage.subject.begin().await?;
    let result = transaction.hydrate(&continuation(&message)).await?;
    let Some(result) = result else { panic!("it is closed") };
    assert_eq!((result.id(), result.state()), ("b", BarrierState::Deadline));
    assert_eq!((result.epoch(), result.reason()), (1, Some(Reason::Deadline)));
    assert_eq!([result.total(), result.ok_count(), result.failed_count()], [4, 1, 1]);
    assert_eq!(result.missing_count(), 2);
    assert_eq!(result.state_value(), Some(&Json::parse(r#"{"n":1}"#)?));
    assert!(result.completed_at() > Some(result.created_at()));
    let mut read = Vec::new();
    for member in ["ab", "c", "a", "b", "A", "abc", " a"] {
        let Some(page) = transaction.outcomes(&only("b", member)).await? else {
            panic!("it is there")
        };
        assert!(page.next_after.is_none(), "{member}");
        assert!(page.members.iter().all(|one| one.member == name(member)), "{member}");
        read.push(page.members.into_iter().next());
    }
    let [Some(well), Some(bad), Some(a), Some(b), None, None, None] = &read[..] else {
        panic!("{read:?}")
    };
    assert_eq!(well.outcome, Some(Outcome::ok().with_result(Json::parse("7")?)));
    assert_eq!(bad.outcome, Some(failed));
    assert!(well.at.is_some() && bad.at.is_some());
    for missing in [a, b] {
        assert_eq!((&missing.outcome, missing.at), (&None, None));
    }
    transaction.commit().await
}

/// A barrier of 100,000 members costs an acknowledgement as little as a small one, and its pages are
/// as quick.
pub async fn a_hundred_thousand_members_cost_an_acknowledgement_nothing<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    let names: Vec<String> = (0..100_000).map(|n| format!("documents/{n}.xml")).collect();
    stage.create(plan("small", &names[..100])).await?;
    stage.create(plan("large", &names)).await?;
    let mut times = Vec::new();
    for of in ["small", "large", "small", "large"] {
        let round = times.len() / 2;
        let begun = Instant::now();
        for name in &names[round * 50..round * 50 + 49] {
            stage.ok(of, name).await?;
        }
        times.push(begun.elapsed());
    }
    let small = times[0].min(times[2]);
    let large = times[1].min(times[3]);
    assert!(large < small * 5 + std::time::Duration::from_millis(500), "{small:?} and {large:?}");
    assert_eq!(stage.counts("large").await?, [100_000, 98, 99_902, 0, 0]);
    let page =
        Page { id: id("large"), which: Which::Pending, after: None, limit: 1_000, only: None };
    let Some(page) = stage.store.barrier_outcomes(&page).await? else { panic!("it is there") };
    assert_eq!(page.members.len(), 1_000);
    Ok(())
}

/// What is it waiting for, how quick is it, when will it be done.
pub async fn why_tells_what_a_barrier_waits_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c", "d"]).await?;
    let Some(why) = stage.store.barrier_why(&id("b")).await? else { panic!("it is there") };
    assert_eq!(why.waiting_for.len(), 4);
    assert_eq!((why.acks_per_s, why.estimated_at), (None, None));
    stage.subject.age(std::time::Duration::from_secs(10)).await?;
    stage.ack_all(&batch("b", ["c", "a"])).await?;
    let Some(why) = stage.store.barrier_why(&id("b")).await? else { panic!("it is there") };
    assert_eq!(why.waiting_for, [name("b"), name("d")]);
    assert_eq!(why.status.resolved, 2);
    let rate = why.acks_per_s.unwrap_or_default();
    assert!(rate > 0.0 && rate <= 0.2, "{rate}: two in ten seconds and a little more");
    assert!(why.estimated_at > why.status.last_ack_at);
    assert!(why.evidence.is_empty());
    stage.ack_all(&batch("b", ["b", "d"])).await?;
    let Some(why) = stage.store.barrier_why(&id("b")).await? else { panic!("it is there") };
    assert!(why.waiting_for.is_empty() && why.estimated_at.is_none());
    Ok(())
}

/// A tenant's barriers in the order of their ids, in pages.
pub async fn barriers_are_listed_in_pages<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    for of in ["b", "d", "a", "c", "B", "ä"] {
        stage.create(Plan::builder(id(of)).members(["m"])).await?;
    }
    stage.ack("c", "m", Outcome::failed()).await?;
    let ids = |list: Vec<sendoff_core::barrier::Status>| -> Vec<String> {
        list.into_iter().map(|status| status.id).collect()
    };
    let all = stage.store.barriers("", None, 1_000).await?;
    assert_eq!(all[3].failed, 1, "with how they stand");
    assert_eq!(ids(all), ["B", "a", "b", "c", "d", "ä"], "by their bytes");
    assert_eq!(ids(stage.store.barriers("", Some("b"), 2).await?), ["c", "d"]);
    assert!(stage.store.barriers("other", None, 10).await?.is_empty());
    Ok(())
}
