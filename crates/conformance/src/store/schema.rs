//! The schema, and the horizon of the pairs of source and id.

use std::time::Duration;

use sendoff_core::lane::Lane;
use sendoff_core::store::{
    Ask, LaneLook, LeaseRequest, Look, RelayId, SchemaState, Verdict, Which,
};
use sendoff_core::{Error, ErrorKind, Result};

use super::stage::{LONG, Stage, message, published, quarantined};
use super::subject::Subject;

const HOUR: Duration = Duration::from_secs(3_600);

/// A store without a schema says so at every call, and migrate makes it.
pub async fn a_store_without_a_schema_says_so<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let store = subject.open().await?;
    let schema = store.schema().await?;
    assert_eq!((schema.state, schema.version), (SchemaState::Missing, 0));
    assert!(!schema.missing.is_empty(), "it says what is missing");
    let relay = RelayId::new();
    let request = LeaseRequest {
        relay: relay.clone(),
        target: None,
        ttl: LONG,
        keep: Vec::new(),
        release: Vec::new(),
        ask: Ask::Share,
    };
    let look = Look {
        lanes: vec![LaneLook { lane: Lane(0), after: 0 }],
        ready: true,
        waiting: true,
        rows_max: 1,
        lane_rows_max: 1,
        bytes_max: 1,
        ..Look::default()
    };
    let verdict = Verdict { seq: 1, lane: Lane(0), epoch: 1, key: None, outcome: published(false) };
    let errors = [
        store.lease(&request).await.err(),
        store.look(&look).await.err(),
        store.settle(&relay, &[verdict]).await.err(),
        store.sweep(1).await.err(),
        store.send_all(&[message("1").build()?]).await.err(),
        store.stats().await.err(),
        store.find("1", None).await.err(),
        store.quarantined(0, 1).await.err(),
        store.requeue(&Which::All).await.err(),
        store.discard(&Which::All).await.err(),
    ];
    for (n, error) in errors.into_iter().enumerate() {
        let kind = error.as_ref().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::SchemaMissing), "call {n}: {error:?}");
        let advice = error.as_ref().and_then(Error::what_next);
        assert!(advice.is_some_and(|advice| advice.contains("migrate")));
    }
    let schema = store.migrate().await?;
    assert_eq!(schema.state, SchemaState::Current);
    assert_eq!(schema.version, schema.needed);
    store.send_all(&[message("1").build()?]).await?;
    Ok(())
}

/// A second migration changes nothing.
pub async fn a_migration_is_safe_twice<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    let owner = stage.owner().await?;
    let first = stage.store.schema().await?;
    assert_eq!(stage.store.migrate().await?, first);
    assert_eq!(first.state, SchemaState::Current);
    assert!(first.missing.is_empty());
    assert_eq!(owner.drain().await?, ["1"], "its leases are as they were");
    Ok(())
}

/// Several processes may migrate at the same moment.
pub async fn a_migration_is_safe_at_once<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let store = subject.open().await?;
        tasks.spawn(async move { store.migrate().await });
    }
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(schema) => assert_eq!(schema?.state, SchemaState::Current),
            Err(panicked) => panic!("a migration ended badly: {panicked}"),
        }
    }
    let store = subject.open().await?;
    store.send_all(&[message("1").build()?]).await?;
    let stats = store.stats().await?;
    assert_eq!((stats.pending, stats.lanes), (1, u64::from(S::FACTS.lanes)));
    Ok(())
}

/// What a newer release migrated is refused and not touched.
pub async fn a_newer_schema_is_refused_and_not_touched<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    let needed = stage.store.schema().await?.needed;
    stage.subject.set_schema_version(needed + 1, None).await?;
    let store = stage.subject.open().await?;
    let kind = store.migrate().await.err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::SchemaTooNew));
    let schema = store.schema().await?;
    assert_eq!((schema.state, schema.version), (SchemaState::TooNew, needed + 1));
    stage.subject.set_schema_version(needed, None).await?;
    assert_eq!(stage.store.schema().await?.state, SchemaState::Current);
    assert_eq!(stage.owner().await?.drain().await?, ["1"]);
    Ok(())
}

/// What a newer release migrated is used by this one, where it only added.
pub async fn a_newer_schema_that_only_added_is_used<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let needed = stage.store.schema().await?.needed;
    stage.subject.set_schema_version(needed + 2, Some(needed)).await?;
    let store = stage.subject.open().await?;
    let schema = store.schema().await?;
    assert_eq!((schema.state, schema.version), (SchemaState::Newer, needed + 2));
    assert_eq!(store.migrate().await?, schema, "a migration leaves it as it is");
    store.send_all(&[message("1").build()?]).await?;
    assert_eq!(stage.owner().await?.drain().await?, ["1"]);
    stage.subject.set_schema_version(needed + 3, Some(needed + 1)).await?;
    let store = stage.subject.open().await?;
    assert_eq!(store.schema().await?.state, SchemaState::TooNew);
    assert_eq!(store.migrate().await.err().map(|e| e.kind()), Some(ErrorKind::SchemaTooNew));
    Ok(())
}

/// Pairs are kept for the horizon of 24 hours and swept after it.
pub async fn pairs_are_swept_after_their_horizon<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    owner.drain().await?;
    stage.subject.age_pairs(HOUR * 23).await?;
    assert_eq!(stage.store.sweep(1_000).await?, 0);
    let again = [message("1").build()?];
    let kind = stage.store.send_all(&again).await.err().map(|e| e.kind());
    assert_eq!(kind, Some(ErrorKind::Duplicate));
    stage.subject.age_pairs(HOUR * 2).await?;
    assert_eq!(stage.store.sweep(1_000).await?, 1);
    assert_eq!(stage.place("1").await?, None);
    stage.store.send_all(&again).await?;
    assert_eq!(owner.ids().await?, ["1"]);
    Ok(())
}

/// A message that is still there keeps its pair, however old it is.
pub async fn a_pair_whose_message_is_there_is_not_swept<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    stage.subject.age_pairs(HOUR * 1_000).await?;
    assert_eq!(stage.store.sweep(1_000).await?, 0);
    for id in ["1", "2"] {
        let again = [message(id).build()?];
        let kind = stage.store.send_all(&again).await.err().map(|e| e.kind());
        assert_eq!(kind, Some(ErrorKind::Duplicate), "{id}");
    }
    Ok(())
}

/// A sweep is bounded, and sweeping on reaches everything, also past pairs that have to stay.
pub async fn a_sweep_is_bounded_and_reaches_everything<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut sent = Vec::new();
    for n in 0..100 {
        let key = if n < 40 { "stays" } else { "goes" };
        sent.push(message(&format!("{n:03}")).key(key).build()?);
    }
    stage.send(&sent).await?;
    let rows = owner.rows().await?;
    let verdicts: Vec<_> = rows
        .iter()
        .filter(|row| row.key.as_deref() == Some("goes"))
        .map(|row| owner.verdict(row, published(false)))
        .collect();
    owner.store.settle(&owner.id, &verdicts).await?;
    stage.subject.age_pairs(HOUR * 25).await?;
    let mut swept = 0;
    for _ in 0..20 {
        let round = stage.store.sweep(7).await?;
        assert!(round <= 7);
        swept += round;
    }
    assert_eq!(swept, 60);
    assert_eq!(stage.store.stats().await?.pending, 40);
    Ok(())
}
