//! Sends: a message exists if and only if its transaction committed, and its bytes survive (G1, G2).

use sendoff_core::store::{Content, Place};
use sendoff_core::{ErrorKind, Message, Result};

use super::stage::{SHORT, SOURCE, Stage, joined, message, published};
use super::subject::Subject;

/// A commit makes the message visible to a relay in another process.
pub async fn a_committed_message_is_found<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    assert_eq!(stage.owner().await?.ids().await?, ["1"]);
    Ok(())
}

/// Nothing of a running transaction is to be seen.
pub async fn an_uncommitted_message_is_not_found<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&[message("1").build()?]).await?;
    assert!(owner.ids().await?.is_empty());
    assert!(stage.find("1").await?.is_none());
    transaction.commit().await?;
    assert_eq!(owner.ids().await?, ["1"]);
    Ok(())
}

/// After a rollback there is no message, and its pair is free.
pub async fn a_rolled_back_message_never_was<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&[message("1").build()?]).await?;
    transaction.rollback().await?;
    assert!(owner.ids().await?.is_empty());
    assert!(stage.find("1").await?.is_none());
    stage.send(&[message("1").build()?]).await?;
    assert_eq!(owner.ids().await?, ["1"]);
    Ok(())
}

/// A program that fails on its way drops its transaction.
pub async fn a_dropped_transaction_is_a_rollback<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&[message("1").build()?]).await?;
    drop(transaction);
    // The pair is free as soon as the database has noticed; until then the send waits.
    stage.send(&[message("1").body("again").build()?]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    let Content::Message(found) = row.content else {
        panic!("it decodes");
    };
    assert_eq!(found.body().as_ref(), b"again");
    assert_eq!(owner.ids().await?.len(), 1);
    Ok(())
}

/// A savepoint takes back what came after it and nothing else.
pub async fn what_a_savepoint_undid_never_was_and_the_rest_is_kept<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&[message("1").build()?]).await?;
    transaction.savepoint("outer").await?;
    transaction.send(&[message("2").build()?]).await?;
    transaction.savepoint("inner").await?;
    transaction.send(&[message("3").build()?]).await?;
    transaction.rollback_to("inner").await?;
    transaction.send(&[message("4").build()?]).await?;
    transaction.rollback_to("outer").await?;
    transaction.send(&[message("5").key("k").build()?]).await?;
    transaction.commit().await?;
    let mut ids = stage.owner().await?.ids().await?;
    ids.sort_unstable();
    assert_eq!(ids, ["1", "5"]);
    for id in ["2", "3", "4"] {
        assert!(stage.find(id).await?.is_none(), "{id} was undone");
    }
    // What was undone is free again.
    stage.send(&[message("3").build()?]).await?;
    assert_eq!(stage.place("3").await?, Some(Place::Ready));
    Ok(())
}

/// One commit shows all of its messages, and a key's in the order of the sends.
pub async fn messages_of_one_transaction_keep_their_order<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut transaction = stage.subject.begin().await?;
    for round in 0..10 {
        let batch: Vec<Message> = (0..10)
            .map(|n| message(&format!("{:03}", round * 10 + n)).key("k").build())
            .collect::<Result<_>>()?;
        transaction.send(&batch).await?;
    }
    transaction.commit().await?;
    let ids = stage.owner().await?.ids().await?;
    let sent: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    assert_eq!(ids, sent);
    Ok(())
}

/// Source and id are unique together while the message is in the outbox.
pub async fn a_second_send_of_a_pair_is_refused<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    let mut transaction = stage.subject.begin().await?;
    let error = transaction.send(&[message("1").body("other").build()?]).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Duplicate));
    transaction.rollback().await?;
    let error = stage.store.send_all(&[message("1").build()?]).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Duplicate));
    assert_eq!(stage.owner().await?.ids().await?, ["1"]);
    Ok(())
}

/// Source and id stay unique together after the message has gone, for the horizon.
pub async fn a_second_send_is_refused_after_the_publish_too<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("1").build()?]).await?;
    let owner = stage.owner().await?;
    assert_eq!(owner.drain().await?, ["1"]);
    let mut transaction = stage.subject.begin().await?;
    let error = transaction.send(&[message("1").build()?]).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Duplicate));
    drop(transaction);
    assert!(owner.ids().await?.is_empty());
    Ok(())
}

/// A pair twice in one command fails the command: not one of its messages is left.
pub async fn a_pair_twice_in_one_command_is_refused<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let batch = [message("1").build()?, message("2").build()?, message("1").build()?];
    let error = stage.store.send_all(&batch).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Duplicate));
    assert!(stage.owner().await?.ids().await?.is_empty());
    stage.send(&batch[..2]).await?;
    assert_eq!(stage.store.stats().await?.pending, 2);
    Ok(())
}

/// The pair is what is unique, not the id.
pub async fn two_sources_may_use_the_same_id<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let other = Message::builder("other", "suite.topic").id("1").build()?;
    stage.send(&[message("1").build()?, other]).await?;
    assert_eq!(stage.owner().await?.ids().await?, ["1", "1"]);
    assert_eq!(stage.store.find("1", None).await?.len(), 2);
    assert_eq!(stage.store.find("1", Some(SOURCE)).await?.len(), 1);
    Ok(())
}

/// Callers who race with one pair: one message, and the others are told.
pub async fn one_pair_sent_at_once_is_one_message<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let store = stage.subject.open().await?;
        let sent = message("1").body(n.to_string()).build()?;
        tasks.spawn(async move { store.send_all(&[sent]).await });
    }
    let mut won = 0;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(())) => won += 1,
            Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}"),
            Err(panicked) => panic!("a sender ended badly: {panicked}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(stage.owner().await?.ids().await?, ["1"]);
    Ok(())
}

/// The operator's send is all or none.
pub async fn the_desks_send_is_all_or_none<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[message("7").build()?]).await?;
    let batch: Vec<Message> =
        (0..10).map(|n| message(&n.to_string()).build()).collect::<Result<_>>()?;
    let error = stage.store.send_all(&batch).await.err();
    assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Duplicate));
    assert_eq!(stage.store.stats().await?.pending, 1);
    stage.store.send_all(&batch[..7]).await?;
    assert_eq!(stage.store.stats().await?.pending, 8);
    Ok(())
}

/// No message and thousands of messages are both one call.
pub async fn a_send_takes_none_or_thousands<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send(&[]).await?;
    stage.store.send_all(&[]).await?;
    assert_eq!(stage.store.stats().await?.pending, 0);
    let many: Vec<Message> =
        (0..5_000).map(|n| message(&format!("{n:05}")).key("k").build()).collect::<Result<_>>()?;
    stage.send(&many).await?;
    let owner = stage.owner().await?;
    let drained = owner.drain().await?;
    assert_eq!(drained.len(), many.len());
    assert!(drained.is_sorted(), "a key keeps its order");
    assert_eq!(stage.store.stats().await?.published, 5_000);
    Ok(())
}

/// Who sends a pair that a running transaction has sent waits for its end (or is asked to come
/// again): after a rollback the pair is his, after a commit he is told.
pub async fn a_pair_of_a_running_transaction_is_decided_by_its_end<S: Subject>() -> Result<()> {
    for commits in [false, true] {
        let stage = Stage::<S>::new().await?;
        let mut first = stage.subject.begin().await?;
        first.send(&[message("1").body("first").build()?]).await?;
        let store = stage.subject.open().await?;
        let second = [message("1").body("second").build()?];
        let waiting = tokio::spawn(async move {
            loop {
                match store.send_all(&second).await {
                    Err(error)
                        if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Locked) => {}
                    ended => return ended,
                }
                tokio::task::yield_now().await;
            }
        });
        tokio::time::sleep(SHORT).await;
        assert!(!waiting.is_finished(), "nothing is decided yet");
        if commits {
            first.commit().await?;
        } else {
            first.rollback().await?;
        }
        let kind = joined(waiting.await).err().map(|error| error.kind());
        assert_eq!(kind, commits.then_some(ErrorKind::Duplicate));
        let row = stage.owner().await?.row("1").await?;
        let Content::Message(found) = row.content else { panic!("it decodes") };
        let expected = if commits { "first" } else { "second" };
        assert_eq!(found.body().as_ref(), expected.as_bytes());
        assert_eq!(stage.store.stats().await?.pending, 1);
    }
    Ok(())
}

/// A publish that another process settles does not disturb a running transaction.
pub async fn a_running_transaction_and_a_relay_do_not_disturb_each_other<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    let owner = stage.owner().await?;
    stage.send_keyed("k", &["1"]).await?;
    let seen = owner.row("1").await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&[message("2").key("k").build()?]).await?;
    if S::FACTS.one_writer {
        transaction.commit().await?;
        owner.settle(&seen, published(false)).await?;
    } else {
        // The relay's verdict waits for no caller.
        owner.settle(&seen, published(false)).await?;
        transaction.commit().await?;
    }
    assert_eq!(owner.drain().await?, ["2"]);
    Ok(())
}
