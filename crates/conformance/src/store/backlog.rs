//! The backlog: counts with a bound, and ages by the store's clock.

use std::time::Duration;

use sendoff_core::Result;

use super::stage::{LONG, SHORT, Stage, id_of, message, quarantined, retry};
use super::subject::Subject;

/// What the backlog counts is what the desk counts.
pub async fn a_backlog_is_counted_as_the_desk_counts_it<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let empty = stage.store.backlog(100).await?;
    assert_eq!((empty.due, empty.held, empty.quarantined, empty.oldest_due), (0, 0, 0, None));
    let due_at = stage.time_in(LONG).await?;
    let past = stage.time_in(Duration::ZERO).await?;
    stage.send(&[message("later").due_at(due_at).build()?, message("ready").build()?]).await?;
    stage.send(&[message("due").due_at(past).build()?]).await?;
    stage.send_keyed("k", &["retrying", "held 1", "held 2"]).await?;
    stage.send_keyed("q", &["quarantined", "held 3"]).await?;
    let owner = stage.owner().await?;
    for (id, outcome) in [("retrying", retry(LONG)), ("quarantined", quarantined())] {
        let row = owner.row(id).await?;
        owner.settle(&row, outcome).await?;
    }
    let (stats, backlog) = (stage.store.stats().await?, stage.store.backlog(100).await?);
    assert_eq!((stats.due, stats.held, stats.quarantined), (3, 3, 1));
    assert_eq!((backlog.due, backlog.held, backlog.quarantined), (3, 3, 1));
    Ok(())
}

/// Each count stops at the bound.
pub async fn a_backlog_is_counted_no_further_than_it_is_asked_to_be<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let ids: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    for (key, ids) in [("held", &ids[..10]), ("aside", &ids[10..12])] {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        stage.send_keyed(key, &ids).await?;
    }
    let mut others = Vec::new();
    for id in &ids[12..] {
        others.push(message(id).build()?);
    }
    stage.send(&others).await?;
    let owner = stage.owner().await?;
    for id in ["0", "10"] {
        let row = owner.row(id).await?;
        owner.settle(&row, quarantined()).await?;
    }
    for (count_max, due, held, aside) in
        [(1, 1, 1, 1), (2, 2, 2, 2), (15, 15, 10, 2), (18, 18, 10, 2)]
    {
        let backlog = stage.store.backlog(count_max).await?;
        let counts = (backlog.due, backlog.held, backlog.quarantined);
        assert_eq!(counts, (due, held, aside), "up to {count_max}");
    }
    assert_eq!(stage.store.backlog(1_000_000).await?.due, 18);
    Ok(())
}

/// The age is that of the oldest due message, wherever it stands; what is due later has none, what is
/// held or set aside neither.
pub async fn a_backlog_is_as_old_as_its_oldest_due_message<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(LONG).await?;
    stage.send(&[message("later").due_at(due_at).build()?]).await?;
    assert_eq!(stage.store.backlog(10).await?.oldest_due, None);
    stage.send_keyed("q", &["aside", "held"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("aside").await?;
    owner.settle(&row, quarantined()).await?;
    assert_eq!(stage.store.backlog(10).await?.oldest_due, None);
    stage.send_keyed("k", &["retrying"]).await?;
    let row = owner.row("retrying").await?;
    owner.settle(&row, retry(LONG)).await?;
    stage.subject.pass(SHORT * 2).await;
    stage.send(&[message("ready").build()?]).await?;
    let age = stage.store.backlog(10).await?.oldest_due;
    assert!(age.is_some_and(|age| age >= SHORT && age < LONG), "{age:?}");
    Ok(())
}

/// A look tells of each row how long it has been due: since its send, or since its due time.
pub async fn a_row_tells_how_long_it_has_been_due<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(SHORT * 20).await?;
    stage.send(&[message("old").build()?, message("due").due_at(due_at).build()?]).await?;
    stage.subject.pass(SHORT * 30).await;
    stage.send(&[message("new").build()?]).await?;
    let owner = stage.owner().await?;
    // Of one look: the next one would find them older.
    let rows = owner.rows().await?;
    let age = |id: &str| {
        let row = rows.iter().find(|row| id_of(row) == Some(id));
        row.map(|row| row.age.so_far).unwrap_or_default()
    };
    let (old, due, new) = (age("old"), age("due"), age("new"));
    assert!(old >= SHORT * 30 && old < LONG, "{old:?}");
    assert!(due >= SHORT && due < old, "{due:?} of {old:?}");
    assert!(new < due, "{new:?} of {due:?}");
    Ok(())
}
