//! The desk: what an operator sees is what is there, and mending keeps every promise.

use sendoff_core::memory::PlainRow;
use sendoff_core::store::{Outcome, Place, QuarantineReason, Which};
use sendoff_core::{Message, Result};

use super::stage::{LONG, SHORT, SOURCE, Stage, message, published, quarantined, retry};
use super::subject::Subject;

/// An empty outbox counts nothing.
pub async fn an_empty_outbox_counts_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let stats = stage.store.stats().await?;
    assert_eq!((stats.pending, stats.due, stats.retrying), (0, 0, 0));
    assert_eq!((stats.held, stats.quarantined, stats.published), (0, 0, 0));
    assert_eq!(stats.oldest_due_ms, None);
    assert_eq!(stats.lanes, u64::from(S::FACTS.lanes));
    assert_eq!((stats.lanes_leased, stats.relays), (0, 0));
    assert!(!stage.store.address().is_empty());
    Ok(())
}

/// A message is in every place where it can be, and is counted and found there.
pub async fn a_message_is_counted_and_found_wherever_it_is<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(LONG).await?;
    let later = message("later").due_at(due_at).body("12345").build()?;
    stage.send(&[later, message("ready").body("123").build()?]).await?;
    stage.send_keyed("k", &["retrying", "held"]).await?;
    stage.send_keyed("q", &["quarantined"]).await?;
    stage.send_keyed("g", &["gone"]).await?;
    let owner = stage.owner().await?;
    let settle =
        [("retrying", retry(LONG)), ("quarantined", quarantined()), ("gone", published(false))];
    for (id, outcome) in settle {
        let row = owner.row(id).await?;
        owner.settle(&row, outcome).await?;
    }
    let places = [
        ("later", Place::DueLater),
        ("ready", Place::Ready),
        ("retrying", Place::Retrying),
        ("held", Place::Held),
        ("quarantined", Place::Quarantined),
        ("gone", Place::Gone),
    ];
    for (id, place) in places {
        assert_eq!(stage.place(id).await?, Some(place), "{id}");
    }
    assert_eq!(stage.place("never").await?, None);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.pending, stats.due, stats.retrying), (3, 2, 1));
    assert_eq!((stats.held, stats.quarantined, stats.published), (1, 1, 1));
    assert_eq!(stats.lanes_leased, u64::from(S::FACTS.lanes));
    assert_eq!(stats.relays, 1);
    Ok(())
}

/// What is found is told in full: where, whose, since when, and behind what.
pub async fn what_is_found_is_told_in_full<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let before = stage.subject.now().await?;
    let due_at = stage.time_in(LONG).await?;
    let later = message("later").due_at(due_at).body("12345").build()?;
    stage.send(&[later]).await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let unowned = stage.find("1").await?;
    assert_eq!(unowned.and_then(|found| found.owner), None);
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, retry(LONG)).await?;
    let Some(found) = stage.find("later").await? else {
        panic!("it is there");
    };
    assert_eq!((found.id.as_str(), found.source.as_str()), ("later", SOURCE));
    assert_eq!(found.topic, "suite.topic");
    assert_eq!((found.key, found.body_bytes), (None, Some(5)));
    assert_eq!(found.due_at, Some(due_at));
    assert_eq!(found.owner.as_deref(), Some(owner.id.as_str()));
    assert!(found.sent_at.is_some_and(|at| at >= before));
    let Some(found) = stage.find("1").await? else {
        panic!("it is there");
    };
    assert_eq!((found.seq, found.lane), (Some(row.seq), Some(row.lane.0)));
    assert_eq!((found.key.as_deref(), found.attempts), (Some("k"), 1));
    assert!(found.retry_at.is_some_and(|at| at > before));
    assert_eq!(found.last_error.as_deref(), Some("the target said no"));
    assert_eq!(found.held_behind, None);
    let held_behind = stage.find("2").await?.and_then(|found| found.held_behind);
    assert_eq!(held_behind.as_deref(), Some("1"));
    // A lease that lapsed owns nothing.
    stage.lapse(&owner).await?;
    assert_eq!(stage.find("1").await?.and_then(|found| found.owner), None);
    Ok(())
}

/// The age of the oldest due message grows, and what is not due has none.
pub async fn the_oldest_due_message_has_an_age<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(LONG).await?;
    stage.send(&[message("later").due_at(due_at).build()?]).await?;
    assert_eq!(stage.store.stats().await?.oldest_due_ms, None);
    stage.send(&[message("1").build()?]).await?;
    stage.subject.pass(SHORT * 2).await;
    stage.send(&[message("2").build()?]).await?;
    let age = stage.store.stats().await?.oldest_due_ms;
    assert!(age.is_some_and(|ms| u128::from(ms) >= SHORT.as_millis()), "{age:?}");
    assert!(age.is_some_and(|ms| u128::from(ms) < LONG.as_millis()), "{age:?}");
    Ok(())
}

/// An id is found in every source, or in the one that is asked for.
pub async fn an_id_is_found_by_its_source<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let other = Message::builder("other", "t").id("1").build()?;
    stage.send(&[message("1").build()?, other, message("11").build()?]).await?;
    let found = stage.store.find("1", None).await?;
    let mut sources: Vec<String> = found.into_iter().map(|found| found.source).collect();
    sources.sort_unstable();
    assert_eq!(sources, ["other", SOURCE]);
    assert_eq!(stage.store.find("1", Some("other")).await?.len(), 1);
    assert!(stage.store.find("1", Some("nobody")).await?.is_empty());
    Ok(())
}

/// Whoever asks, the published count is the store's, and a sweep does not change it.
pub async fn the_published_count_is_kept<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    for round in 0..5_u64 {
        let id = round.to_string();
        stage.send_keyed("k", &[&id]).await?;
        owner.drain().await?;
        if round % 2 == 0 {
            stage.store.sweep(1_000).await?;
        }
        let other = stage.subject.open().await?;
        assert_eq!(other.stats().await?.published, round + 1);
    }
    Ok(())
}

/// The quarantine is read in pages, in seq order, with what a person needs.
pub async fn the_quarantine_is_read_in_pages<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..25 {
        sent.push(message(&format!("{n:02}")).header("n", n.to_string()).body("123").build()?);
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    for row in owner.rows().await? {
        owner.settle(&row, quarantined()).await?;
    }
    let mut pages = Vec::new();
    let mut after = 0;
    loop {
        let page = stage.store.quarantined(after, 10).await?;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 10);
        after = last.seq;
        pages.push(page.len());
        for entry in page {
            let number: usize = entry.id.parse().unwrap_or(usize::MAX);
            assert_eq!(entry.headers.get("n"), Some(number.to_string().as_str()));
            assert_eq!((entry.body_bytes, entry.holds, entry.key), (3, 0, None));
            assert_eq!(entry.source, SOURCE);
            assert_eq!(entry.error, "the target can never take it");
        }
    }
    assert_eq!(pages, [10, 10, 5]);
    Ok(())
}

/// A row that does not decode can be set aside, shown and discarded like any other.
pub async fn an_undecodable_row_can_be_shown_and_discarded<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let row = PlainRow {
        id: "odd".to_owned(),
        source: SOURCE.to_owned(),
        topic: "suite.topic".to_owned(),
        headers: r#"{"a": 1}"#.to_owned(),
        ..PlainRow::default()
    };
    stage.subject.insert(row).await?;
    let owner = stage.owner().await?;
    let rows = owner.rows().await?;
    let outcome = Outcome::Quarantined {
        reason: QuarantineReason::Undecodable,
        error: "no".to_owned(),
        holds: true,
    };
    owner.settle(&rows[0], outcome).await?;
    let page = stage.store.quarantined(0, 10).await?;
    assert_eq!(page[0].reason, "undecodable");
    assert!(page[0].headers.is_empty());
    assert_eq!(stage.place("odd").await?, Some(Place::Quarantined));
    let which = Which::Reason(QuarantineReason::Undecodable);
    assert_eq!(stage.store.discard(&which).await?.messages, 1);
    assert_eq!(stage.place("odd").await?, Some(Place::Gone));
    Ok(())
}
