//! Settlements: verdicts are written once, in order, and only by who owns the lane (G2, G3, G6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sendoff_core::store::{
    Ask, Content, Outcome, Place, QuarantineReason, Row, Settled, Which, clean_error,
};
use sendoff_core::{Message, Result};

use super::stage::{LONG, Owner, SHORT, Stage, ids_of, message, published, quarantined, retry};
use super::subject::Subject;

/// What was published is gone, counted once, and its pair is kept.
pub async fn a_published_message_is_deleted_and_counted_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    let settled = owner.settle(&row, published(false)).await?;
    assert_eq!(
        settled,
        Settled {
            published: 1,
            ..Settled::default()
        }
    );
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
        sent.push(
            message(&format!("{n:02}"))
                .key(format!("key-{n}"))
                .build()?,
        );
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
    let many: Vec<Message> = (0..1_000)
        .map(|n| message(&format!("{n:04}")).build())
        .collect::<Result<_>>()?;
    stage.send(&many).await?;
    let rows = owner.rows().await?;
    let verdicts: Vec<_> = rows
        .iter()
        .map(|row| owner.verdict(row, published(false)))
        .collect();
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
    stage
        .send(&[message("far").build()?, message("near").build()?])
        .await?;
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
    stage
        .send(&[message("1").key("k").due_at(due_at).build()?])
        .await?;
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
        let outcome = Outcome::Retry {
            after: SHORT / 4,
            error: "no".to_owned(),
            counts,
            holds: true,
        };
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
    stage
        .send(&[message("1").build()?, message("2").build()?])
        .await?;
    let owner = stage.owner().await?;
    let long = clean_error(&format!("'; --\0\n{}", "grün 緑 \u{1f7e2} ".repeat(100)));
    let (first, second) = (owner.row("1").await?, owner.row("2").await?);
    let outcome = Outcome::Retry {
        after: LONG,
        error: long.clone(),
        counts: true,
        holds: true,
    };
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

/// While a message is retried, its key's later messages stand aside, and come back in order.
pub async fn a_failing_message_holds_its_followers_until_it_is_published<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    stage.send_keyed("other", &["4"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry(SHORT)).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
    for id in ["2", "3"] {
        let found = stage.find(id).await?;
        assert_eq!(found.as_ref().map(|found| found.place), Some(Place::Held));
        assert_eq!(
            found.and_then(|found| found.held_behind).as_deref(),
            Some("1")
        );
    }
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    let mut ids = owner.ids().await?;
    ids.sort_unstable();
    assert_eq!(ids, ["1", "4"], "held rows are not given");
    let settled = owner.settle(&first, published(first.blocker)).await?;
    assert_eq!((settled.published, settled.released), (1, 2));
    let ids: Vec<String> = owner.drain().await?;
    let of_key: Vec<&String> = ids.iter().filter(|id| *id != "4").collect();
    assert_eq!(of_key, ["2", "3"]);
    assert_eq!(stage.store.stats().await?.held, 0);
    Ok(())
}

/// A message that failed before keeps holding when it fails again.
pub async fn a_message_that_fails_again_still_holds<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    for _ in 0..3 {
        let row = stage.eventually("its retry", || owner.seen("1")).await?;
        owner.settle(&row, retry(SHORT)).await?;
        assert_eq!(stage.store.stats().await?.held, 1);
    }
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    owner.settle(&row, quarantined()).await?;
    assert_eq!(stage.store.stats().await?.held, 1);
    assert!(owner.rows().await?.is_empty());
    Ok(())
}

/// A follower that is sent later is found blocked, held, and let go with the rest.
pub async fn a_follower_sent_later_is_held_and_let_go<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, retry(SHORT)).await?;
    stage.send_keyed("k", &["3"]).await?;
    hold_what_is_blocked(&owner, 1).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
    let first = stage.eventually("its retry", || owner.seen("1")).await?;
    let settled = owner.settle(&first, published(true)).await?;
    assert_eq!(settled.released, 2);
    assert_eq!(owner.drain().await?, ["2", "3"]);
    Ok(())
}

/// A relay that takes over finds its predecessor's followers held, and later ones blocked.
pub async fn a_new_owner_keeps_the_followers_held<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    let dead = stage.owner().await?;
    let first = dead.row("1").await?;
    dead.settle(&first, retry(LONG)).await?;
    stage.lapse(&dead).await?;
    stage.send_keyed("k", &["3"]).await?;
    let heir = stage.owner().await?;
    hold_what_is_blocked(&heir, 1).await?;
    assert!(heir.rows().await?.is_empty());
    // Renewals let nothing go that still has something in front.
    let mut heir = heir;
    heir.lease(LONG).await?;
    assert_eq!(stage.store.stats().await?.held, 2);
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
    assert_eq!(
        (stats.pending, stats.retrying, stats.quarantined),
        (0, 0, 1)
    );
    Ok(())
}

/// A follower that is held behind two stays held until the last of them is out of its way.
pub async fn a_held_message_waits_for_every_blocker_before_it<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let mut owner = stage.owner().await?;
    let (first, second) = (owner.row("1").await?, owner.row("2").await?);
    owner.settle(&second, quarantined()).await?;
    owner.settle(&first, quarantined()).await?;
    assert_eq!(stage.store.stats().await?.held, 1);
    let which = Which::Id {
        id: "1".to_owned(),
        source: None,
    };
    stage.store.discard(&which).await?;
    owner.lease(LONG).await?;
    assert_eq!(stage.place("3").await?, Some(Place::Held));
    assert!(owner.rows().await?.is_empty());
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!((mended.messages, mended.released), (1, 1));
    assert_eq!(owner.drain().await?, ["3"]);
    Ok(())
}

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

/// Where a batch comes late for some lanes only, the other lanes' verdicts are written.
pub async fn a_batch_is_fenced_row_by_row<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..60 {
        sent.push(
            message(&format!("{n:02}"))
                .key(format!("key-{n}"))
                .build()?,
        );
    }
    stage.send(&sent).await?;
    let owner = stage.owner().await?;
    let rows = owner.rows().await?;
    let mut verdicts = Vec::new();
    let mut stale = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let outcome = if n % 2 == 0 {
            retry(LONG)
        } else {
            published(false)
        };
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

/// A row that was marked held just as its blocker went is let go by its owner's next lease.
pub async fn a_held_message_without_a_blocker_is_let_go_by_a_lease<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    stage.send(&[message("3").build()?]).await?;
    let mut owner = stage.owner().await?;
    for id in ["1", "2", "3"] {
        let row = owner.row(id).await?;
        owner.settle(&row, Outcome::Held).await?;
    }
    owner.lease(LONG).await?;
    let mut ids = owner.drain().await?;
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2", "3"], "nothing is left behind");
    assert_eq!(stage.store.stats().await?.held, 0);
    Ok(())
}

/// A row that is held although it has failed itself counts as its own key's blocker, and must not
/// wait for itself.
pub async fn a_held_message_that_has_failed_does_not_wait_for_itself<S: Subject>() -> Result<()> {
    for by_lease in [false, true] {
        let stage = Stage::<S>::new().await?;
        stage.send_keyed("k", &["1", "2", "3"]).await?;
        let mut owner = stage.owner().await?;
        let (first, second) = (owner.row("1").await?, owner.row("2").await?);
        owner.settle(&second, retry(SHORT)).await?;
        owner.settle(&first, retry(SHORT)).await?;
        stage.subject.pass(SHORT * 2).await;
        hold_what_is_blocked(&owner, 1).await?;
        assert_eq!(stage.store.stats().await?.held, 2);
        let first = stage.eventually("its retry", || owner.seen("1")).await?;
        owner.settle(&first, published(!by_lease)).await?;
        if by_lease {
            owner.lease(LONG).await?;
        }
        let second = stage.eventually("it is let go", || owner.seen("2")).await?;
        assert!(second.blocker, "it still holds what comes after it");
        assert_eq!(stage.place("3").await?, Some(Place::Held));
        owner.settle(&second, published(true)).await?;
        assert_eq!(owner.drain().await?, ["3"]);
    }
    Ok(())
}

/// A message that fell due behind a blocker is held and let go like the others.
pub async fn a_message_that_falls_due_is_held_and_let_go<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let due_at = stage.time_in(SHORT).await?;
    stage
        .send(&[message("due").key("k").due_at(due_at).build()?])
        .await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let first = owner.row("1").await?;
    owner.settle(&first, quarantined()).await?;
    assert_eq!(
        stage.store.stats().await?.held,
        0,
        "before its time it is not held"
    );
    stage
        .eventually("it falls due", || async {
            Ok((!owner.rows().await?.is_empty()).then_some(()))
        })
        .await?;
    hold_what_is_blocked(&owner, 1).await?;
    assert!(owner.rows().await?.is_empty());
    let mended = stage.store.discard(&Which::All).await?;
    assert_eq!(mended.released, 1);
    assert_eq!(owner.drain().await?, ["due"]);
    Ok(())
}

/// Two tasks of a late relay settle while another takes over: once the take-over is done, not one
/// of their retries lands any more, and every one of their publishes does.
pub async fn a_take_over_fences_settlements_that_run_at_the_same_time<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..200 {
        sent.push(
            message(&format!("{n:03}"))
                .key(format!("key-{n}"))
                .build()?,
        );
    }
    stage.send(&sent).await?;
    let late = stage.owner().await?;
    let rows = late.rows().await?;
    let (retried, gone) = rows.split_at(rows.len() / 2);
    let taken = Arc::new(AtomicBool::new(false));
    stage.lapse(&late).await?;
    let retrying = tokio::spawn(settle_until_taken(
        late.clone(),
        retried.to_vec(),
        Arc::clone(&taken),
    ));
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
    assert_eq!(
        attempts(&stage, retried.len()).await?,
        before,
        "and changed nothing"
    );
    assert_eq!(published, 100);
    assert_eq!(stage.store.stats().await?.published, 100);
    Ok(())
}

/// Two relays that both published the same rows count them once.
pub async fn a_publish_that_two_relays_record_at_once_counts_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut sent = Vec::new();
    for n in 0..200 {
        sent.push(
            message(&format!("{n:03}"))
                .key(format!("key-{}", n % 20))
                .build()?,
        );
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
            let verdicts: Vec<_> = batch
                .iter()
                .map(|row| late.verdict(row, retry(LONG)))
                .collect();
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
        let verdicts: Vec<_> = batch
            .iter()
            .map(|row| relay.verdict(row, published(false)))
            .collect();
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

fn joined<T>(ended: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    match ended {
        Ok(result) => result,
        Err(panicked) => panic!("a task ended badly: {panicked}"),
    }
}

/// Settles as held what a look gives as blocked, as a relay does.
async fn hold_what_is_blocked(owner: &Owner, expected: usize) -> Result<()> {
    let rows = owner.rows().await?;
    let blocked: Vec<&Row> = rows
        .iter()
        .filter(|row| matches!(row.content, Content::Blocked))
        .collect();
    assert_eq!(blocked.len(), expected, "so many are blocked");
    for row in blocked {
        owner.settle(row, Outcome::Held).await?;
    }
    Ok(())
}
