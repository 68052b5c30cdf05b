//! Barriers through the whole relay: continuations are delivered, errands are run and not delivered.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::Wake;
use sendoff_core::barrier::{
    Ack, AckBatch, BarrierDesk, BarrierId, BarrierState, Barriers, Change, Continuation, Errand,
    MemberName, OnDeadline, Outcome, Plan, Reason,
};
use sendoff_core::memory::{Act, MemoryStore, On};
use sendoff_core::publisher::PublishError;
use sendoff_core::store::OutboxDesk;
use sendoff_core::time::Clock;

use crate::scene::{Scene, quick, until};

fn id(id: &str) -> BarrierId {
    BarrierId::new(id).expect("valid")
}

fn name(name: &str) -> MemberName {
    MemberName::new(name).expect("valid")
}

fn plan(of: &str, members: &[&str]) -> sendoff_core::barrier::PlanBuilder {
    Plan::builder(id(of)).members(members).continue_with("done")
}

async fn create(scene: &Scene, plan: sendoff_core::barrier::PlanBuilder) {
    let plan = plan.build().expect("valid");
    scene.store.create_barrier(&plan).await.expect("the store").expect("created");
}

async fn ack(scene: &Scene, of: &str, member: &str) {
    let acks = vec![Ack { member: name(member), outcome: Outcome::ok() }];
    let batch = AckBatch::new(id(of), acks);
    scene.store.ack_members(&batch).await.expect("the store").expect("acknowledged");
}

fn on(clock: &Clock) -> Scene {
    let store = MemoryStore::with_clock(clock.clone());
    Scene { store, target: sendoff_core::memory::MemoryPublisher::new(), wake: Wake::new() }
}

fn continued(scene: &Scene) -> Vec<Continuation> {
    let deliveries = scene.target.deliveries();
    deliveries
        .iter()
        .map(|delivery| Continuation::parse(delivery.message.body()).expect("a continuation"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_continuation_is_delivered_and_reads_the_results() {
    let scene = Scene::new();
    let relay = scene.relay(quick());
    create(&scene, plan("b", &["x", "y"])).await;
    let barriers = Barriers::new();
    let mut transaction = scene.store.begin();
    for member in ["x", "y"] {
        barriers.ack(&mut transaction, "b", member, Outcome::ok()).await.expect("acknowledged");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(scene.target.deliveries().is_empty(), "not before the commit");
    scene.wake.commit(transaction).await.expect("committed");
    scene.delivered(1).await;
    let delivery = scene.target.deliveries().remove(0);
    assert_eq!(delivery.message.topic(), "done");
    let continuation = Continuation::parse(delivery.message.body()).expect("a continuation");
    let mut transaction = scene.store.begin();
    let result = barriers.hydrate(&mut transaction, &continuation).await.expect("the store");
    assert_eq!(result.map(|result| result.ok_count()), Some(2));
    transaction.rollback();
    relay.stop().await;
    assert_eq!(scene.target.deliveries().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_fires_through_the_relay_and_its_errand_reaches_no_broker() {
    let clock = Clock::manual();
    let scene = on(&clock);
    let hour = Duration::from_secs(3_600);
    let asked = plan("b", &["x", "y"]).deadline(hour).on_deadline(OnDeadline::Continue);
    create(&scene, asked).await;
    ack(&scene, "b", "x").await;
    let relay = scene.relay(quick());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(scene.target.deliveries().is_empty());
    // In steps within the relay's leases, which the same clock ends.
    clock.advance(hour);
    scene.delivered(1).await;
    assert_eq!(continued(&scene)[0].reason, Some(Reason::Deadline));
    scene.settled().await;
    let status = scene.store.barrier_status(&id("b")).await.expect("the store").expect("there");
    assert_eq!((status.state, status.resolved, status.missing), (BarrierState::Deadline, 1, 1));
    relay.stop().await;
    assert!(scene.target.deliveries().iter().all(|one| one.message.topic() == "done"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ascends_through_the_relay() {
    let scene = Scene::new();
    let relay = scene.relay(quick());
    create(&scene, plan("parent", &["one", "two"])).await;
    create(&scene, plan("one", &["x"]).member_of("parent", name("one"))).await;
    create(&scene, plan("two", &["x"]).member_of("parent", name("two"))).await;
    ack(&scene, "one", "x").await;
    let cancelled = scene.store.change_barrier(&id("two"), &Change::Cancel).await;
    cancelled.expect("the store").expect("cancelled");
    scene.delivered(2).await;
    let mut ended: Vec<String> =
        continued(&scene).into_iter().map(|continuation| continuation.barrier).collect();
    ended.sort_unstable();
    assert_eq!(ended, ["one", "parent"]);
    let status = scene.store.barrier_status(&id("parent")).await.expect("the store");
    assert_eq!(status.map(|status| (status.resolved, status.failed)), Some((2, 1)));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_errand_is_run_while_the_target_is_down() {
    let clock = Clock::manual();
    let scene = on(&clock);
    let hour = Duration::from_secs(3_600);
    create(&scene, plan("b", &["x"]).deadline(hour).on_deadline(OnDeadline::Continue)).await;
    let down = Act::Refuse(PublishError::unreachable("no connection"));
    scene.target.always(On::Any, down);
    let relay = scene.relay(quick());
    clock.advance(hour);
    until("the deadline has closed it", async || {
        let status = scene.store.barrier_status(&id("b")).await.expect("the store");
        status.is_some_and(|status| status.complete)
    })
    .await;
    assert!(scene.target.deliveries().is_empty());
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_errand_is_set_aside_and_changes_nothing() {
    let scene = Scene::new();
    create(&scene, plan("b", &["x"])).await;
    let nonsense = sendoff_core::Message::builder("somebody", Errand::TOPIC)
        .reserved()
        .body("nonsense")
        .build()
        .expect("valid");
    scene.send(&[nonsense]).await;
    let relay = scene.relay(quick());
    until("it is in quarantine", async || {
        scene.store.stats().await.expect("stats").quarantined == 1
    })
    .await;
    assert!(relay.heard("quarantined"));
    let status = scene.store.barrier_status(&id("b")).await.expect("the store");
    assert_eq!(status.map(|status| status.pending), Some(1));
    relay.stop().await;
    let _: Arc<dyn BarrierDesk> = Arc::new(scene.store.another());
}
