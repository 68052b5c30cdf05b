//! The scripted target: each act, in order, and what it counts.

use std::time::Duration;

use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::publisher::{PublishClass, PublisherLimits};
use sendoff_core::{Message, PublishError, Publisher};

fn message(id: &str) -> Message {
    Message::builder("shop", "orders").id(id).key("k").body("12345").build().expect("valid")
}

fn refusal() -> PublishError {
    PublishError::failed("busy")
}

#[tokio::test]
async fn rules_are_used_in_their_order_and_used_up() {
    let target = MemoryPublisher::new();
    target.next(1, On::Id("2".to_owned()), Act::Refuse(PublishError::permanent("never")));
    target.next(2, On::Any, Act::Refuse(refusal()));
    target.always(On::Topic("elsewhere".to_owned()), Act::Refuse(refusal()));
    let mut classes = Vec::new();
    for id in ["1", "2", "2", "2", "1"] {
        classes.push(target.publish(&message(id)).await.err().map(|error| error.class()));
    }
    let (failed, never) = (Some(PublishClass::Failed), Some(PublishClass::Permanent));
    assert_eq!(classes, [failed, never, failed, None, None]);
    assert_eq!(target.ids(), ["2", "1"]);
    target.next(1, On::Key("k".to_owned()), Act::Refuse(refusal()));
    target.clear();
    assert!(target.publish(&message("3")).await.is_ok());
}

#[tokio::test]
async fn a_message_can_be_taken_although_the_answer_is_lost() {
    let target = MemoryPublisher::new();
    let lost = PublishError::new(PublishClass::Lost, "the connection ended");
    target.next(1, On::Any, Act::TakeAndFail(lost.clone()));
    assert_eq!(target.publish(&message("1")).await, Err(lost));
    target.publish(&message("1")).await.unwrap();
    let repeated: Vec<bool> = target.deliveries().iter().map(|taken| taken.repeated).collect();
    assert_eq!(repeated, [false, true]);
    assert_eq!(target.tally().repeated, 1);
}

#[tokio::test]
async fn a_deduplicating_target_keeps_the_first_delivery_of_an_id() {
    let target = MemoryPublisher::deduplicating();
    for id in ["1", "1", "2", "1"] {
        target.publish(&message(id)).await.unwrap();
    }
    assert_eq!(target.ids(), ["1", "2"]);
    assert_eq!(target.tally().repeated, 2);
    assert_eq!(target.deliveries()[0].dedup_id, "shop/1");
}

#[tokio::test]
async fn what_hangs_is_answered_when_it_is_let_go() {
    for (act, taken_before) in [(Act::Hang, 0), (Act::TakeAndHang, 1)] {
        let target = MemoryPublisher::new();
        target.next(1, On::Any, act);
        let hanging = tokio::spawn({
            let target = target.clone();
            async move { target.publish(&message("1")).await }
        });
        target.until(|taken, tally| tally.in_flight == 1 && taken.len() == taken_before).await;
        assert!(!hanging.is_finished());
        target.let_go();
        let ended = tokio::time::timeout(Duration::from_secs(10), hanging).await;
        ended.expect("it is answered").unwrap().unwrap();
        assert_eq!(target.ids(), ["1"]);
        assert_eq!(target.tally().in_flight, 0);
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_nothing_behind() {
    let target = MemoryPublisher::new();
    target.next(1, On::Any, Act::Hang);
    target.next(1, On::Any, Act::Delay(Duration::from_secs(3_600)));
    for _ in 0..2 {
        let call = tokio::time::timeout(Duration::from_millis(5), async {
            target.publish(&message("1")).await
        });
        assert!(call.await.is_err());
    }
    target.let_go();
    assert!(target.deliveries().is_empty());
    assert_eq!((target.tally().begun, target.tally().in_flight), (2, 0));
    target.publish(&message("1")).await.unwrap();
    assert_eq!(target.tally().key_overlaps, 0);
}

#[tokio::test(start_paused = true)]
async fn a_delay_confirms_after_its_time() {
    let target = MemoryPublisher::new();
    target.next(1, On::Any, Act::Delay(Duration::from_secs(60)));
    let begun = tokio::time::Instant::now();
    target.publish(&message("1")).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(60));
    assert_eq!(target.ids(), ["1"]);
}

#[tokio::test]
async fn two_of_one_key_in_flight_are_counted() {
    let target = MemoryPublisher::new();
    target.next(2, On::Any, Act::Hang);
    let calls: Vec<_> = ["1", "2"]
        .map(|id| {
            let target = target.clone();
            tokio::spawn(async move { target.publish(&message(id)).await })
        })
        .into();
    target.until(|_, tally| tally.in_flight == 2).await;
    target.let_go();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let tally = target.tally();
    assert_eq!((tally.key_overlaps, tally.in_flight_peak), (1, 2));
}

#[tokio::test]
async fn limits_checks_and_the_close_are_kept() {
    let limits = PublisherLimits { in_flight_max: 3, body_bytes_max: 4 };
    let target = MemoryPublisher::with(limits, false);
    assert_eq!(target.limits(), limits);
    let error = target.publish(&message("1")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Permanent);
    target.refuse_before(On::Id("2".to_owned()), "no such place");
    assert!(target.check(&message("1")).is_err(), "it is too large before the publish too");
    let small = Message::builder("shop", "orders").body("1234").build().expect("valid");
    assert!(target.check(&small).is_ok());
    let error = target.check(&message("2")).unwrap_err();
    assert_eq!((error.class(), error.detail()), (PublishClass::Permanent, "no such place"));
    target.reset().await;
    target.close().await;
    let error = target.publish(&message("3")).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable);
    let tally = target.tally();
    assert_eq!((tally.resets, tally.after_close), (1, 1));
    assert!(target.deliveries().is_empty());
}
