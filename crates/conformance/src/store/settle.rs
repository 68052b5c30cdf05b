//! Settlements: verdicts are written once, in order, and only by who owns the lane (G2, G3, G6).

use sendoff_core::store::{Outcome, Place, QuarantineReason, Settled, Which, clean_error};
use sendoff_core::{Message, Result};

use super::stage::{LONG, SHORT, Stage, ids_of, message, published, quarantined, retry};
use super::subject::Subject;

/// What was published is gone, counted once, and its pair is kept.
pub async fn a_published_message_is_deleted_and_counted_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    let settled = owner.settle(&row, published(false)).await?;
    assert_eq!(settled, Settled { published: 1, ..Settled::default() });
    // Again, as after an answer that was lost.
    let settled = owner.settle(&row, published(false)).await?;
    assert_eq!(settled, Settled::default());
    assert_eq!(owner.ids().await?, ["2"]);
    assert_eq!(stage.place("1").await?, Some(Place::Gone));
    let stats = stage.store.stats().await?;
    assert_eq!((stats.published, stats.pending), (1, 1));
    Ok(())
}

/// One settlement takes verdicts of every kind on rows of many lanes.
pub async fn one_settlement_takes_verdicts_of_every_kind<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..40 {
        sent.push(message(&format!("{n:02}")).key(format!("key-{n}")).build()?);
    }
    stage.send(&sent).await?;
    stage.send_keyed("key-1", &["follower"]).await?;
    let owner = stage.owner().await?;
    let rows = owner.rows().await?;
    let mut verdicts = Vec::new();
    for row in &rows {
        let key = row.key.as_deref().unwrap_or_default();
        let number: u32 = key.trim_start_matches("key-").parse().unwrap_or(0);
        verdicts.push(owner.verdict(
            row,
            match (ids_of(std::slice::from_ref(row))[0].as_str(), number % 4) {
                ("follower", _) => Outcome::Held,
                (_, 1) => retry(LONG),
                (_, 2) => quarantined(),
                _ => published(false),
            },
        ));
    }
    let settled = owner.store.settle(&owner.id, &verdicts).await?;
    assert_eq!(settled.published, 20);
    assert!(settled.fenced.is_empty());
    let stats = stage.store.stats().await?;
    assert_eq!(stats.published, 20);
    assert_eq!((stats.pending, stats.retrying), (10, 10));
    assert_eq!((stats.quarantined, stats.held), (10, 1));
    assert!(owner.rows().await?.is_empty());
    Ok(())
}

/// A settlement of nothing and one of a thousand verdicts are both one call.
pub async fn a_settlement_takes_none_or_a_thousand<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let nothing = owner.store.settle(&owner.id, &[]).await?;
    assert_eq!(nothing, Settled::default());
    let many: Vec<Message> =
        (0..1_000).map(|n| message(&format!("{n:04}")).build()).collect::<Result<_>>()?;
    stage.send(&many).await?;
    let rows = owner.rows().await?;
    let verdicts: Vec<_> = rows.iter().map(|row| owner.verdict(row, published(false))).collect();
    let settled = owner.store.settle(&owner.id, &verdicts).await?;
    assert_eq!(settled.published, 1_000);
    assert_eq!(stage.store.stats().await?.pending, 0);
    Ok(())
}

/// A row that another settlement or an operator took away is no error.
pub async fn a_verdict_on_a_row_that_is_gone_is_harmless<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    stage.store.discard(&Which::All).await?;
    stage.send_keyed("k", &["2"]).await?;
    for outcome in [published(true), retry(LONG), quarantined(), Outcome::Held] {
        let settled = owner.settle(&row, outcome).await?;
        assert_eq!(settled, Settled::default());
    }
    // What is not there holds nobody.
    assert_eq!(owner.ids().await?, ["2"]);
    assert_eq!(stage.place("1").await?, Some(Place::Gone));
    Ok(())
}

/// A retry is not given before its time, and is given after it.
pub async fn a_retry_comes_back_at_its_time_and_not_before<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("far").build()?, message("near").build()?]).await?;
    let owner = stage.owner().await?;
    let (far, near) = (owner.row("far").await?, owner.row("near").await?);
    owner.settle(&far, retry(LONG)).await?;
    let sight = owner.look().await?;
    assert_eq!(ids_of(&sight.rows), ["near"]);
    let next = sight.next_due_in.unwrap_or_default();
    assert!(next > LONG / 2 && next <= LONG, "{next:?}");
    owner.settle(&near, retry(SHORT)).await?;
    let stats = stage.store.stats().await?;
    assert_eq!((stats.pending, stats.retrying, stats.due), (2, 2, 2));
    let seen = stage.eventually("its retry", || owner.seen("near")).await?;
    assert_eq!(seen.seq, near.seq);
    assert_eq!(owner.ids().await?, ["near"]);
    assert_eq!(stage.place("far").await?, Some(Place::Retrying));
    Ok(())
}

/// A retry takes the place of a due time that has passed.
pub async fn a_retry_of_a_row_with_a_due_time_waits_for_the_retry<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(SHORT).await?;
    stage.send(&[message("1").key("k").due_at(due_at).build()?]).await?;
    let owner = stage.owner().await?;
    let row = stage.eventually("it falls due", || owner.seen("1")).await?;
    owner.settle(&row, retry(LONG)).await?;
    let sight = owner.look().await?;
    assert!(sight.rows.is_empty());
    assert!(sight.next_due_in.unwrap_or_default() > LONG / 2);
    Ok(())
}

/// Only a failure of the message's own is counted.
pub async fn attempts_are_counted_where_they_are_the_messages_own<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let mut expected = 0;
    for counts in [true, false, true, true, false] {
        let row = stage.eventually("its retry", || owner.seen("1")).await?;
        assert_eq!(row.attempts, expected);
        let outcome =
            Outcome::Retry { after: SHORT / 4, error: "no".to_owned(), counts, holds: true };
        owner.settle(&row, outcome).await?;
        expected += u32::from(counts);
        let found = stage.find("1").await?;
        assert_eq!(found.map(|found| found.attempts), Some(expected));
    }
    Ok(())
}

/// The last error is kept with the message, at its longest and in any script.
pub async fn the_last_error_is_kept_with_the_message<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?, message("2").build()?]).await?;
    let owner = stage.owner().await?;
    let long = clean_error(&format!("'; --\0\n{}", "grün 緑 \u{1f7e2} ".repeat(100)));
    let (first, second) = (owner.row("1").await?, owner.row("2").await?);
    let outcome = Outcome::Retry { after: LONG, error: long.clone(), counts: true, holds: true };
    owner.settle(&first, outcome).await?;
    let outcome = Outcome::Quarantined {
        reason: QuarantineReason::TooLarge,
        error: long.clone(),
        holds: true,
    };
    owner.settle(&second, outcome).await?;
    for id in ["1", "2"] {
        let found = stage.find(id).await?.and_then(|found| found.last_error);
        assert_eq!(found.as_ref(), Some(&long));
    }
    let page = stage.store.quarantined(0, 10).await?;
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].error, long);
    Ok(())
}

/// A row in quarantine is told with its reason, is not given, and holds its key.
pub async fn a_quarantined_message_is_set_aside_with_its_reason<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    for _ in 0..2 {
        let settled = owner.settle(&row, quarantined()).await?;
        assert_eq!(settled, Settled::default());
    }
    assert!(owner.rows().await?.is_empty());
    let page = stage.store.quarantined(0, 10).await?;
    assert_eq!(page.len(), 1);
    assert_eq!((page[0].id.as_str(), page[0].seq), ("1", row.seq));
    assert_eq!(page[0].reason, QuarantineReason::Permanent.as_str());
    assert_eq!((page[0].holds, page[0].key.as_deref()), (1, Some("k")));
    let stats = stage.store.stats().await?;
    assert_eq!((stats.quarantined, stats.held, stats.pending), (1, 1, 0));
    assert_eq!(stats.due, 0, "what stands aside is not due");
    Ok(())
}

/// A row that is retried and then set aside waits for no time any more.
pub async fn a_retrying_message_can_go_to_quarantine<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, retry(SHORT)).await?;
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    owner.settle(&row, quarantined()).await?;
    let sight = owner.look().await?;
    assert!(sight.rows.is_empty());
    assert_eq!(sight.next_due_in, None);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.pending, stats.retrying, stats.quarantined), (0, 0, 1));
    assert_eq!(stage.find("1").await?.and_then(|found| found.retry_at), None);
    Ok(())
}
