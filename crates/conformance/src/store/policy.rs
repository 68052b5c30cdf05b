//! Policies: rows that failed and hold nobody, rows that another policy left, and the line of all rows.

use std::time::Duration;

use sendoff_core::Result;
use sendoff_core::store::{
    Ask, Content, LeaseGrant, Look, Outcome, Place, QuarantineReason, Reading, Row, Sight, Which,
};

use super::stage::{
    LONG, Owner, SHORT, Stage, id_of, ids_of, message, published, quarantined, retry,
};
use super::subject::Subject;

/// As [`retry`], and it holds nobody.
fn retry_and_pass(after: Duration) -> Outcome {
    Outcome::Retry { after, error: "the target said no".to_owned(), counts: true, holds: false }
}

/// As [`quarantined`], and it holds nobody.
fn quarantined_and_passed() -> Outcome {
    Outcome::Quarantined {
        reason: QuarantineReason::Permanent,
        error: "the target can never take it".to_owned(),
        holds: false,
    }
}

/// A message that is retried and holds nobody stands in nobody's way, of those that were sent before
/// the failure and after, and comes back as one that holds nobody.
pub async fn a_failing_message_can_hold_nobody<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry_and_pass(LONG)).await?;
    stage.send_keyed("k", &["3"]).await?;
    assert_eq!(owner.ids().await?, ["2", "3"]);
    assert_eq!(stage.store.stats().await?.held, 0);
    assert_eq!(stage.place("1").await?, Some(Place::Retrying));
    owner.settle(&first, retry_and_pass(SHORT)).await?;
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    assert_eq!((first.blocker, first.waiting, first.attempts), (false, true, 2));
    let heir = owner.clone();
    assert_eq!(heir.ids().await?.len(), 3, "nothing is blocked for whoever looks next");
    owner.settle(&first, published(first.blocker)).await?;
    assert_eq!(owner.drain().await?, ["2", "3"]);
    Ok(())
}

/// A quarantined message that holds nobody holds nobody, and does not begin to when it is requeued.
pub async fn a_quarantined_message_can_hold_nobody<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, quarantined_and_passed()).await?;
    stage.send_keyed("k", &["3"]).await?;
    assert_eq!(owner.ids().await?, ["2", "3"]);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.held, stats.quarantined), (0, 1));
    assert_eq!(stage.store.quarantined(0, 10).await?[0].holds, 0);
    stage.store.requeue(&Which::All).await?;
    let first = stage.eventually("it is requeued", || owner.seen("1")).await?;
    assert!(!first.blocker);
    assert_eq!(owner.ids().await?, ["2", "3", "1"]);
    owner.settle(&first, quarantined_and_passed()).await?;
    assert_eq!(owner.drain().await?, ["2", "3"]);
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!((mended.messages, mended.released), (1, 0));
    Ok(())
}

/// What was held under one policy goes on, in order, once what it waited for fails under another by
/// which it holds nobody: nothing is left that would let it go.
pub async fn what_was_held_goes_on_when_its_blocker_stops_holding<S: Subject>() -> Result<()> {
    for by_quarantine in [false, true] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2", "3"]).await?;
        let owner = stage.owner().await?;
        let first = owner.row("1").await?;
        owner.settle(&first, retry(SHORT)).await?;
        assert_eq!(stage.store.stats().await?.held, 2);
        let first = stage.eventually("its retry", || owner.seen("1")).await?;
        assert!(first.blocker);
        let verdict = if by_quarantine { quarantined_and_passed() } else { retry_and_pass(LONG) };
        owner.settle(&first, verdict).await?;
        stage.send_keyed("k", &["4"]).await?;
        let second = stage.eventually("it goes on", || owner.seen("2")).await?;
        assert!(second.blocker, "the others come behind it");
        assert_eq!(owner.drain_holding().await?, ["2", "3", "4"]);
        assert_eq!(stage.store.stats().await?.held, 0);
    }
    Ok(())
}

/// A message that held nobody holds its key once it fails under a policy by which it does.
pub async fn a_message_begins_to_hold_when_it_fails_under_another_policy<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry_and_pass(SHORT)).await?;
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    owner.settle(&first, retry(SHORT)).await?;
    stage.send_keyed("k", &["3"]).await?;
    owner.hold_blocked(1).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    assert!(first.blocker);
    assert_eq!(owner.settle(&first, published(true)).await?.released, 2);
    assert_eq!(owner.drain().await?, ["2", "3"]);
    Ok(())
}

/// What stands held behind the quarantine stays so under any policy; requeued, and failing under one
/// by which it holds nobody, the message lets the others go.
pub async fn a_requeued_message_can_stop_holding<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let mut owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, quarantined()).await?;
    stage.send_keyed("k", &["3"]).await?;
    owner.hold_blocked(1).await?;
    owner.lease(LONG).await?;
    assert_eq!(stage.store.stats().await?.held, 2, "it is the message's to let them go");
    stage.store.requeue(&Which::All).await?;
    let first = stage.eventually("it is requeued", || owner.seen("1")).await?;
    assert_eq!((first.blocker, owner.ids().await?), (true, vec!["1".to_owned()]));
    owner.settle(&first, quarantined_and_passed()).await?;
    stage.eventually("they go on", || owner.seen("2")).await?;
    assert_eq!(owner.drain_holding().await?, ["2", "3"]);
    Ok(())
}

/// One settlement takes failures that hold and failures that do not, of one key and of several.
pub async fn one_settlement_takes_failures_that_hold_and_that_do_not<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("a", &["1", "2"]).await?;
    stage.send_keyed("b", &["3", "4"]).await?;
    stage.send(&[message("5").build()?]).await?;
    let owner = stage.owner().await?;
    let mut verdicts = Vec::new();
    for (id, outcome) in [("1", retry(LONG)), ("3", retry_and_pass(LONG)), ("5", retry(LONG))] {
        verdicts.push(owner.verdict(&owner.row(id).await?, outcome));
    }
    owner.store.settle(&owner.id, &verdicts).await?;
    assert_eq!(owner.ids().await?, ["4"], "its own key's, and not the other's");
    assert_eq!(stage.place("2").await?, Some(Place::Held));
    assert_eq!(stage.store.stats().await?.retrying, 3);
    Ok(())
}

async fn line(owner: &Owner, change: impl FnOnce(&mut Look)) -> Result<Sight> {
    let mut look = Look { reading: Reading::Line, ..owner.look_at_all() };
    change(&mut look);
    owner.store.look(&look).await
}

/// Everything of the line, whatever is in the look's way.
async fn ids_in_line(owner: &Owner) -> Result<Vec<String>> {
    Ok(ids_of(&line(owner, |_| {}).await?.rows))
}

async fn in_line(owner: &Owner, id: &str) -> Result<Option<Row>> {
    let rows = line(owner, |_| {}).await?.rows;
    Ok(rows.into_iter().find(|row| id_of(row) == Some(id)))
}

fn seven() -> Result<Vec<sendoff_core::Message>> {
    (1..=7).map(|n| message(&n.to_string()).key(format!("k{n}")).build()).collect()
}

/// The line of all rows is in the order of their seqs, over all lanes; what a bound gives of it is its
/// beginning.
pub async fn the_line_of_all_rows_is_in_seq_order<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut messages = seven()?;
    messages.push(message("8").body(vec![7; 5_000]).build()?);
    stage.send(&messages).await?;
    let owner = stage.owner().await?;
    let all = line(&owner, |_| {}).await?;
    assert_eq!(ids_of(&all.rows), ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert!(!all.truncated && all.horizon.is_some());
    assert!(all.rows.iter().all(|row| !row.waiting && !row.blocker));
    let few = line(&owner, |look| look.rows_max = 3).await?;
    assert_eq!(
        (ids_of(&few.rows), few.truncated),
        (vec!["1".into(), "2".into(), "3".into()], true)
    );
    let light = line(&owner, |look| look.bytes_max = 4_000).await?;
    assert_eq!((light.rows.len(), light.truncated), (7, true));
    let known: Vec<i64> = all.rows.iter().take(7).map(|row| row.seq).collect();
    let heavy = line(&owner, |look| {
        look.bytes_max = 10;
        look.known = known.clone();
    })
    .await?;
    assert_eq!(ids_of(&heavy.rows), ["8"], "the first is given whatever it weighs");
    let above = all.rows[4].seq;
    let later = line(&owner, |look| look.lanes.iter_mut().for_each(|lane| lane.after = above));
    assert_eq!(ids_of(&later.await?.rows), ["6", "7", "8"]);
    Ok(())
}

/// Nothing behind a row that failed and holds is in line, for any relay, until it is published.
pub async fn the_line_ends_at_a_message_that_failed_and_holds<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&seven()?).await?;
    let owner = stage.owner().await?;
    let third = owner.row("3").await?;
    owner.settle(&third, retry(LONG)).await?;
    let sight = line(&owner, |_| {}).await?;
    assert_eq!(ids_of(&sight.rows), ["1", "2"]);
    assert!(!sight.truncated, "there is nothing to read before its time");
    assert!(sight.horizon.is_none(), "no floor moves beyond it");
    assert!(sight.next_due_in.is_some_and(|wait| wait <= LONG), "{:?}", sight.next_due_in);
    owner.settle(&third, retry(SHORT)).await?;
    let again = stage.eventually("its retry", || in_line(&owner, "3")).await?;
    assert!(again.blocker && again.waiting);
    assert_eq!(ids_in_line(&owner).await?, ["1", "2", "3"]);
    let known = vec![again.seq];
    let sight = line(&owner, |look| look.known = known).await?;
    assert_eq!(ids_of(&sight.rows), ["1", "2"], "and nothing behind it where it is known");
    owner.settle(&again, published(true)).await?;
    assert_eq!(ids_in_line(&owner).await?, ["1", "2", "4", "5", "6", "7"]);
    Ok(())
}

/// A row that failed and holds nobody is left out until its time, and then stands where its seq is;
/// so does one that falls due. Held and quarantined rows are not in line.
pub async fn the_line_goes_past_what_holds_nobody<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(SHORT).await?;
    stage.send(&[message("0").due_at(due_at).build()?]).await?;
    stage.send(&seven()?).await?;
    let owner = stage.owner().await?;
    let (second, fourth, sixth) =
        (owner.row("2").await?, owner.row("4").await?, owner.row("6").await?);
    owner.settle(&second, retry_and_pass(LONG)).await?;
    owner.settle(&fourth, quarantined()).await?;
    owner.settle(&sixth, quarantined_and_passed()).await?;
    stage.send_keyed("k4", &["8"]).await?;
    stage.eventually("its time", || in_line(&owner, "0")).await?;
    let sight = line(&owner, |_| {}).await?;
    assert_eq!(ids_of(&sight.rows), ["0", "1", "3", "5", "7"]);
    let blocked = sight.rows.iter().filter(|row| matches!(row.content, Content::Blocked)).count();
    assert_eq!(blocked, 1, "8 stands behind 4");
    assert!(sight.next_due_in.is_some() && sight.horizon.is_some());
    owner.settle(&second, retry_and_pass(SHORT)).await?;
    stage.eventually("its time", || in_line(&owner, "2")).await?;
    assert_eq!(ids_in_line(&owner).await?, ["0", "1", "2", "3", "5", "7"]);
    Ok(())
}

async fn ask(owner: &mut Owner, ask: Ask) -> Result<LeaseGrant> {
    let grant = owner.store.lease(&owner.request(LONG, ask)).await?;
    owner.lanes.clone_from(&grant.lanes);
    Ok(grant)
}

/// A relay that wants every lane gets them or none, and while it gets none it takes nothing from the
/// others' share.
pub async fn all_lanes_are_given_to_one_relay_or_none<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let total = usize::from(S::FACTS.lanes);
    let (mut sharing, mut strict, mut other) =
        (stage.owner().await?, stage.relay().await?, stage.relay().await?);
    let grant = ask(&mut strict, Ask::All).await?;
    assert_eq!((grant.lanes.len(), grant.relays), (0, 1));
    let grant = sharing.lease(LONG).await?;
    assert_eq!((grant.lanes.len(), grant.share), (total, total), "nothing to give back");
    // Some lanes are free: still none.
    sharing.shrink_to(total - 1).await?;
    if total > 1 {
        assert!(ask(&mut strict, Ask::All).await?.lanes.is_empty());
    }
    stage.lapse(&sharing).await?;
    let grant = ask(&mut strict, Ask::All).await?;
    assert_eq!((grant.lanes.len(), grant.relays), (total, 1));
    assert!(ask(&mut other, Ask::All).await?.lanes.is_empty());
    assert!(ask(&mut other, Ask::Share).await?.lanes.is_empty());
    let grant = ask(&mut strict, Ask::All).await?;
    assert_eq!(grant.lanes.len(), total, "it keeps them beside one that would share");
    stage.lapse(&strict).await?;
    other.lease(LONG).await?;
    assert!(!other.lanes.is_empty());
    assert!(ask(&mut strict, Ask::All).await?.lanes.is_empty());
    Ok(())
}

/// The messages that the most others wait for are named, and the first that everything would wait for.
pub async fn the_messages_that_others_wait_for_are_named<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    assert!(stage.store.holders(10).await?.is_empty());
    stage.send(&[message("0").build()?]).await?;
    stage.send_keyed("a", &["1", "2", "3"]).await?;
    stage.send_keyed("b", &["4", "5"]).await?;
    stage.send_keyed("c", &["6", "7"]).await?;
    let owner = stage.owner().await?;
    for (id, outcome) in [
        ("0", retry(LONG)),
        ("1", retry(LONG)),
        ("4", quarantined()),
        ("6", quarantined_and_passed()),
    ] {
        let row = owner.row(id).await?;
        owner.settle(&row, outcome).await?;
    }
    let holders = stage.store.holders(10).await?;
    let seen: Vec<(&str, Place, u64)> =
        holders.iter().map(|one| (one.id.as_str(), one.place, one.holds)).collect();
    let expected =
        [("1", Place::Retrying, 2), ("4", Place::Quarantined, 1), ("0", Place::Retrying, 0)];
    assert_eq!(seen, expected);
    let first = &holders[0];
    assert_eq!((first.key.as_deref(), first.attempts), (Some("a"), 1));
    assert_eq!(first.error.as_deref(), Some("the target said no"));
    assert!(first.retry_at.is_some() && holders[1].retry_at.is_none());
    let most = stage.store.holders(1).await?;
    let ids: Vec<&str> = most.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["1", "0"]);
    Ok(())
}
