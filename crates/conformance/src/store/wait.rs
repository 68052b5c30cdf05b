//! Rows that are not to be read now: those whose time has not come, and those behind their key (G3).

use std::collections::BTreeSet;
use std::time::Duration;

use sendoff_core::store::{Content, Outcome, Row, Which};
use sendoff_core::time::Timestamp;
use sendoff_core::{Error, Message, Result};

use super::stage::{LONG, SHORT, Stage, id_of, ids_of, message, published, quarantined, retry};
use super::subject::Subject;

/// A message with a due time is not given before it, and the look tells when to come back.
pub async fn a_message_is_not_given_before_its_due_time<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    assert_eq!(owner.look().await?.next_due_in, None);
    let far = due_in(&stage, "far", LONG).await?;
    stage.send(&[far]).await?;
    let sight = owner.look().await?;
    assert!(sight.rows.is_empty());
    let next = sight.next_due_in.unwrap_or_default();
    assert!(next > LONG / 2 && next <= LONG, "{next:?}");
    let near = due_in(&stage, "near", SHORT).await?;
    stage.send(&[near]).await?;
    let seen = stage.eventually("it falls due", || owner.seen("near")).await?;
    let sight = owner.look().await?;
    assert_eq!(ids_of(&sight.rows), ["near"]);
    assert!(sight.next_due_in.unwrap_or_default() > LONG / 2);
    // It is given wherever the lane's mark is.
    let mut look = owner.look_at_all();
    for lane in &mut look.lanes {
        lane.after = seen.seq + 1_000;
    }
    assert_eq!(ids_of(&owner.store.look(&look).await?.rows), ["near"]);
    Ok(())
}

/// Waiting rows come in the order of their time, then of their seq, across lanes, within the bound.
pub async fn waiting_rows_come_in_the_order_of_their_time<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let at = |second| {
        Timestamp::from_second(second).map_err(|e| Error::invalid("making a time", e.to_string()))
    };
    let mut sent = Vec::new();
    for (id, second) in [("d", 40), ("a", 10), ("e", 40), ("c", 30), ("b", 20)] {
        sent.push(message(id).due_at(at(second)?).build()?);
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    let mut look = owner.look_at_all();
    assert_eq!(owner.ids().await?, ["a", "b", "c", "d", "e"]);
    look.rows_max = 3;
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["a", "b", "c"]);
    assert_eq!(sight.next_due_in, Some(Duration::ZERO));
    look.rows_max = 5;
    assert_eq!(owner.store.look(&look).await?.next_due_in, None);
    Ok(())
}

/// A row that failed says so, with its attempts.
pub async fn a_row_tells_its_attempts_and_that_it_blocks<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    for attempt in 0..3 {
        let row = stage.eventually("its retry", || owner.seen("1")).await?;
        assert_eq!(row.attempts, attempt);
        assert_eq!(row.blocker, attempt > 0);
        owner.settle(&row, retry(SHORT)).await?;
    }
    Ok(())
}

/// Behind a row that is retried, later rows of its key are not read, those sent later neither; also
/// not when the retry time has come.
pub async fn a_row_sent_behind_a_retrying_one_is_blocked<S: Subject>() -> Result<()> {
    blocked_behind::<S>(retry(LONG)).await?;
    blocked_behind::<S>(retry(SHORT)).await
}

/// The same behind a row in quarantine.
pub async fn a_row_sent_behind_a_quarantined_one_is_blocked<S: Subject>() -> Result<()> {
    blocked_behind::<S>(quarantined()).await
}

async fn blocked_behind<S: Subject>(outcome: Outcome) -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, outcome).await?;
    stage.send_keyed("k", &["2"]).await?;
    stage.send_keyed("other", &["3"]).await?;
    stage.send(&[message("4").build()?]).await?;
    stage.subject.pass(SHORT * 2).await;
    let rows = owner.rows().await?;
    let blocked: Vec<&Row> = rows.iter().filter(|row| is_blocked(row)).collect();
    assert_eq!(blocked.len(), 1);
    assert_eq!(blocked[0].key.as_deref(), Some("k"));
    assert!(!blocked[0].blocker);
    let ids: BTreeSet<String> = ids_of(&rows).into_iter().filter(|id| id != "1").collect();
    assert_eq!(ids, BTreeSet::from(["3".to_owned(), "4".to_owned()]));
    Ok(())
}

/// What was sent before the blocker does not wait for it.
pub async fn a_row_with_a_lower_seq_than_the_blocker_is_not_blocked<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let second = owner.row("2").await?;
    owner.settle(&second, quarantined()).await?;
    assert_eq!(owner.ids().await?, ["1"]);
    Ok(())
}

/// A message that falls due joins its key's order then, behind every blocker.
pub async fn a_row_that_falls_due_is_blocked_by_any_blocker<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due = due_in(&stage, "due", SHORT).await?;
    let due = rebuild(&due, "k")?;
    stage.send(&[due]).await?;
    stage.send_keyed("k", &["later"]).await?;
    let owner = stage.owner().await?;
    // Before its time it holds nobody, and nobody holds it.
    let later = owner.row("later").await?;
    owner.settle(&later, quarantined()).await?;
    let row = stage
        .eventually("it falls due", || async { Ok(owner.rows().await?.into_iter().next()) })
        .await?;
    assert!(is_blocked(&row));
    assert!(row.seq < later.seq);
    Ok(())
}

/// Two rows of one key that are both retried keep their order.
pub async fn a_retrying_row_is_blocked_by_an_earlier_blocker<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    let second = owner.row("2").await?;
    owner.settle(&second, retry(SHORT)).await?;
    owner.settle(&first, retry(SHORT)).await?;
    stage.subject.pass(SHORT * 2).await;
    let rows = owner.rows().await?;
    let row = |seq| rows.iter().find(|row| row.seq == seq);
    assert!(row(first.seq).is_some_and(|row| id_of(row) == Some("1")));
    assert!(row(second.seq).is_some_and(is_blocked));
    Ok(())
}

/// A message without a key waits for nobody and holds nobody; the empty key is a key.
pub async fn rows_without_a_key_block_nobody<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let sent = [message("1").build()?, message("2").key("").build()?];
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    for row in owner.rows().await? {
        owner.settle(&row, quarantined()).await?;
    }
    stage.send(&[message("3").build()?, message("4").key("").build()?]).await?;
    let rows = owner.rows().await?;
    assert_eq!(ids_of(&rows), ["3"]);
    assert_eq!(rows.iter().filter(|row| is_blocked(row)).count(), 1);
    Ok(())
}

/// Rows that wait for a far time neither fill a bound nor hide what is ready behind them.
pub async fn rows_that_wait_do_not_fill_a_look<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let waiting: Vec<Message> = {
        let far = due_in(&stage, "far", LONG).await?;
        let due_at = far.due_at().unwrap_or(Timestamp::MAX);
        (0..20_000)
            .map(|n| message(&format!("w{n}")).key("k").due_at(due_at).build())
            .collect::<Result<_>>()?
    };
    stage.send(&waiting).await?;
    stage.send_keyed("k", &["ready"]).await?;
    let mut look = owner.look_at_all();
    (look.rows_max, look.lane_rows_max) = (2, 2);
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["ready"]);
    assert!(!sight.truncated);
    assert!(sight.next_due_in.unwrap_or_default() > LONG / 2);
    assert_eq!(stage.store.stats().await?.due, 1);
    Ok(())
}

/// Nor do rows that are held behind their key.
pub async fn rows_that_are_held_do_not_fill_a_look<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut many: Vec<Message> = Vec::new();
    for n in 0..20_000 {
        many.push(message(&format!("h{n:05}")).key("k").build()?);
    }
    stage.send(&many).await?;
    let mut look = owner.look_at_all();
    (look.rows_max, look.lane_rows_max) = (1, 1);
    let first = owner.store.look(&look).await?.rows;
    assert_eq!(ids_of(&first), ["h00000"]);
    owner.settle(&first[0], quarantined()).await?;
    stage.send_keyed("other", &["ready"]).await?;
    (look.rows_max, look.lane_rows_max) = (2, 2);
    let sight = owner.store.look(&look).await?;
    assert_eq!(ids_of(&sight.rows), ["ready"]);
    assert!(!sight.truncated);
    assert_eq!(stage.store.stats().await?.held, 19_999);
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!(mended.released, 19_999);
    // One of them is tried at once, the others wait behind it.
    stage.eventually("it is let go", || owner.seen("h00001")).await?;
    let next = owner.store.look(&look).await?.rows;
    assert_eq!(ids_of(&next), ["ready", "h00001"]);
    let settled = owner.settle(&next[1], published(true)).await?;
    assert_eq!(settled.released, 19_998);
    owner.settle(&next[0], published(false)).await?;
    assert_eq!(ids_of(&owner.store.look(&look).await?.rows), ["h00002", "h00003"]);
    Ok(())
}

fn rebuild(due: &Message, key: &str) -> Result<Message> {
    message(due.id()).key(key).due_at(due.due_at().unwrap_or(Timestamp::UNIX_EPOCH)).build()
}

fn is_blocked(row: &Row) -> bool {
    matches!(row.content, Content::Blocked)
}

/// A message that is due `wait` from now, by the database's clock.
async fn due_in<S: Subject>(stage: &Stage<S>, id: &str, wait: Duration) -> Result<Message> {
    message(id).due_at(stage.time_in(wait).await?).build()
}
