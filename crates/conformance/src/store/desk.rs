//! The desk: what an operator sees is what is there, and mending keeps every promise.

use std::collections::BTreeSet;
use std::time::Duration;

use sendoff_core::store::{
    Ask, Look, Mended, Outcome, Place, QuarantineReason, RelayId, SchemaState, Which,
};
use sendoff_core::{ErrorKind, Message, Result};

use super::stage::{LONG, SHORT, SOURCE, Stage, message, published, quarantined, retry};
use super::subject::Subject;

const HOUR: Duration = Duration::from_secs(3_600);

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
    stage
        .send(&[later, message("ready").body("123").build()?])
        .await?;
    stage.send_keyed("k", &["retrying", "held"]).await?;
    stage.send_keyed("q", &["quarantined"]).await?;
    stage.send_keyed("g", &["gone"]).await?;
    let owner = stage.owner().await?;
    let settle = [
        ("retrying", retry(LONG)),
        ("quarantined", quarantined()),
        ("gone", published(false)),
    ];
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
    assert_eq!(
        (found.id.as_str(), found.source.as_str()),
        ("later", SOURCE)
    );
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
    stage
        .send(&[message("later").due_at(due_at).build()?])
        .await?;
    assert_eq!(stage.store.stats().await?.oldest_due_ms, None);
    stage.send(&[message("1").build()?]).await?;
    stage.subject.pass(SHORT * 2).await;
    stage.send(&[message("2").build()?]).await?;
    let age = stage.store.stats().await?.oldest_due_ms;
    assert!(
        age.is_some_and(|ms| u128::from(ms) >= SHORT.as_millis()),
        "{age:?}"
    );
    assert!(
        age.is_some_and(|ms| u128::from(ms) < LONG.as_millis()),
        "{age:?}"
    );
    Ok(())
}

/// An id is found in every source, or in the one that is asked for.
pub async fn an_id_is_found_by_its_source<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let other = Message::builder("other", "t").id("1").build()?;
    stage
        .send(&[message("1").build()?, other, message("11").build()?])
        .await?;
    let sources: BTreeSet<String> = stage
        .store
        .find("1", None)
        .await?
        .into_iter()
        .map(|found| found.source)
        .collect();
    assert_eq!(
        sources,
        BTreeSet::from(["other".to_owned(), SOURCE.to_owned()])
    );
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
        sent.push(
            message(&format!("{n:02}"))
                .header("n", n.to_string())
                .body("123")
                .build()?,
        );
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
    let row = super::PlainRow {
        id: "odd".to_owned(),
        source: SOURCE.to_owned(),
        topic: "suite.topic".to_owned(),
        headers: r#"{"a": 1}"#.to_owned(),
        ..super::PlainRow::default()
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

/// A requeued message is published before what waited for it, its attempts start anew, and what is
/// sent meanwhile waits as well.
pub async fn a_requeue_keeps_the_order_of_the_key<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, retry(Duration::ZERO)).await?;
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    assert_eq!(row.attempts, 1);
    owner.settle(&row, quarantined()).await?;
    let mended = stage.store.requeue(&Which::All).await?;
    assert_eq!(mended.messages, 1);
    stage.send_keyed("k", &["4"]).await?;
    let first = stage
        .eventually("it comes back", || owner.seen("1"))
        .await?;
    assert_eq!(first.attempts, 0);
    assert_eq!(owner.ids().await?, ["1"], "the others still wait");
    assert!(stage.store.quarantined(0, 10).await?.is_empty());
    owner.settle(&first, published(first.blocker)).await?;
    assert_eq!(owner.drain().await?, ["2", "3", "4"]);
    Ok(())
}

/// A requeued message that fails again holds its key again.
pub async fn a_requeued_message_that_fails_again_holds_again<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let mut owner = stage.owner().await?;
    for _ in 0..2 {
        let row = stage.eventually("it is there", || owner.seen("1")).await?;
        owner.settle(&row, quarantined()).await?;
        owner.lease(LONG).await?;
        let stats = stage.store.stats().await?;
        assert_eq!((stats.quarantined, stats.held), (1, 1));
        stage.store.requeue(&Which::All).await?;
        owner.lease(LONG).await?;
        let stats = stage.store.stats().await?;
        assert_eq!((stats.quarantined, stats.held, stats.pending), (0, 1, 1));
    }
    Ok(())
}

/// A requeue is found wherever the lanes' marks are.
pub async fn a_requeued_message_is_found_below_the_floor<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    stage.store.requeue(&Which::All).await?;
    let mut look = owner.look_at_all();
    for lane in &mut look.lanes {
        lane.after = row.seq + 1_000;
    }
    stage
        .eventually("it comes back", || async {
            let rows = owner.store.look(&look).await?.rows;
            Ok((rows.len() == 1).then_some(()))
        })
        .await
}

/// A discard deletes the message and lets go what it held; its pair stays known.
pub async fn a_discard_lets_the_followers_go<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!(
        mended,
        Mended {
            messages: 1,
            released: 2
        }
    );
    assert_eq!(stage.place("1").await?, Some(Place::Gone));
    assert_eq!(owner.drain().await?, ["2", "3"]);
    let stats = stage.store.stats().await?;
    assert_eq!(
        (stats.published, stats.quarantined),
        (2, 0),
        "a discard is no publish"
    );
    Ok(())
}

/// Mending takes what is asked for: an id, a pair, a reason; and only what is in quarantine.
pub async fn mending_takes_what_is_asked_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let other = Message::builder("other", "t").id("1").build()?;
    let mut sent = vec![other];
    for id in ["1", "2", "3", "ready"] {
        sent.push(message(id).build()?);
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    for row in owner.rows().await? {
        let reason = match super::stage::id_of(&row) {
            Some("ready") => continue,
            Some("3") => QuarantineReason::TooLarge,
            _ => QuarantineReason::Permanent,
        };
        let outcome = Outcome::Quarantined {
            reason,
            error: "no".to_owned(),
            holds: true,
        };
        owner.settle(&row, outcome).await?;
    }
    let id = |id: &str, source: Option<&str>| Which::Id {
        id: id.to_owned(),
        source: source.map(str::to_owned),
    };
    for nothing in [
        id("ready", None),
        id("never", None),
        id("1", Some("nobody")),
        Which::Reason(QuarantineReason::Attempts),
    ] {
        assert_eq!(stage.store.requeue(&nothing).await?, Mended::default());
        assert_eq!(stage.store.discard(&nothing).await?, Mended::default());
    }
    assert_eq!(stage.store.stats().await?.quarantined, 4);
    assert_eq!(
        stage.store.requeue(&id("1", Some("other"))).await?.messages,
        1
    );
    let by_reason = Which::Reason(QuarantineReason::TooLarge);
    assert_eq!(stage.store.requeue(&by_reason).await?.messages, 1);
    assert_eq!(stage.store.stats().await?.quarantined, 2);
    assert_eq!(stage.store.discard(&id("1", None)).await?.messages, 1);
    assert_eq!(stage.store.discard(&Which::All).await?.messages, 1);
    let stats = stage.store.stats().await?;
    assert_eq!((stats.quarantined, stats.pending), (0, 3));
    Ok(())
}

/// A store without a schema says so at every call, and migrate makes it.
pub async fn a_store_without_a_schema_says_so<S: Subject>() -> Result<()> {
    let subject = S::empty().await?;
    let store = subject.open().await?;
    let schema = store.schema().await?;
    assert_eq!((schema.state, schema.version), (SchemaState::Missing, 0));
    assert!(!schema.missing.is_empty(), "it says what is missing");
    let relay = RelayId::new();
    let request = sendoff_core::store::LeaseRequest {
        relay: relay.clone(),
        ttl: LONG,
        keep: Vec::new(),
        release: Vec::new(),
        ask: Ask::Share,
    };
    let look = Look {
        lanes: vec![sendoff_core::store::LaneLook {
            lane: sendoff_core::lane::Lane(0),
            after: 0,
        }],
        ready: true,
        waiting: true,
        rows_max: 1,
        lane_rows_max: 1,
        bytes_max: 1,
        ..Look::default()
    };
    let verdict = sendoff_core::store::Verdict {
        seq: 1,
        lane: sendoff_core::lane::Lane(0),
        epoch: 1,
        key: None,
        outcome: published(false),
    };
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
        let kind = error.as_ref().map(sendoff_core::Error::kind);
        assert_eq!(kind, Some(ErrorKind::SchemaMissing), "call {n}: {error:?}");
        let advice = error.as_ref().and_then(sendoff_core::Error::what_next);
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
    stage.subject.set_schema_version(needed + 1).await?;
    let store = stage.subject.open().await?;
    let kind = store.migrate().await.err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::SchemaTooNew));
    let schema = store.schema().await?;
    assert_eq!(
        (schema.state, schema.version),
        (SchemaState::TooNew, needed + 1)
    );
    stage.subject.set_schema_version(needed).await?;
    assert_eq!(stage.store.schema().await?.state, SchemaState::Current);
    assert_eq!(stage.owner().await?.drain().await?, ["1"]);
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
