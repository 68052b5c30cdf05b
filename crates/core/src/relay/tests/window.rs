//! The window keeps the rule of order under any sequence of events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::lane::Lane;
use crate::message::Message;
use crate::relay::window::{Offer, Offered, Window};

fn offer(seq: i64, key: Option<&str>) -> Offer {
    offer_of_look(seq, key, u64::MAX)
}

fn offer_of_look(seq: i64, key: Option<&str>, look: u64) -> Offer {
    let message = Message::builder("test", "t").body(vec![0; 10]).build().expect("valid");
    Offer {
        look,
        looks_begun: 0,
        seq,
        lane: Lane(0),
        epoch: 1,
        key: key.map(Arc::from),
        outlet: 0,
        attempts: 0,
        blocker: false,
        waiting: false,
        due: None,
        message: Some(Arc::new(message)),
    }
}

#[test]
fn one_message_of_a_key_is_in_flight_at_a_time_and_in_order() {
    let mut window = Window::new(1);
    for seq in 1..=3 {
        assert_eq!(window.offer(offer(seq, Some("k"))), Offered::Taken);
    }
    window.offer(offer(4, None));
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(1));
    assert_eq!(
        window.next(0).map(|(seq, _)| seq),
        Some(4),
        "a message without a key waits for none"
    );
    assert!(window.next(0).is_none());
    window.confirmed(1);
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(2));
}

#[test]
fn a_failed_key_is_refused_until_its_verdict_is_settled_and_older_looks_have_ended() {
    let mut window = Window::new(1);
    window.offer(offer(1, Some("k")));
    window.offer(offer(2, Some("k")));
    let _ = window.next(0);
    assert_eq!(window.failed(1), vec![Lane(0)], "the follower is forgotten");
    assert_eq!(window.offer(offer(2, Some("k"))), Offered::Refused);
    window.settled(1, 7);
    let refused = window.offer(offer_of_look(2, Some("k"), 7));
    assert_eq!(refused, Offered::Refused, "look 7 may still show it free");
    assert_eq!(window.offer(offer_of_look(2, Some("k"), 8)), Offered::Taken);
}

#[test]
fn what_a_blocker_held_goes_before_anything_later() {
    let mut window = Window::new(1);
    window.offer(Offer { blocker: true, waiting: true, ..offer(1, Some("k")) });
    let _ = window.next(0);
    window.confirmed(1);
    // Rows 2 and 3 are held in the store. Row 4 was sent as they were let go.
    assert_eq!(window.offer(offer_of_look(4, Some("k"), 5)), Offered::Refused);
    window.settled(1, 6);
    assert_eq!(window.offer(offer_of_look(4, Some("k"), 6)), Offered::Refused);
    assert_eq!(window.offer(offer_of_look(2, Some("k"), 7)), Offered::Taken);
}

#[test]
fn a_parked_message_holds_what_is_behind_it_and_lets_go_what_is_before() {
    let mut window = Window::new(2);
    for (seq, outlet) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        window.offer(Offer { outlet, ..offer(seq, Some("k")) });
    }
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(1));
    assert_eq!(window.parked(3), vec![Lane(0)], "4 is forgotten");
    window.confirmed(1);
    assert!(window.next(0).is_none(), "2 leaves through the other outlet");
    assert_eq!(window.next(1).map(|(seq, _)| seq), Some(2));
    window.confirmed(2);
    assert!(window.next(0).is_none() && window.next(1).is_none());
    assert_eq!(window.offer(offer(4, Some("k"))), Offered::Refused);
    assert_eq!((window.rows_of(0), window.rows_of(1)), (0, 0));
}

#[test]
fn what_goes_alone_in_one_line_holds_up_no_other_line() {
    let mut window = Window::new(2);
    window.offer(offer(1, None));
    window.offer(offer(2, None));
    for _ in 0..2 {
        assert_eq!(window.next(0).map(|(seq, _)| seq), Some(1));
        window.back(1, true, true);
    }
    window.offer(Offer { outlet: 1, ..offer(3, None) });
    assert_eq!(window.next(1).map(|(seq, _)| seq), Some(3));
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(1), "alone in its own line");
    assert!(window.next(0).is_none());
    window.confirmed(3);
    window.offer(Offer { outlet: 1, ..offer(4, None) });
    assert_eq!(window.next(1).map(|(seq, _)| seq), Some(4));
}

#[test]
fn a_settled_row_stays_known_to_looks_that_began_before() {
    let mut window = Window::new(1);
    window.offer(offer(1, None));
    let _ = window.next(0);
    window.confirmed(1);
    window.settled(1, 3);
    assert_eq!(window.rows(), 0);
    assert_eq!(window.offer(offer(1, None)), Offered::Known);
    window.looks_ended(3);
    assert_eq!(window.offer(offer(1, None)), Offered::Taken, "and not for ever");
}

#[test]
fn what_was_unknown_twice_is_published_alone() {
    let mut window = Window::new(1);
    window.offer(offer(1, None));
    window.offer(offer(2, None));
    for _ in 0..2 {
        assert_eq!(window.next(0).map(|(seq, _)| seq), Some(1));
        window.back(1, true, true);
    }
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(1));
    assert!(window.next(0).is_none(), "nothing flies beside it");
    window.confirmed(1);
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(2));
}

#[test]
fn a_number_left_in_the_line_lets_no_second_message_of_a_key_go() {
    let mut window = Window::new(1);
    window.offer(offer(5, Some("k")));
    assert!(window.forget(5).is_some(), "its lane is lost, and the line still names it");
    window.offer(offer(7, Some("k")));
    window.offer(offer(5, Some("k")));
    assert_eq!(window.next(0).map(|(seq, _)| seq), Some(7));
    assert!(window.next(0).is_none(), "5 waits behind 7 now");
}

#[test]
fn a_verdict_that_changed_nothing_is_forgotten_at_once() {
    let mut window = Window::new(1);
    window.offer(Offer { message: None, ..offer(2, Some("k")) });
    window.dismissed(2, 9);
    assert!(window.known(true).is_empty(), "the next look has to find it");
    window.looks_ended(9);
    assert_eq!((window.rows(), window.settled_rows()), (0, 0));
}

#[derive(Debug, Clone)]
enum Event {
    Offer { key: u8 },
    Next { outlet: usize },
    Park(usize),
    Confirm(usize),
    Fail(usize),
    Back(usize, bool),
    Settle(usize),
    LooksEnd,
    Forget,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u8..5).prop_map(|key| Event::Offer { key }),
        4 => (0usize..2).prop_map(|outlet| Event::Next { outlet }),
        1 => any::<usize>().prop_map(Event::Park),
        3 => any::<usize>().prop_map(Event::Confirm),
        1 => any::<usize>().prop_map(Event::Fail),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, unknown)| Event::Back(n, unknown)),
        3 => any::<usize>().prop_map(Event::Settle),
        1 => Just(Event::LooksEnd),
        1 => Just(Event::Forget),
    ]
}

/// What a watcher from outside believes, from the events alone.
#[derive(Default)]
struct Watcher {
    key_of: HashMap<i64, Option<String>>,
    in_flight: BTreeSet<i64>,
    judged: BTreeMap<i64, bool>,
    first_sent: HashMap<String, i64>,
    settled: u64,
}

impl Watcher {
    fn pick(set: impl ExactSizeIterator<Item = i64>, n: usize) -> Option<i64> {
        let len = set.len();
        if len == 0 { None } else { set.skip(n % len).take(1).next() }
    }

    fn began(&mut self, seq: i64) {
        let key = self.key_of[&seq].clone();
        if let Some(key) = key {
            let rival =
                self.in_flight.iter().find(|other| self.key_of[other].as_ref() == Some(&key));
            assert_eq!(rival, None, "two of key {key} in flight");
            let holder = self
                .judged
                .iter()
                .filter(|(other, _)| **other < seq)
                .find(|(other, failed)| **failed && self.key_of[other].as_ref() == Some(&key));
            assert_eq!(holder, None, "{seq} left though an earlier one of its key has failed");
            let first = self.first_sent.entry(key).or_insert(seq);
            assert!(*first <= seq, "{seq} left after {first}");
            *first = seq;
        }
        self.in_flight.insert(seq);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_rule_of_order_holds_under_any_events(events in proptest::collection::vec(event(), 1..300)) {
        let mut window = Window::new(2);
        let mut watcher = Watcher::default();
        let mut seq = 0;
        for event in events {
            match event {
                Event::Offer { key } => {
                    seq += 1;
                    let key = (key > 0).then(|| format!("k{key}"));
                    let outlet = usize::try_from(seq % 2).expect("small");
                    let offer = Offer { outlet, ..offer(seq, key.as_deref()) };
                    if window.offer(offer) == Offered::Taken {
                        watcher.key_of.insert(seq, key);
                    }
                }
                Event::Next { outlet } => {
                    if let Some((seq, _)) = window.next(outlet) {
                        watcher.began(seq);
                    }
                }
                Event::Park(n) => {
                    let queued = window.queued_of(|_, _| true);
                    if let Some(seq) = Watcher::pick(queued.into_iter(), n) {
                        watcher.judged.insert(seq, true);
                        window.parked(seq);
                    }
                }
                Event::Confirm(n) => {
                    if let Some(seq) = Watcher::pick(watcher.in_flight.iter().copied(), n) {
                        watcher.in_flight.remove(&seq);
                        watcher.judged.insert(seq, false);
                        window.confirmed(seq);
                    }
                }
                Event::Fail(n) => {
                    if let Some(seq) = Watcher::pick(watcher.in_flight.iter().copied(), n) {
                        watcher.in_flight.remove(&seq);
                        watcher.judged.insert(seq, true);
                        window.failed(seq);
                    }
                }
                Event::Back(n, unknown) => {
                    if let Some(seq) = Watcher::pick(watcher.in_flight.iter().copied(), n) {
                        let alone = watcher.in_flight.len() == 1;
                        watcher.in_flight.remove(&seq);
                        window.back(seq, unknown, alone);
                    }
                }
                Event::Settle(n) => {
                    if let Some(seq) = Watcher::pick(watcher.judged.keys().copied(), n) {
                        watcher.judged.remove(&seq);
                        watcher.settled += 1;
                        window.settled(seq, watcher.settled);
                    }
                }
                Event::LooksEnd => window.looks_ended(watcher.settled),
                Event::Forget => drop(window.forget_queued(false, |_| true)),
            }
            assert_eq!(window.in_flight(), watcher.in_flight.len());
        }
        // However it went: once everything is settled the window is empty, with nothing counted.
        window.forget_queued(false, |_| true);
        for seq in std::mem::take(&mut watcher.in_flight) {
            window.confirmed(seq);
            watcher.judged.insert(seq, false);
        }
        for seq in watcher.judged.keys() {
            window.settled(*seq, watcher.settled + 1);
        }
        window.looks_ended(watcher.settled + 1);
        assert_eq!((window.rows(), window.bytes(), window.in_flight()), (0, 0, 0));
        assert_eq!(window.queued_in(Lane(0)), 0);
        for outlet in 0..2 {
            assert_eq!((window.rows_of(outlet), window.bytes_of(outlet)), (0, 0));
            assert_eq!(window.in_flight_of(outlet), 0);
        }
        assert_eq!(window.offer(offer(seq + 1, Some("k1"))), Offered::Taken);
    }
}
