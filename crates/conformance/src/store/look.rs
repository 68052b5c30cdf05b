//! Looks: everything that is due is given, in order, within the bounds, and nothing else (G2, G3).

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use sendoff_core::memory::PlainRow;
use sendoff_core::store::{Content, Horizon, LaneLook, Look, Row, Sight};
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, ErrorKind, Message, Result};

use super::stage::{Owner, SHORT, Stage, id_of, ids_of, message, plain};
use super::subject::{OpenTransaction, Subject};

/// In a lane, rows come in the order of their seqs.
pub async fn ready_rows_come_in_seq_order<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&spread(300)?).await?;
    let sight = stage.owner().await?.look().await?;
    assert_eq!(sight.rows.len(), 300);
    assert!(!sight.truncated);
    assert!(sight.next_due_in.is_none());
    for lane in lanes_of(&sight.rows) {
        let seqs: Vec<i64> =
            sight.rows.iter().filter(|row| row.lane.0 == lane).map(|row| row.seq).collect();
        assert!(seqs.is_sorted_by(|a, b| a < b), "lane {lane}: {seqs:?}");
    }
    Ok(())
}

/// `after` is a lane's own, and what stands at it is not given again.
pub async fn a_look_gives_what_is_above_its_lanes_mark<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&spread(100)?).await?;
    let owner = stage.owner().await?;
    let all = owner.rows().await?;
    let mark = all[all.len() / 2].clone();
    let mut look = owner.look_at_all();
    for lane in &mut look.lanes {
        if lane.lane == mark.lane {
            lane.after = mark.seq;
        }
    }
    let given = seqs(&owner.store.look(&look).await?.rows);
    let expected: BTreeSet<i64> = all
        .iter()
        .filter(|row| row.lane != mark.lane || row.seq > mark.seq)
        .map(|row| row.seq)
        .collect();
    assert_eq!(given, expected);
    Ok(())
}

/// The bound on rows holds, what is left out is told, and reading on from the marks gives all.
pub async fn a_look_is_bounded_in_rows<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&spread(95)?).await?;
    let owner = stage.owner().await?;
    let mut look = owner.look_at_all();
    look.rows_max = 10;
    let mut given = BTreeSet::new();
    for round in 1..=10 {
        let sight = owner.store.look(&look).await?;
        assert!(sight.rows.len() <= 10);
        assert!(!sight.rows.is_empty(), "round {round} gives nothing");
        assert_eq!(sight.truncated, round < 10, "round {round}");
        for row in &sight.rows {
            assert!(given.insert(row.seq), "{} is given twice", row.seq);
            advance(&mut look, row);
        }
    }
    assert_eq!(given.len(), 95);
    // As many rows as may be given leave nothing out.
    let mut look = owner.look_at_all();
    look.rows_max = 95;
    assert!(!owner.store.look(&look).await?.truncated);
    Ok(())
}

/// One lane's backlog does not crowd out the others.
pub async fn a_look_is_bounded_in_rows_of_one_lane<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..50 {
        sent.push(message(&format!("{n:03}")).key("hot").build()?);
    }
    sent.push(message("cold").key("cold").build()?);
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    let mut look = owner.look_at_all();
    look.lane_rows_max = 7;
    let sight = owner.store.look(&look).await?;
    assert!(sight.truncated);
    let hot = sight.rows.iter().filter(|row| row.key.as_deref() == Some("hot")).count();
    assert_eq!(hot, 7);
    // In a store of one lane, both keys share it.
    let cold = sight.rows.iter().any(|row| id_of(row) == Some("cold"));
    assert_eq!(cold, S::FACTS.lanes > 1);
    // A lane with exactly as many rows as may be given leaves nothing out.
    look.lane_rows_max = if S::FACTS.lanes > 1 { 50 } else { 51 };
    assert!(!owner.store.look(&look).await?.truncated);
    Ok(())
}

/// The bound on bytes holds for bodies and headers, ready and waiting rows together.
pub async fn a_look_is_bounded_in_bytes<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..20 {
        let due = n % 4 == 3;
        let mut builder =
            message(&format!("{n:03}")).header("filler", "h".repeat(5_000)).body(vec![b'b'; 5_000]);
        if due {
            builder = builder.due_at(Timestamp::UNIX_EPOCH);
        }
        sent.push(builder.build()?);
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    let mut look = owner.look_at_all();
    look.bytes_max = 55_000;
    let sight = owner.store.look(&look).await?;
    assert_eq!(sight.rows.len(), 5, "of 10,000 bytes and a little each");
    assert!(sight.truncated);
    look.ready = false;
    look.bytes_max = 35_000;
    let sight = owner.store.look(&look).await?;
    assert_eq!(sight.rows.len(), 3);
    assert_eq!(sight.next_due_in, Some(Duration::ZERO));
    Ok(())
}

/// No row is too big to leave.
pub async fn the_first_row_is_given_whatever_it_weighs<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let big = Bytes::from(vec![7_u8; 1 << 20]);
    let sent = [
        message("1").key("k").body(big.clone()).build()?,
        message("2").key("k").body(big.clone()).build()?,
        message("3").key("w").body(big).due_at(Timestamp::UNIX_EPOCH).build()?,
    ];
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    let mut look = owner.look_at_all();
    look.bytes_max = 1;
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["1"]);
    assert!(sight.truncated);
    look.ready = false;
    assert_eq!(ids_of(&owner.store.look(&look).await?.rows), ["3"]);
    Ok(())
}

/// What the relay has already is not given again, ready or waiting, and does not use up a bound.
pub async fn known_rows_are_left_out<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let due = message("4").due_at(Timestamp::UNIX_EPOCH).build()?;
    stage.send(&[due]).await?;
    let owner = stage.owner().await?;
    let all = owner.rows().await?;
    let mut look = owner.look_at_all();
    look.known = all.iter().filter(|row| id_of(row) != Some("2")).map(|row| row.seq).collect();
    look.rows_max = 1;
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["2"]);
    assert!(!sight.truncated);
    // A known row that is due says nothing of when to look next.
    assert_eq!(sight.next_due_in, None);
    Ok(())
}

/// A look marks nothing: the same look gives the same.
pub async fn a_look_changes_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&spread(20)?).await?;
    let owner = stage.owner().await?;
    let first = owner.rows().await?;
    let other = stage.relay().await?;
    let second = other.store.look(&owner.look_at_all()).await?.rows;
    assert_eq!(seqs(&first), seqs(&second));
    assert_eq!(stage.store.stats().await?.pending, 20);
    Ok(())
}

/// Only the lanes that are asked for are read.
pub async fn a_look_reads_its_own_lanes_only<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&spread(200)?).await?;
    let due = message("due").key("due").due_at(Timestamp::UNIX_EPOCH).build()?;
    stage.send(&[due]).await?;
    let owner = stage.owner().await?;
    let all = owner.rows().await?;
    for asked in lanes_of(&all) {
        let mut look = owner.look_at_all();
        look.lanes.retain(|lane| lane.lane.0 == asked);
        let given = owner.store.look(&look).await?.rows;
        let expected: Vec<Row> = all.iter().filter(|row| row.lane.0 == asked).cloned().collect();
        assert_eq!(seqs(&given), seqs(&expected));
    }
    let mut nowhere = owner.look_at_all();
    nowhere.lanes.clear();
    assert!(owner.store.look(&nowhere).await?.rows.is_empty());
    Ok(())
}

/// Ready and waiting rows are read as asked, and what was not read is not told.
pub async fn a_look_reads_the_kinds_that_are_asked_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due = message("due").due_at(Timestamp::UNIX_EPOCH).build()?;
    stage.send(&[due, message("ready").build()?]).await?;
    let owner = stage.owner().await?;
    let mut look = owner.look_at_all();
    assert_eq!(ids_of(&owner.store.look(&look).await?.rows), ["ready", "due"]);
    look.waiting = false;
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["ready"]);
    assert!(!sight.rows[0].waiting);
    assert!(sight.horizon.is_some());
    assert_eq!(sight.next_due_in, None);
    look.waiting = true;
    look.ready = false;
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["due"]);
    assert!(sight.rows[0].waiting);
    assert!(sight.horizon.is_none());
    assert!(!sight.truncated);
    Ok(())
}

/// A message whose transaction commits after a later one is found below it, and no horizon says
/// that it could not come any more.
pub async fn a_late_commit_with_a_lower_seq_is_found<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut early = stage.subject.begin().await?;
    early.send(&[message("early").key("k").build()?]).await?;
    if S::FACTS.one_writer {
        return no_second_writer(&stage, &owner, early).await;
    }
    stage.send(&[message("late").key("k").build()?]).await?;
    let first = owner.look().await?;
    assert_eq!(ids_of(&first.rows), ["late"]);
    let late = first.rows[0].seq;
    let before = horizon(&first)?;
    assert!(before.seq >= late, "what was given out was given out");
    assert!(horizon(&owner.look().await?)?.oldest < before.next, "the transaction runs");
    early.commit().await?;
    let mut look = owner.look_at_all();
    look.known = vec![late];
    let after = owner.store.look(&look).await?;
    assert_eq!(ids_of(&after.rows), ["early"]);
    assert!(after.rows[0].seq < late);
    // Now a floor may come as far as the first look's horizon.
    stage
        .eventually("the horizon passes", || async {
            let now = horizon(&owner.look().await?)?;
            Ok((now.oldest >= before.next).then_some(()))
        })
        .await
}

/// A store with one writer cannot have a late commit: the second write does not get by.
async fn no_second_writer<S: Subject>(
    stage: &Stage<S>,
    owner: &Owner,
    early: Box<dyn OpenTransaction>,
) -> Result<()> {
    let second = async { stage.send(&[message("late").key("k").build()?]).await };
    match tokio::time::timeout(SHORT * 5, second).await {
        Err(_) => {}
        Ok(Err(error)) => {
            assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Locked), "{error}")
        }
        Ok(Ok(())) => panic!("two transactions wrote at the same time"),
    }
    let sight = owner.look().await?;
    assert!(sight.rows.is_empty());
    early.commit().await?;
    let sight = owner.look().await?;
    assert_eq!(ids_of(&sight.rows)[0], "early");
    let horizon = horizon(&sight)?;
    assert_eq!(horizon.oldest, horizon.next, "one writer: nothing overlaps");
    Ok(())
}

/// A transaction that has drawn its seq and not yet written is unknown to every horizon; a look
/// from the start finds what it commits.
pub async fn a_seq_drawn_long_before_its_insert_is_found<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut slow = stage.subject.begin().await?;
    let drawn = slow.draw().await?;
    assert_eq!(drawn.is_some(), S::FACTS.draws_first);
    let Some(drawn) = drawn else {
        // Then a seq is drawn by the write itself, and the case of late commits covers it.
        slow.send(&[message("slow").build()?]).await?;
        slow.commit().await?;
        assert_eq!(owner.ids().await?, ["slow"]);
        return Ok(());
    };
    stage.send_keyed("k", &["1", "2"]).await?;
    assert_eq!(owner.drain().await?, ["1", "2"]);
    slow.send(&[message("slow").key("k").build()?]).await?;
    slow.commit().await?;
    let row = owner.row("slow").await?;
    assert_eq!(row.seq, drawn);
    assert_eq!(owner.drain().await?, ["slow"]);
    Ok(())
}

/// Once the horizons say so, nothing at or below the first one's seq comes any more.
pub async fn horizons_tell_when_a_floor_may_move<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let first = horizon(&owner.look().await?)?;
    let last = owner.row("3").await?.seq;
    assert!(first.seq >= last);
    assert!(first.oldest <= first.next);
    stage
        .eventually("the horizon passes", || async {
            let now = horizon(&owner.look().await?)?;
            assert!(now.seq >= first.seq && now.next >= first.next);
            Ok((now.oldest >= first.next).then_some(()))
        })
        .await
}

/// One odd row is given as such and disturbs no other; its reason quotes none of its values.
pub async fn a_row_that_does_not_decode_is_told_and_stops_nothing<S: Subject>() -> Result<()> {
    const SECRET: &str = "s3cr3t";
    let stage = Stage::<S>::new().await?;
    let odd = [
        r#"["s3cr3t"]"#.to_owned(),
        r#""s3cr3t""#.to_owned(),
        "null".to_owned(),
        "7".to_owned(),
        r#"{"a": 1}"#.to_owned(),
        r#"{"a": null}"#.to_owned(),
        r#"{"a": {"b": "s3cr3t"}}"#.to_owned(),
        r#"{"a": "s3cr3t\n"}"#.to_owned(),
        r#"{"a b": "s3cr3t"}"#.to_owned(),
        r#"{"": "s3cr3t"}"#.to_owned(),
    ];
    for (n, headers) in odd.iter().enumerate() {
        let row = PlainRow { headers: headers.clone(), ..plain(&format!("odd-{n}")) };
        stage.subject.insert(row).await?;
    }
    stage.subject.insert(PlainRow { topic: "a\nb".to_owned(), ..plain("odd-topic") }).await?;
    stage.send(&[message("good").build()?]).await?;
    let rows = stage.owner().await?.rows().await?;
    assert_eq!(rows.len(), odd.len() + 2);
    assert_eq!(ids_of(&rows), ["good"]);
    for row in rows {
        match row.content {
            Content::Undecodable(reason) => {
                assert!(!reason.is_empty());
                assert!(!reason.contains(SECRET), "{reason}");
            }
            Content::Message(_) => {}
            Content::Blocked => panic!("nothing blocks here"),
        }
    }
    Ok(())
}

/// Messages over many keys and some without one.
fn spread(count: usize) -> Result<Vec<Message>> {
    (0..count)
        .map(|n| {
            let builder = message(&format!("{n:05}"));
            if n % 5 == 0 {
                builder.build()
            } else {
                builder.key(format!("key-{}", n % 37)).build()
            }
        })
        .collect()
}

fn seqs(rows: &[Row]) -> BTreeSet<i64> {
    rows.iter().map(|row| row.seq).collect()
}

fn lanes_of(rows: &[Row]) -> BTreeSet<u16> {
    rows.iter().map(|row| row.lane.0).collect()
}

fn advance(look: &mut Look, row: &Row) {
    let lane = look.lanes.iter_mut().find(|lane| lane.lane == row.lane);
    if let Some(LaneLook { after, .. }) = lane {
        *after = row.seq;
    }
}

fn horizon(sight: &Sight) -> Result<Horizon> {
    sight.horizon.ok_or_else(|| Error::invalid("looking", "a look at ready rows gives a horizon"))
}
