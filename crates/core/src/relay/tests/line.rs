//! The line of all rows in a strict window, and rows that hold nobody in any.

use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::lane::Lane;
use crate::message::Message;
use crate::relay::window::{Offer, Offered, Window};

fn offer(seq: i64, key: Option<&str>, look: u64) -> Offer {
    let message = Message::builder("test", "t").body("body").build().expect("valid");
    Offer {
        look,
        looks_begun: 0,
        seq,
        lane: Lane(u16::try_from(seq % 3).expect("small")),
        epoch: 1,
        key: key.map(Arc::from),
        attempts: 0,
        outlet: 0,
        due: None,
        blocker: false,
        waiting: false,
        message: Some(Arc::new(message)),
    }
}

fn next(window: &mut Window) -> Option<i64> {
    window.next(0).map(|(seq, _)| seq)
}

#[test]
fn in_one_line_one_message_is_in_flight_whatever_its_key() {
    let mut window = Window::strict(1);
    window.offer(offer(1, Some("a"), 1));
    window.offer(offer(2, None, 1));
    window.offer(offer(3, Some("b"), 1));
    for seq in 1..=3 {
        assert_eq!(next(&mut window), Some(seq));
        assert_eq!(next(&mut window), None);
        assert!(window.confirmed(seq).is_some());
    }
}

#[test]
fn a_row_that_committed_late_goes_before_what_has_not_begun() {
    let mut window = Window::strict(1);
    window.offer(offer(5, None, 1));
    window.offer(offer(7, None, 1));
    window.offer(offer(2, Some("a"), 2));
    assert_eq!(next(&mut window), Some(2), "5 was first in line and had not begun");
    window.offer(offer(1, None, 3));
    window.confirmed(2);
    assert_eq!(next(&mut window), Some(1));
    window.confirmed(1);
    assert_eq!(next(&mut window), Some(5));
    window.back(5, true, true);
    window.offer(offer(4, None, 4));
    assert_eq!(next(&mut window), Some(4));
    window.confirmed(4);
    assert_eq!(next(&mut window), Some(5));
    window.confirmed(5);
    assert_eq!(next(&mut window), Some(7));
}

#[test]
fn in_one_line_a_failure_forgets_everything_and_refuses_it_until_it_is_settled() {
    let mut window = Window::strict(1);
    for seq in 1..=4 {
        window.offer(offer(seq, None, 1));
    }
    assert_eq!(next(&mut window), Some(1));
    assert_eq!(window.failed(1).len(), 3, "they are read again, from three lanes");
    assert_eq!(window.offer(offer(2, None, 2)), Offered::Refused);
    window.settled(1, 7);
    assert_eq!(window.offer(offer(2, Some("x"), 7)), Offered::Refused, "look 7 may be older");
    assert_eq!(window.offer(offer(1, None, 8)), Offered::Known);
    window.looks_ended(7);
    assert_eq!(window.offer(offer(1, None, 8)), Offered::Taken);
}

#[test]
fn in_one_line_nothing_passes_what_a_blocker_held() {
    let mut window = Window::strict(1);
    window.offer(Offer { blocker: true, waiting: true, ..offer(1, Some("k"), 1) });
    window.offer(offer(9, None, 1));
    assert_eq!(next(&mut window), Some(1));
    let confirmed = window.confirmed(1).expect("it was there");
    assert_eq!((confirmed.releases, confirmed.forgotten.len()), (true, 1));
    assert_eq!(next(&mut window), None, "2 may be held, and is let go by the settlement");
}

#[test]
fn a_failure_that_holds_nobody_lets_its_keys_next_go() {
    let mut window = Window::new(1);
    for seq in 1..=3 {
        window.offer(offer(seq, Some("k"), 1));
    }
    assert_eq!(next(&mut window), Some(1));
    assert_eq!(next(&mut window), None);
    window.passed(1);
    assert_eq!(next(&mut window), Some(2));
    window.settled(1, 1);
    window.looks_ended(1);
    assert_eq!(window.offer(offer(1, Some("k"), 2)), Offered::Taken, "it comes again, behind");
    window.confirmed(2);
    assert_eq!(next(&mut window), Some(3));
    window.confirmed(3);
    assert_eq!(next(&mut window), Some(1));
}

#[derive(Debug, Clone)]
enum Event {
    Offer,
    Late(usize),
    Next,
    Confirm,
    Pass,
    Back(bool),
    Forget,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Offer),
        1 => any::<usize>().prop_map(Event::Late),
        4 => Just(Event::Next),
        4 => Just(Event::Confirm),
        1 => Just(Event::Pass),
        1 => any::<bool>().prop_map(Event::Back),
        1 => Just(Event::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_lowest_seq_that_is_remembered_is_always_next(
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let mut window = Window::strict(1);
        let mut waiting: std::collections::BTreeSet<i64> = std::collections::BTreeSet::new();
        let mut gone: std::collections::BTreeSet<i64> = std::collections::BTreeSet::new();
        let (mut flying, mut top) = (None, 0);
        for event in events {
            match event {
                Event::Offer | Event::Late(_) => {
                    // Every tenth seq first; what lies between commits late.
                    let seq = match event {
                        Event::Late(n) if top > 0 => 1 + i64::try_from(n % 1_000).expect("small") % top,
                        _ => top + 10,
                    };
                    top = top.max(seq);
                    if !gone.contains(&seq) && flying != Some(seq)
                        && window.offer(offer(seq, Some(["a", "b"][usize::from(seq % 2 == 0)]), 1)) == Offered::Taken
                    {
                        waiting.insert(seq);
                    }
                }
                Event::Next => {
                    let next = next(&mut window);
                    if flying.is_some() {
                        assert_eq!(next, None);
                    } else {
                        assert_eq!(next, waiting.first().copied());
                        flying = next;
                        waiting.pop_first();
                    }
                }
                Event::Confirm | Event::Pass => {
                    if let Some(seq) = flying.take() {
                        match event {
                            Event::Pass => window.passed(seq),
                            _ => assert!(window.confirmed(seq).is_some()),
                        }
                        gone.insert(seq);
                    }
                }
                Event::Back(unknown) => {
                    if let Some(seq) = flying.take() {
                        window.back(seq, unknown, true);
                        waiting.insert(seq);
                    }
                }
                Event::Forget => {
                    window.forget_queued(false, |lane| lane == Lane(0));
                    waiting.retain(|seq| seq % 3 != 0);
                }
            }
        }
    }
}
