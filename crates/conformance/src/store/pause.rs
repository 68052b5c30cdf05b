//! Pauses and what is parked: it leaves the looks, uses up nobody's attempts, and comes back in order.

use std::sync::Arc;

use sendoff_core::Result;
use sendoff_core::store::{
    Ask, Outcome, ParkedFor, PauseScope, Place, TargetRoom, Tend, Tended, Verdict,
};

use super::stage::{LONG, Owner, SHORT, Stage, message, published, quarantined, retry};
use super::subject::Subject;

fn topic() -> Result<PauseScope> {
    Ok(PauseScope::Topic("suite.>".parse()?))
}

fn for_pause() -> Result<Outcome> {
    Ok(Outcome::Parked { mark: ParkedFor::Pause(topic()?).mark().into() })
}

fn for_target(name: &str) -> Outcome {
    Outcome::Parked { mark: ParkedFor::Target(name.to_owned()).mark().into() }
}

/// Tends as a relay with targets that have so much room.
async fn tend(owner: &Owner, rooms: &[(&str, usize)]) -> Result<Tended> {
    let room = |(name, rows_max): &(&str, usize)| TargetRoom {
        mark: ParkedFor::Target((*name).to_owned()).mark(),
        rows_max: *rows_max,
    };
    let targets = rooms.iter().map(room).collect();
    owner.store.tend(&Tend { relay: owner.id.clone(), targets, rows_max: 1_000 }).await
}

async fn park(owner: &Owner, ids: &[&str], outcome: &Outcome) -> Result<()> {
    let rows = owner.rows().await?;
    let wanted =
        rows.iter().filter(|row| super::stage::id_of(row).is_some_and(|id| ids.contains(&id)));
    let verdicts: Vec<Verdict> = wanted.map(|row| owner.verdict(row, outcome.clone())).collect();
    assert_eq!(verdicts.len(), ids.len(), "all of them are seen");
    owner.store.settle(&owner.id, &verdicts).await.map(drop)
}

/// A row that is parked is not given, is what its key waits for, and comes back first.
pub async fn a_parked_row_leaves_the_looks_and_comes_back_in_order<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    stage.send_keyed("other", &["3"]).await?;
    let owner = stage.owner().await?;
    stage.store.pause(&topic()?, "").await?;
    park(&owner, &["1"], &for_pause()?).await?;
    assert_eq!(owner.seen("1").await?.map(|row| row.seq), None);
    owner.hold_blocked(1).await?;
    assert_eq!(owner.ids().await?, ["3"], "another key goes on");
    assert_eq!(stage.place("1").await?, Some(Place::Paused));
    assert_eq!(stage.place("2").await?, Some(Place::Held));
    let found = stage.find("1").await?;
    assert_eq!(found.as_ref().map(|found| (found.attempts, found.retry_at)), Some((0, None)));
    stage.store.resume(Some(&topic()?)).await?;
    assert_eq!(tend(&owner, &[]).await?.recalled, 1);
    let first = owner.row("1").await?;
    assert!(first.blocker && first.waiting && first.attempts == 0);
    assert_eq!(owner.settle(&first, published(true)).await?.released, 1);
    let of_key: Vec<String> = owner.drain().await?.into_iter().filter(|id| id != "3").collect();
    assert_eq!(of_key, ["2"]);
    Ok(())
}

/// What a pause has parked stays away while the pause is there, however often relays tend.
pub async fn nothing_comes_back_before_its_pause_has_ended<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?, message("2").build()?]).await?;
    let owner = stage.owner().await?;
    stage.store.pause(&topic()?, "the partner moves").await?;
    stage.store.pause(&PauseScope::key("k")?, "").await?;
    park(&owner, &["1", "2"], &for_pause()?).await?;
    for _ in 0..3 {
        let tended = tend(&owner, &[]).await?;
        assert_eq!((tended.recalled, tended.pauses.len()), (0, 2));
        let scope = topic()?;
        let pause = tended.pauses.iter().find(|pause| pause.scope == scope);
        assert_eq!(pause.map(|pause| pause.reason.as_str()), Some("the partner moves"));
    }
    assert!(owner.rows().await?.is_empty());
    assert_eq!(stage.place("1").await?, Some(Place::Paused));
    assert_eq!(stage.store.resume(None).await?, 2);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.paused, stats.pending, stats.due, stats.postponed), (0, 2, 2, 2));
    assert_eq!(stage.place("1").await?, Some(Place::Postponed), "it is about to come back");
    let tended = tend(&owner, &[]).await?;
    assert_eq!((tended.recalled, tended.pauses.len()), (2, 0));
    assert_eq!(owner.ids().await?, ["1", "2"]);
    Ok(())
}

/// A target takes back what it has room for, lowest seqs first; a mark that no relay knows comes back.
pub async fn a_target_takes_back_what_it_has_room_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let ids = ["1", "2", "3", "4"];
    stage.send(&ids.map(|id| message(id).build()).into_iter().collect::<Result<Vec<_>>>()?).await?;
    let owner = stage.owner().await?;
    park(&owner, &["1", "2", "3"], &for_target("mail")).await?;
    park(&owner, &["4"], &for_target("was-renamed")).await?;
    assert_eq!(tend(&owner, &[("mail", 0), ("was-renamed", 0)]).await?.recalled, 0);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.pending, stats.due, stats.postponed, stats.retrying), (4, 4, 4, 0));
    assert_eq!(stage.place("1").await?, Some(Place::Postponed));
    assert_eq!(tend(&owner, &[("mail", 2)]).await?.recalled, 3, "two of the one, all of the other");
    let mut ids = owner.ids().await?;
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2", "4"]);
    assert_eq!(tend(&owner, &[("mail", 2)]).await?.recalled, 1);
    assert_eq!(stage.store.stats().await?.postponed, 0);
    Ok(())
}

/// Only the owner of a lane brings its rows back: another relay may think otherwise of a target.
pub async fn another_relay_brings_nothing_back<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    park(&owner, &["1"], &for_target("mail")).await?;
    let mut other = stage.relay().await?;
    assert_eq!(tend(&other, &[("mail", 9)]).await?.recalled, 0, "it owns no lane");
    other.store.lease(&other.request(LONG, Ask::Nothing)).await?;
    assert_eq!(tend(&other, &[("mail", 9)]).await?.recalled, 0);
    stage.lapse(&owner).await?;
    stage
        .eventually("a take-over", async || {
            let grant = other.clone().lease(LONG).await?;
            Ok((grant.lanes.len() == usize::from(S::FACTS.lanes)).then_some(()))
        })
        .await?;
    other.lease(LONG).await?;
    assert_eq!(tend(&other, &[("mail", 9)]).await?.recalled, 1);
    assert_eq!(other.ids().await?, ["1"]);
    Ok(())
}

/// Pauses are kept with reason and time, told to every relay, and counted.
pub async fn pauses_are_kept_and_counted<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    assert!(stage.store.pauses().await?.is_empty());
    let key = PauseScope::key("o'hara:\u{1F600}")?;
    assert!(stage.store.pause(&key, "").await?);
    assert!(stage.store.pause(&topic()?, "first").await?);
    assert!(!stage.store.pause(&topic()?, "second").await?, "it was paused before");
    assert!(stage.store.pause(&PauseScope::target("mail")?, &"r".repeat(9_999)).await?);
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    park(&owner, &["1"], &for_pause()?).await?;
    owner.hold_blocked(2).await?;
    let pauses = stage.subject.open().await?.pauses().await?;
    let mut seen: Vec<_> =
        pauses.iter().map(|one| (one.kind, one.name.as_str(), one.parked, one.held)).collect();
    seen.sort_unstable();
    let expected =
        [("key", "o'hara:\u{1F600}", 0, 0), ("target", "mail", 0, 0), ("topic", "suite.>", 1, 2)];
    assert_eq!(seen, expected);
    let reason = |kind: &str| pauses.iter().find(|one| one.kind == kind).map(|one| &one.reason);
    assert_eq!(reason("topic").map(String::as_str), Some("second"));
    assert_eq!(reason("target").map(String::len), Some(500), "a reason has an end");
    let age = stage.subject.now().await?.duration_since(pauses[0].paused_at);
    assert!(age.as_secs().abs() < 60, "{age}");
    let stats = stage.store.stats().await?;
    assert_eq!((stats.paused, stats.held, stats.pending, stats.due), (1, 2, 0, 0));
    assert_eq!(stats.oldest_due_ms, None);
    assert_eq!(stage.store.resume(Some(&PauseScope::key("unknown")?)).await?, 0);
    assert_eq!(stage.store.resume(Some(&key)).await?, 1);
    assert_eq!(stage.store.pauses().await?.len(), 2);
    Ok(())
}

/// A relay that has lost its lanes parks nothing; that something was published is a fact.
pub async fn a_late_parking_is_fenced_and_a_late_publish_is_not<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let late = stage.owner().await?;
    let row = late.row("1").await?;
    stage.lapse(&late).await?;
    let owner = stage.owner().await?;
    let settled = late.settle(&row, for_target("mail")).await?;
    assert_eq!(settled.fenced, [row.seq]);
    assert_eq!(owner.ids().await?, ["1", "2"], "nothing has changed");
    park(&owner, &["1"], &for_target("mail")).await?;
    owner.hold_blocked(1).await?;
    assert_eq!(late.settle(&row, published(false)).await?.published, 1);
    assert_eq!(tend(&owner, &[]).await?.recalled, 0, "it is gone");
    assert_eq!(stage.store.stats().await?.postponed, 0);
    assert_eq!(owner.drain().await?, ["2"], "its follower waits for nothing any more");
    Ok(())
}

/// A parked row can have any other verdict later, and is parked no more then.
pub async fn a_parked_row_that_gets_another_verdict_is_parked_no_more<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?, message("2").build()?]).await?;
    let owner = stage.owner().await?;
    let rows = [owner.row("1").await?, owner.row("2").await?];
    park(&owner, &["1", "2"], &for_target("mail")).await?;
    owner.settle(&rows[0], retry(SHORT)).await?;
    owner.settle(&rows[1], quarantined()).await?;
    assert_eq!(stage.place("2").await?, Some(Place::Quarantined));
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    assert_eq!(row.attempts, 1);
    assert_eq!(tend(&owner, &[]).await?.recalled, 0);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.postponed, stats.quarantined, stats.pending), (0, 1, 1));
    owner.settle(&rows[1], for_target("mail")).await?;
    assert_eq!(stage.place("2").await?, Some(Place::Quarantined), "it is not parked out of there");
    Ok(())
}

/// However much is parked, looks and tending stay bounded, and what comes back is in order.
pub async fn parked_rows_fill_no_look_and_come_back_in_bounded_steps<S: Subject>() -> Result<()> {
    const ROWS: usize = 2_500;
    let stage = Stage::<S>::new().await?;
    let ids: Vec<String> = (0..ROWS).map(|n| format!("{n:05}")).collect();
    let messages: Vec<_> =
        ids.iter().map(|id| message(id).key(id).build()).collect::<Result<_>>()?;
    stage.send(&messages).await?;
    let owner = stage.owner().await?;
    stage.store.pause(&topic()?, "").await?;
    let outcome = for_pause()?;
    loop {
        let rows = owner.rows().await?;
        if rows.is_empty() {
            break;
        }
        let verdicts: Vec<Verdict> =
            rows.iter().map(|row| owner.verdict(row, outcome.clone())).collect();
        owner.store.settle(&owner.id, &verdicts).await?;
    }
    stage.send_keyed("new", &["new"]).await?;
    assert_eq!(owner.ids().await?, ["new"], "a look goes past them");
    stage.store.resume(None).await?;
    let mut back = 0;
    for expected in [1_000, 1_000, 500, 0] {
        let tended = tend(&owner, &[]).await?;
        assert_eq!(tended.recalled, expected);
        back += tended.recalled;
    }
    assert_eq!(back, ROWS as u64);
    let store = Arc::clone(&owner.store);
    assert_eq!(store.stats().await?.paused, 0);
    let drained = owner.drain().await?;
    assert_eq!(drained.len(), ROWS + 1);
    Ok(())
}
