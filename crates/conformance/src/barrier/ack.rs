//! Acknowledgements: the first of each member counts, and the last one sends the continuation.

use sendoff_core::Result;
use sendoff_core::barrier::{
    AckBatch, BarrierState, Continuation, Json, OUTCOME_BYTES_MAX, Outcome, Reason, RefusalCode,
    Which, Winner,
};

use super::stage::{DONE, Stage, ack, continuation, id, name, only, plan, refused, taken};
use super::subject::Subject;

fn failed(error: &str) -> Outcome {
    Outcome::failed().with_error(error)
}

/// The acknowledgement that resolves the last member sends one continuation, which carries the
/// barrier's id and no outcome, and reads everything by it.
pub async fn the_last_acknowledgement_sends_one_continuation<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    let first = stage.ack("b", "b", Outcome::ok().with_result(Json::parse("[1]")?)).await?;
    assert!(!first.complete && !first.duplicate && first.remaining.is_none_or(|left| left == 2));
    assert!(!stage.ack("b", "a", failed("no")).await?.complete);
    assert!(stage.deliver().await?.is_empty(), "not before the last one");
    let last = stage.ok("b", "c").await?;
    assert!(last.complete);
    assert_eq!(last.remaining, Some(0));
    assert_eq!(stage.status("b").await?.dispatched, Some(false));
    let message = only(stage.deliver().await?);
    assert_eq!((message.topic(), message.key()), (DONE, Some("b")));
    assert_eq!(message.headers().get(Continuation::HEADER_BARRIER), Some("b"));
    assert_eq!(message.headers().get(Continuation::HEADER_EPOCH), Some("1"));
    assert_eq!(message.headers().get(Continuation::HEADER_REASON), Some("all"));
    assert!(message.body().len() < 100, "the id only: {} bytes", message.body().len());
    let Some(status) = stage.hydrate(&continuation(&message)).await? else {
        panic!("it is complete");
    };
    assert_eq!((status.total, status.resolved, status.failed), (3, 3, 1));
    assert_eq!((status.state, status.reason), (BarrierState::Complete, Some(Reason::All)));
    assert!(status.completed_at.is_some() && status.completed_at >= status.last_ack_at);
    assert_eq!(status.dispatched, Some(true));
    let members = stage.members("b", Which::Resolved).await?;
    assert_eq!(members.len(), 3);
    assert_eq!(members[0].outcome, Some(failed("no")));
    assert_eq!(members[1].outcome.as_ref().and_then(Outcome::result), Some(&Json::parse("[1]")?));
    assert_eq!(stage.names("b", Which::Failed).await?, ["a"]);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// A later acknowledgement changes nothing and says who was first.
pub async fn the_first_acknowledgement_wins<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    let outcome = failed("rejected").with_result(Json::parse(r#"{"id": "r-17"}"#)?);
    let first = AckBatch::new(id("b"), vec![ack("a", outcome.clone())]).by("nats");
    let first = taken(stage.ack_all(&first).await?.only());
    assert!(!first.duplicate && !first.conflict && first.winner.is_none());
    for (again, conflict) in [
        (Outcome::ok(), true),
        (failed("rejected").with_result(Json::parse(r#"{ "id":"r-17" }"#)?), false),
        (failed("other"), true),
    ] {
        let answer = stage.ack("b", "a", again).await?;
        assert!(answer.duplicate && !answer.complete);
        assert_eq!(answer.conflict, conflict);
        let Some(Winner { ok, error, result, channel, at }) = answer.winner else {
            panic!("a duplicate has a winner");
        };
        assert_eq!((ok, error.as_deref(), channel.as_str()), (false, Some("rejected"), "nats"));
        assert_eq!(result.as_ref(), outcome.result(), "as it was written");
        assert!(at >= stage.status("b").await?.created_at);
    }
    assert_eq!(stage.counts("b").await?, [2, 1, 1, 1, 0]);
    let kept = stage.members("b", Which::Resolved).await?;
    assert_eq!(kept[0].outcome, Some(outcome));
    assert_eq!(kept[0].channel, "nats");
    Ok(())
}

/// A failed acknowledgement resolves its member: a barrier does not wait for what will not come.
pub async fn a_failed_acknowledgement_resolves_its_member<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    stage.ack("b", "a", Outcome::failed()).await?;
    assert!(stage.ack("b", "b", Outcome::failed()).await?.complete);
    assert_eq!(stage.counts("b").await?, [2, 2, 0, 2, 0]);
    only(stage.deliver().await?);
    Ok(())
}

/// A repetition of the last acknowledgement is a duplicate, before and after the continuation has
/// gone, and sends nothing.
pub async fn a_repeated_last_acknowledgement_sends_nothing<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    assert!(stage.ok("b", "a").await?.complete);
    let again = stage.ok("b", "a").await?;
    assert!(again.duplicate && again.complete && !again.conflict);
    only(stage.deliver().await?);
    assert!(stage.ok("b", "a").await?.duplicate);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// A name that is not on the list is refused, changes nothing, and near ones are named.
pub async fn an_unknown_member_is_refused_and_near_ones_are_named<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["Invoice 1.xml", "b"]).await?;
    for near in ["invoice 1.xml", " Invoice 1.xml\n", "Invoice%201.xml", "Invoice+1.XML"] {
        let Err(refusal) = stage.try_ack("b", near, Outcome::ok()).await? else {
            panic!("{near} is not on the list");
        };
        assert_eq!(refusal.code(), RefusalCode::UnknownMember);
        assert_eq!(refusal.near(), [name("Invoice 1.xml")], "{near}");
        assert!(refusal.to_string().contains("did you mean"), "{refusal}");
    }
    let Err(refusal) = stage.try_ack("b", "another", Outcome::ok()).await? else {
        panic!("it is not on the list");
    };
    assert!(refusal.near().is_empty());
    assert_eq!(stage.counts("b").await?, [2, 0, 2, 0, 0]);
    Ok(())
}

/// There is no such barrier.
pub async fn a_barrier_that_is_not_there_is_told<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let code = refused(stage.try_ack("b", "a", Outcome::ok()).await?);
    assert_eq!(code, RefusalCode::NotFound);
    assert!(stage.store.barrier_status(&id("b")).await?.is_none());
    assert!(stage.store.barrier_why(&id("b")).await?.is_none());
    Ok(())
}

/// 8,192 encoded bytes are taken and come back; one more is refused with nothing changed.
pub async fn an_outcome_has_at_most_8192_bytes_as_encoded<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    let room = OUTCOME_BYTES_MAX - Outcome::ok().with_error("").encode().map_or(0, |e| e.len());
    let over = Outcome::ok().with_error("x".repeat(room + 1));
    assert_eq!(refused(stage.try_ack("b", "a", over).await?), RefusalCode::TooLarge);
    // Bytes are counted as they are encoded: a control character has six.
    let over = Outcome::ok().with_error("\u{1}".repeat(room / 6 + 1));
    assert_eq!(refused(stage.try_ack("b", "a", over).await?), RefusalCode::TooLarge);
    assert_eq!(stage.counts("b").await?, [2, 0, 2, 0, 0]);
    let fits = Outcome::ok().with_error("x".repeat(room));
    stage.ack("b", "a", fits.clone()).await?;
    assert_eq!(stage.members("b", Which::Resolved).await?[0].outcome, Some(fits));
    Ok(())
}

/// Results are kept as they were written: numbers, order, NUL.
pub async fn outcomes_survive_as_they_were_written<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    let result = Json::parse(r#"{"z": 1.10, "a": 12345678901234567890123, "s": "\u0000ü\u2028"}"#)?;
    let outcome = failed("a \0 b \u{1f41f}").with_result(result);
    stage.ack("b", "a", outcome.clone()).await?;
    assert_eq!(stage.members("b", Which::Failed).await?[0].outcome, Some(outcome));
    Ok(())
}

/// Acknowledgements from several handles at once: each member once, one continuation.
pub async fn acknowledgements_at_once_send_one_continuation<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    for round in 0..10 {
        let of = format!("b-{round}");
        let members: Vec<String> = (0..8).map(|n| format!("m{n}")).collect();
        stage.create(plan(&of, &members)).await?;
        let mut tasks = Vec::new();
        for worker in 0..4 {
            let (store, of, members) = (stage.subject.open().await?, of.clone(), members.clone());
            tasks.push(tokio::spawn(async move {
                let mut completed = 0;
                // Each of them acknowledges every member, from another one on.
                for n in 0..members.len() {
                    let member = &members[(n + worker * 2) % members.len()];
                    let batch = AckBatch::new(id(&of), vec![ack(member, Outcome::ok())]);
                    loop {
                        match store.ack_members(&batch).await? {
                            Ok(acked) => {
                                completed += u32::from(acked.resolved() == 1 && acked.complete);
                                break;
                            }
                            Err(refusal) => assert_eq!(refusal.code(), RefusalCode::Busy),
                        }
                    }
                }
                Ok::<_, sendoff_core::Error>(completed)
            }));
        }
        let mut completed = 0;
        for task in tasks {
            match task.await {
                Ok(ended) => completed += ended?,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(completed, 1, "one of them resolved the last member");
        assert_eq!(continuation(&only(stage.deliver().await?)).barrier, of);
    }
    Ok(())
}
