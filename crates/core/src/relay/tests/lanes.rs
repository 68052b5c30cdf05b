//! Floors move only over what was seen and is remembered.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lane::Lane;
use crate::relay::lanes::{Lanes, Looked};
use crate::store::{Horizon, LaneLease};

const LANE: Lane = Lane(3);

fn owned() -> Lanes {
    let mut lanes = Lanes::default();
    let (gained, lost) = lanes.granted(&[LaneLease { lane: LANE, epoch: 1, floor: 0 }]);
    assert_eq!((gained, lost), (vec![LANE], vec![]));
    lanes
}

struct See {
    number: u64,
    from: i64,
    seqs: Vec<i64>,
    truncated: bool,
    horizon: Horizon,
    at_ms: u64,
}

fn look(lanes: &mut Lanes, see: See, lowest: Option<i64>) -> (i64, i64) {
    let places: Vec<(Lane, i64)> = see.seqs.into_iter().map(|seq| (LANE, seq)).collect();
    let lowest: BTreeMap<Lane, i64> = lowest.map(|seq| (LANE, seq)).into_iter().collect();
    lanes.looked(
        &Looked {
            number: see.number,
            from: &[(LANE, see.from)],
            places: &places,
            truncated: see.truncated,
            horizon: Some(see.horizon),
            at: Duration::from_millis(see.at_ms),
        },
        &lowest,
    );
    let owned = lanes.get(LANE).expect("it is owned");
    (owned.floor, owned.position)
}

fn see(number: u64, from: i64, seqs: &[i64], horizon: (i64, u64, u64), at_ms: u64) -> See {
    let (seq, oldest, next) = horizon;
    See {
        number,
        from,
        seqs: seqs.to_vec(),
        truncated: false,
        horizon: Horizon { seq, oldest, next },
        at_ms,
    }
}

#[test]
fn a_floor_waits_for_transactions_that_were_running() {
    let mut lanes = owned();
    // Seq 4 was drawn by transaction 50, which is still running; 5 has committed.
    assert_eq!(look(&mut lanes, see(1, 0, &[5], (5, 50, 60), 0), None), (0, 5));
    // A second later it still runs: the floor stays, though nothing else is left.
    assert_eq!(look(&mut lanes, see(2, 0, &[], (5, 50, 70), 2_000), None), (0, 5));
    // It committed: a look from the floor sees seq 4, which is remembered, so the floor is below it.
    assert_eq!(look(&mut lanes, see(3, 0, &[4], (5, 70, 70), 4_000), Some(4)), (3, 5));
    // Once 4 is settled the floor goes up to what was drawn before the first look.
    assert_eq!(look(&mut lanes, see(4, 3, &[], (5, 70, 70), 6_000), None), (5, 5));
}

#[test]
fn a_seq_counts_only_a_second_after_it_was_drawn() {
    let mut lanes = owned();
    assert_eq!(look(&mut lanes, see(1, 0, &[9], (9, 10, 10), 0), None).0, 0);
    assert_eq!(look(&mut lanes, see(2, 0, &[], (9, 10, 10), 999), None).0, 0);
    assert_eq!(look(&mut lanes, see(3, 0, &[], (9, 10, 10), 1_000), None).0, 9);
}

#[test]
fn a_look_from_the_position_moves_no_floor() {
    let mut lanes = owned();
    assert_eq!(look(&mut lanes, see(1, 0, &[5], (5, 10, 10), 0), Some(5)), (0, 5));
    assert_eq!(look(&mut lanes, see(2, 5, &[], (5, 20, 20), 5_000), None), (0, 5));
}

#[test]
fn a_look_that_a_bound_cut_short_moves_the_floor_only_as_far_as_it_saw() {
    let mut lanes = owned();
    look(&mut lanes, see(1, 0, &[100], (100, 10, 10), 0), None);
    let cut = See { truncated: true, ..see(2, 0, &[7], (100, 20, 20), 2_000) };
    assert_eq!(look(&mut lanes, cut, None).0, 7);
    let nothing = See { truncated: true, ..see(3, 7, &[], (100, 20, 20), 4_000) };
    assert_eq!(look(&mut lanes, nothing, None).0, 7);
}

#[test]
fn what_was_forgotten_during_a_look_keeps_the_floor_where_it_is() {
    let mut lanes = owned();
    look(&mut lanes, see(1, 0, &[5], (9, 10, 10), 0), Some(5));
    lanes.forgot(LANE, 2);
    assert_eq!(lanes.get(LANE).expect("owned").position, 0, "it is read again from the floor");
    assert_eq!(look(&mut lanes, see(2, 0, &[], (9, 10, 10), 2_000), None).0, 0);
    assert_eq!(look(&mut lanes, see(3, 0, &[5], (9, 10, 10), 2_000), Some(5)).0, 4);
}

#[test]
fn what_is_let_go_pulls_the_floor_down() {
    let mut lanes = owned();
    look(&mut lanes, see(1, 0, &[50], (50, 10, 10), 0), None);
    assert_eq!(look(&mut lanes, see(2, 0, &[], (50, 10, 10), 2_000), None).0, 50);
    lanes.let_go_above(LANE, 20, 2);
    let owned = lanes.get(LANE).expect("owned");
    assert_eq!((owned.floor, owned.position), (20, 20));
}

#[test]
fn another_epoch_is_another_lease() {
    let mut lanes = owned();
    let again = LaneLease { lane: LANE, epoch: 3, floor: 8 };
    let (gained, lost) = lanes.granted(&[again]);
    assert_eq!((gained, lost), (vec![LANE], vec![LANE]));
    let owned = lanes.get(LANE).expect("owned");
    assert!(owned.fresh && owned.epoch == 3 && owned.floor == 8);
}

#[test]
fn a_look_beside_which_rows_were_forgotten_moves_no_position() {
    let mut lanes = owned();
    look(&mut lanes, see(1, 0, &[5], (9, 10, 10), 0), Some(5));
    // Look 2 is under way, far above, when rows below become ready again.
    lanes.let_go_above(LANE, 3, 2);
    assert_eq!(look(&mut lanes, see(2, 5, &[20_000], (20_000, 20, 20), 100), Some(6)).1, 0);
    // The next one begins at the floor and sees all of them.
    let position = look(&mut lanes, see(3, 0, &[4, 5, 20_000], (20_000, 20, 20), 200), Some(4)).1;
    assert_eq!(position, 20_000);
}

#[test]
fn a_seq_above_every_row_that_was_seen_does_not_count() {
    let mut lanes = owned();
    // Seqs up to 70 were drawn; of the rows only 65 has committed and was seen.
    assert_eq!(look(&mut lanes, see(1, 0, &[65], (70, 50, 60), 0), Some(65)), (0, 65));
    // The database crashed and went back: its next seqs are 67 and so on, of new transactions. All
    // that ran before are over, which says nothing about seqs that are given out again.
    assert_eq!(look(&mut lanes, see(2, 0, &[], (66, 80, 81), 2_000), None), (65, 65));
    assert_eq!(look(&mut lanes, see(3, 65, &[67], (67, 82, 83), 2_100), Some(67)), (65, 67));
}
