//! Leases: one owner for each lane, a fair share for each relay, an epoch for each change (G6).

use std::collections::{BTreeSet, HashMap};

use sendoff_core::store::{Ask, LaneLease, LeaseGrant};
use sendoff_core::{Error, Result};

use super::stage::{LONG, Owner, SHORT, Stage};
use super::subject::Subject;

/// A relay that is alone gets every lane.
pub async fn the_only_relay_gets_every_lane<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut owner = stage.relay().await?;
    let grant = owner.lease(LONG).await?;
    assert_eq!(grant.lanes_total, S::FACTS.lanes);
    assert_eq!(grant.share, usize::from(S::FACTS.lanes));
    assert_eq!(grant.relays, 1);
    let lanes: BTreeSet<u16> = grant.lanes.iter().map(|lease| lease.lane.0).collect();
    assert_eq!(lanes, (0..S::FACTS.lanes).collect());
    assert!(grant.lanes.iter().all(|lease| lease.epoch > 0));
    Ok(())
}

/// A second relay waits until the first gives back what is beyond its share.
pub async fn lanes_are_shared_when_a_relay_joins<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut first = stage.owner().await?;
    let mut second = stage.relay().await?;
    let grant = second.lease(LONG).await?;
    assert!(grant.lanes.is_empty(), "every lane is leased");
    assert_eq!(grant.relays, 2);
    let share = usize::from(S::FACTS.lanes).div_ceil(2);
    assert_eq!(grant.share, share);
    let grant = first.lease(LONG).await?;
    assert_eq!(grant.lanes.len(), usize::from(S::FACTS.lanes), "nothing is taken from it");
    assert_eq!((grant.share, grant.relays), (share, 2));
    let grant = first.shrink_to(share).await?;
    assert_eq!(grant.lanes.len(), share);
    let grant = second.lease(LONG).await?;
    assert_eq!(grant.lanes.len(), usize::from(S::FACTS.lanes) - share);
    one_owner_each::<S>(&[&first, &second]);
    Ok(())
}

/// A relay that died is followed once its leases have lapsed, under the next epoch.
pub async fn a_lapsed_lease_is_taken_over_under_the_next_epoch<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let dead = stage.owner().await?;
    let mut heir = stage.relay().await?;
    assert!(heir.lease(LONG).await?.lanes.is_empty());
    stage.lapse(&dead).await?;
    let grant = heir.lease(LONG).await?;
    assert_eq!(grant.relays, 1, "the dead one does not count");
    assert_eq!(grant.lanes.len(), usize::from(S::FACTS.lanes));
    for lease in &grant.lanes {
        assert_eq!(lease.epoch, epoch_of(&dead.lanes, lease) + 1);
    }
    Ok(())
}

/// A renewal changes no epoch.
pub async fn a_renewal_keeps_the_epoch<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut owner = stage.owner().await?;
    let before = owner.lanes.clone();
    for _ in 0..3 {
        owner.lease(LONG).await?;
        assert_eq!(owner.lanes, before);
    }
    Ok(())
}

/// A renewal lasts for the whole ttl from then on.
pub async fn a_renewal_prolongs_the_lease<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut owner = stage.relay().await?;
    owner.lease(SHORT).await?;
    owner.lease(LONG).await?;
    stage.subject.pass(SHORT * 2).await;
    let mut other = stage.relay().await?;
    assert!(other.lease(LONG).await?.lanes.is_empty());
    Ok(())
}

/// A relay that was late, but whom nobody followed, goes on under its epoch.
pub async fn a_lapsed_lease_that_nobody_took_is_renewed_under_its_epoch<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    let mut owner = stage.owner().await?;
    let before = owner.lanes.clone();
    stage.lapse(&owner).await?;
    assert_eq!(stage.store.stats().await?.lanes_leased, 0);
    owner.lease(LONG).await?;
    assert_eq!(owner.lanes, before);
    assert_eq!(stage.store.stats().await?.lanes_leased, u64::from(S::FACTS.lanes));
    Ok(())
}

/// A relay that wakes up after it was followed gets nothing back by asking to keep it.
pub async fn a_lease_that_another_took_is_not_renewed<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut late = stage.owner().await?;
    stage.lapse(&late).await?;
    let mut heir = stage.owner().await?;
    let before = heir.lanes.clone();
    let grant = late.lease(LONG).await?;
    assert!(grant.lanes.is_empty());
    assert_eq!(grant.relays, 2);
    heir.lease(LONG).await?;
    assert_eq!(heir.lanes, before);
    Ok(())
}

/// Nor does it give away, or move the floor of, what is not its own any more.
pub async fn a_late_release_or_floor_changes_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut late = stage.owner().await?;
    stage.lapse(&late).await?;
    let mut heir = stage.owner().await?;
    let before = heir.lanes.clone();
    set_floors(&mut late, 77);
    late.lease(LONG).await?;
    late.lanes.clone_from(&before);
    // Neither with the old epoch nor with the new one, which it does not hold.
    for lanes in [bump(&before, -1), before.clone()] {
        let mut request = late.request(LONG, Ask::Nothing);
        request.keep.clear();
        request.release = lanes.clone();
        for lease in &mut request.release {
            lease.floor = 88;
        }
        assert!(late.store.lease(&request).await?.lanes.is_empty());
        request.release.clear();
        request.keep = lanes;
        assert!(late.store.lease(&request).await?.lanes.is_empty());
    }
    heir.lease(LONG).await?;
    assert_eq!(heir.lanes, before);
    Ok(())
}

/// What is given back is free at once, and is taken under the next epoch.
pub async fn a_released_lane_is_free_at_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut owner = stage.owner().await?;
    let before = owner.lanes.clone();
    let mut request = owner.request(LONG, Ask::Nothing);
    request.release = std::mem::take(&mut request.keep);
    assert!(owner.store.lease(&request).await?.lanes.is_empty());
    owner.lanes.clear();
    assert_eq!(stage.store.stats().await?.lanes_leased, 0);
    let grant = owner.lease(LONG).await?;
    for lease in &grant.lanes {
        assert_eq!(lease.epoch, epoch_of(&before, lease) + 1);
    }
    Ok(())
}

/// A floor is kept with its lane, by a renewal and by a release, and the next owner gets it.
pub async fn floors_are_handed_on<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut first = stage.owner().await?;
    assert!(first.lanes.iter().all(|lease| lease.floor == 0));
    set_floors(&mut first, 1_000);
    let grant = first.lease(LONG).await?;
    assert_floors(&grant, 1_000);
    stage.lapse(&first).await?;
    let mut second = stage.owner().await?;
    assert_floors_of(&second, 1_000);
    set_floors(&mut second, 2_000);
    let mut request = second.request(LONG, Ask::Leave);
    request.release = std::mem::take(&mut request.keep);
    second.store.lease(&request).await?;
    let third = stage.owner().await?;
    assert_floors_of(&third, 2_000);
    Ok(())
}

/// A relay that leaves does not count any more, and what it still keeps stays its own until it
/// lapses: something of it may be in flight.
pub async fn a_relay_that_leaves_keeps_what_is_in_flight_until_it_lapses<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut leave = owner.request(LONG, Ask::Leave);
    // Of an odd number the larger half, so that a store of one lane keeps something too.
    leave.release = leave.keep.split_off(leave.keep.len().div_ceil(2));
    let (kept, released) = (leave.keep.len(), leave.release.len());
    owner.store.lease(&leave).await?;
    let stats = stage.store.stats().await?;
    assert_eq!(stats.relays, 0);
    assert_eq!(stats.lanes_leased, u64::try_from(kept).unwrap_or(u64::MAX));
    let mut other = stage.relay().await?;
    let grant = other.lease(LONG).await?;
    assert_eq!(grant.relays, 1);
    assert_eq!(grant.lanes.len(), released);
    leave.release.clear();
    leave.ttl = SHORT;
    owner.store.lease(&leave).await?;
    let all = stage
        .eventually("what it kept lapses", || async {
            let grant = other.store.lease(&other.request(LONG, Ask::Share)).await?;
            Ok((grant.lanes.len() == usize::from(S::FACTS.lanes)).then_some(grant))
        })
        .await?;
    assert_eq!(all.relays, 1);
    Ok(())
}

/// A relay that is stopping renews what it has and takes nothing.
pub async fn a_relay_that_asks_for_nothing_takes_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.relay().await?;
    let grant = owner.store.lease(&owner.request(LONG, Ask::Nothing)).await?;
    assert!(grant.lanes.is_empty());
    assert_eq!(grant.relays, 1, "it is live");
    let mut owner = stage.relay().await?;
    owner.lease(LONG).await?;
    let had = owner.lanes.len();
    let grant = owner.store.lease(&owner.request(LONG, Ask::Nothing)).await?;
    assert_eq!(grant.lanes.len(), had);
    Ok(())
}

/// After a call whose answer was lost, the next answer tells what it took, and every lane of an
/// answer lasts for the whole ttl.
pub async fn a_lost_answer_loses_no_lane<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut owner = stage.relay().await?;
    let lost = owner.store.lease(&owner.request(SHORT, Ask::Share)).await?;
    assert_eq!(lost.lanes.len(), usize::from(S::FACTS.lanes));
    let told = owner.lease(LONG).await?;
    stage.subject.pass(SHORT * 2).await;
    let mut other = stage.relay().await?;
    let grant = other.lease(LONG).await?;
    let held: BTreeSet<u16> = told.lanes.iter().map(|lease| lease.lane.0).collect();
    for lease in &grant.lanes {
        assert!(!held.contains(&lease.lane.0), "lane {} has two owners", lease.lane);
    }
    // None is left without an owner either.
    owner.lease(LONG).await?;
    one_owner_each::<S>(&[&owner, &other]);
    Ok(())
}

/// Relays that come and go end with a fair share each, every lane owned once.
pub async fn several_relays_rebalance<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut relays: Vec<Owner> = Vec::new();
    for joined in 1..=4_usize {
        relays.push(stage.relay().await?);
        balance(&mut relays).await?;
        assert_balanced::<S>(&relays, joined);
    }
    // One dies, one leaves in order.
    let dead = relays.remove(0);
    stage.lapse(&dead).await?;
    let leaver = relays.remove(0);
    let mut leave = leaver.request(LONG, Ask::Leave);
    leave.release = std::mem::take(&mut leave.keep);
    leaver.store.lease(&leave).await?;
    balance(&mut relays).await?;
    assert_balanced::<S>(&relays, 2);
    Ok(())
}

/// Relays that ask at the same moment never get one lane under one epoch twice, nor one lane twice
/// at all while the leases last.
pub async fn relays_that_ask_at_once_get_different_lanes<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let mut relay = stage.relay().await?;
        tasks.spawn(async move {
            for _ in 0..4 {
                let grant = relay.lease(LONG).await?;
                relay.shrink_to(grant.share).await?;
            }
            Ok::<Owner, Error>(relay)
        });
    }
    let mut relays = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(relay) => relays.push(relay?),
            Err(panicked) => panic!("a relay ended badly: {panicked}"),
        }
    }
    balance(&mut relays).await?;
    assert_balanced::<S>(&relays, 5);
    Ok(())
}

/// Two rounds: those who have too much give back, then all take.
async fn balance(relays: &mut [Owner]) -> Result<()> {
    for relay in relays.iter_mut() {
        relay.lease(LONG).await?;
    }
    for _ in 0..2 {
        for relay in relays.iter_mut() {
            let grant = relay.lease(LONG).await?;
            relay.shrink_to(grant.share).await?;
        }
    }
    Ok(())
}

fn assert_balanced<S: Subject>(relays: &[Owner], live: usize) {
    let share = usize::from(S::FACTS.lanes).div_ceil(live);
    for relay in relays {
        assert!(relay.lanes.len() <= share, "{} of {share}", relay.lanes.len());
    }
    let all: Vec<&Owner> = relays.iter().collect();
    one_owner_each::<S>(&all);
}

fn one_owner_each<S: Subject>(relays: &[&Owner]) {
    let mut owners: HashMap<u16, usize> = HashMap::new();
    for relay in relays {
        for lease in &relay.lanes {
            *owners.entry(lease.lane.0).or_default() += 1;
        }
    }
    assert_eq!(owners.len(), usize::from(S::FACTS.lanes), "every lane is owned");
    assert!(owners.values().all(|count| *count == 1), "by one relay");
}

fn epoch_of(lanes: &[LaneLease], of: &LaneLease) -> i64 {
    lanes.iter().find(|lease| lease.lane == of.lane).map_or(i64::MIN, |lease| lease.epoch)
}

fn set_floors(owner: &mut Owner, base: i64) {
    for lease in &mut owner.lanes {
        lease.floor = base + i64::from(lease.lane.0);
    }
}

fn assert_floors(grant: &LeaseGrant, base: i64) {
    for lease in &grant.lanes {
        assert_eq!(lease.floor, base + i64::from(lease.lane.0));
    }
}

fn assert_floors_of(owner: &Owner, base: i64) {
    assert!(!owner.lanes.is_empty());
    for lease in &owner.lanes {
        assert_eq!(lease.floor, base + i64::from(lease.lane.0));
    }
}

fn bump(lanes: &[LaneLease], by: i64) -> Vec<LaneLease> {
    lanes.iter().map(|lease| LaneLease { epoch: lease.epoch + by, ..*lease }).collect()
}
