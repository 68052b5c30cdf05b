//! Fences: who no longer owns a lane changes nothing there but the fact of a publish (G6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sendoff_core::Result;
use sendoff_core::store::{Ask, Outcome, Place, Row, Settled};

use super::stage::{LONG, Owner, Stage, joined, message, published, quarantined, retry};
use super::subject::Subject;

/// A verdict under an epoch that is over changes nothing: no retry, no quarantine, no hold.
pub async fn a_late_verdict_is_fenced<S: Subject>() -> Result<()> {
    for outcome in [retry(LONG), quarantined(), Outcome::Held] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2"]).await?;
        let late = stage.owner().await?;
        let row = late.row("1").await?;
        stage.lapse(&late).await?;
        let heir = stage.owner().await?;
        let settled = late.settle(&row, outcome.clone()).await?;
        assert_eq!(settled.fenced, [row.seq], "{outcome:?}");
        assert_eq!((settled.published, settled.released), (0, 0));
        assert_eq!(heir.ids().await?, ["1", "2"], "{outcome:?}");
        let found = stage.find("1").await?;
        assert_eq!(found.as_ref().map(|found| found.attempts), Some(0));
        assert_eq!(found.and_then(|found| found.last_error), None);
    }
    Ok(())
}

/// Nor does a late verdict release what the new owner holds, unless it is a publish.
pub async fn a_late_publish_is_recorded_and_told<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let late = stage.owner().await?;
    let row = late.row("1").await?;
    stage.lapse(&late).await?;
    let heir = stage.owner().await?;
    let settled = late.settle(&row, published(false)).await?;
    assert_eq!(settled.fenced, [row.seq]);
    assert_eq!(settled.published, 1);
    assert_eq!(heir.ids().await?, ["2"]);
    assert_eq!(stage.store.stats().await?.published, 1);
    // The new owner published it too: the row is gone, and counts once.
    let settled = heir.settle(&row, published(false)).await?;
    assert_eq!(settled, Settled::default());
    assert_eq!(stage.store.stats().await?.published, 1);
    Ok(())
}

/// A publish that comes late takes away what the key's rows wait for behind the new owner's back:
/// even then nothing that is sent later goes before them.
pub async fn a_late_publish_lets_nobody_pass<S: Subject>() -> Result<()> {
    for releases in [false, true] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2", "3"]).await?;
        let late = stage.owner().await?;
        let first = late.row("1").await?;
        stage.lapse(&late).await?;
        let heir = stage.owner().await?;
        let own = heir.row("1").await?;
        heir.settle(&own, retry(LONG)).await?;
        assert_eq!(stage.store.stats().await?.held, 2);
        let settled = late.settle(&first, published(releases)).await?;
        assert_eq!((settled.published, settled.fenced), (1, vec![first.seq]));
        stage.send_keyed("k", &["4"]).await?;
        assert_eq!(heir.ids().await?, ["2"], "it takes the place of the first");
        assert_eq!(heir.drain_holding().await?, ["2", "3", "4"]);
    }
    Ok(())
}

/// Where a batch comes late for some lanes only, the other lanes' verdicts are written.
pub async fn a_batch_is_fenced_row_by_row<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..60 {
        sent.push(message(&format!("{n:02}")).key(format!("key-{n}")).build()?);
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    let rows = owner.rows().await?;
    let mut verdicts = Vec::new();
    let mut stale = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let outcome = if n % 2 == 0 { retry(LONG) } else { published(false) };
        let mut verdict = owner.verdict(row, outcome);
        if n % 3 == 0 {
            verdict.epoch -= 1;
            stale.push(row.seq);
        }
        verdicts.push(verdict);
    }
    let mut settled = owner.store.settle(&owner.id, &verdicts).await?;
    settled.fenced.sort_unstable();
    stale.sort_unstable();
    assert_eq!(settled.fenced, stale);
    assert_eq!(settled.published, 30, "a publish is a fact");
    let stats = stage.store.stats().await?;
    assert_eq!((stats.retrying, stats.pending), (20, 30));
    Ok(())
}

/// The epoch alone does not make an owner.
pub async fn another_relays_verdict_is_fenced<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    let mut stranger = stage.relay().await?;
    stranger.lanes.clone_from(&owner.lanes);
    let settled = stranger.settle(&row, quarantined()).await?;
    assert_eq!(settled.fenced, [row.seq]);
    assert_eq!(owner.ids().await?, ["1"]);
    Ok(())
}

/// What was given back is not one's own any more.
pub async fn a_verdict_after_the_release_is_fenced<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    let mut request = owner.request(LONG, Ask::Nothing);
    request.release = std::mem::take(&mut request.keep);
    owner.store.lease(&request).await?;
    let settled = owner.settle(&row, retry(LONG)).await?;
    assert_eq!(settled.fenced, [row.seq]);
    assert_eq!(stage.place("1").await?, Some(Place::Ready));
    Ok(())
}

/// A lease that lapsed and that nobody took still settles.
pub async fn a_lapsed_lease_that_nobody_took_still_settles<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    stage.lapse(&owner).await?;
    let settled = owner.settle(&row, retry(LONG)).await?;
    assert!(settled.fenced.is_empty());
    assert_eq!(stage.place("1").await?, Some(Place::Retrying));
    Ok(())
}

/// Two tasks of a late relay settle while another takes over: once the take-over is done, not one
/// of their retries lands any more, and every one of their publishes does.
pub async fn a_take_over_fences_settlements_that_run_at_the_same_time<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..200 {
        sent.push(message(&format!("{n:03}")).key(format!("key-{n}")).build()?);
    }
    stage.send(&sent).await?;
    let late = stage.owner().await?;
    let rows = late.rows().await?;
    let (retried, gone) = rows.split_at(rows.len() / 2);
    let taken = Arc::new(AtomicBool::new(false));
    stage.lapse(&late).await?;
    let retrying =
        tokio::spawn(settle_until_taken(late.clone(), retried.to_vec(), Arc::clone(&taken)));
    let publishing = tokio::spawn(publish_each(late.clone(), gone.to_vec()));
    // A few settlements are to come before the take-over, some during it, some after it.
    stage
        .eventually("the late relay settles", || async {
            Ok((stage.store.stats().await?.retrying > 0).then_some(()))
        })
        .await?;
    let heir = stage.owner().await?;
    assert_eq!(heir.lanes.len(), usize::from(S::FACTS.lanes));
    let before = attempts(&stage, retried.len()).await?;
    taken.store(true, Ordering::SeqCst);
    let fenced = joined(retrying.await)?;
    let published = joined(publishing.await)?;
    assert!(fenced > 0, "it went on after the take-over");
    assert_eq!(attempts(&stage, retried.len()).await?, before, "and changed nothing");
    assert_eq!(published, 100);
    assert_eq!(stage.store.stats().await?.published, 100);
    Ok(())
}

/// Two relays that both published the same rows count them once.
pub async fn a_publish_that_two_relays_record_at_once_counts_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..200 {
        sent.push(message(&format!("{n:03}")).key(format!("key-{}", n % 20)).build()?);
    }
    stage.send(&sent).await?;
    let late = stage.owner().await?;
    let rows = late.rows().await?;
    stage.lapse(&late).await?;
    let heir = stage.owner().await?;
    let backwards: Vec<Row> = rows.iter().rev().cloned().collect();
    let one = tokio::spawn(publish_each(late, rows));
    let other = tokio::spawn(publish_each(heir, backwards));
    let counted = joined(one.await)? + joined(other.await)?;
    assert_eq!(counted, 200);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.published, stats.pending), (200, 0));
    Ok(())
}

/// Retries one row after another, round and round, until some rounds after the take-over. Gives how
/// many were fenced.
async fn settle_until_taken(late: Owner, rows: Vec<Row>, taken: Arc<AtomicBool>) -> Result<u64> {
    let mut fenced = 0;
    let mut rounds_left = 2;
    while rounds_left > 0 {
        if taken.load(Ordering::SeqCst) {
            rounds_left -= 1;
        }
        for batch in rows.chunks(10) {
            let verdicts: Vec<_> = batch.iter().map(|row| late.verdict(row, retry(LONG))).collect();
            let settled = late.store.settle(&late.id, &verdicts).await?;
            fenced += u64::try_from(settled.fenced.len()).unwrap_or(u64::MAX);
            tokio::task::yield_now().await;
        }
    }
    Ok(fenced)
}

/// Records rows as published, ten at a time. Gives how many it deleted.
async fn publish_each(relay: Owner, rows: Vec<Row>) -> Result<u64> {
    let mut deleted = 0;
    for batch in rows.chunks(10) {
        let verdicts: Vec<_> =
            batch.iter().map(|row| relay.verdict(row, published(false))).collect();
        deleted += relay.store.settle(&relay.id, &verdicts).await?.published;
        tokio::task::yield_now().await;
    }
    Ok(deleted)
}

async fn attempts<S: Subject>(stage: &Stage<S>, rows: usize) -> Result<BTreeMap<usize, u32>> {
    let mut attempts = BTreeMap::new();
    for n in 0..rows {
        let found = stage.find(&format!("{n:03}")).await?;
        attempts.insert(n, found.map_or(u32::MAX, |found| found.attempts));
    }
    Ok(attempts)
}
