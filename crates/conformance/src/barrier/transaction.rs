//! In the caller's transaction: everything commits together or not at all.

use sendoff_core::barrier::{Change, Outcome, RefusalCode, Which};
use sendoff_core::{Message, Result};

use super::stage::{Stage, ack, batch, built, continuation, id, only, plan, refused, taken};
use super::subject::Subject;

fn own_work() -> Result<Message> {
    Message::builder("suite", "suite.own").id("own").build()
}

/// The acknowledgements, the caller's own work, the completion and the continuation are one commit.
pub async fn one_commit_has_it_all<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    stage.ok("b", "a").await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&own_work()?).await?;
    let acked = taken(transaction.ack(&batch("b", ["b"])).await?);
    assert!(acked.complete, "the transaction itself sees it");
    let status = transaction.status(&id("b")).await?;
    assert_eq!(status.map(|status| status.complete), Some(true));
    assert_eq!(stage.store.stats().await?.pending, 0, "invisible until the commit");
    transaction.commit().await?;
    let delivered = stage.deliver().await?;
    let mut topics: Vec<&str> = delivered.iter().map(Message::topic).collect();
    topics.sort_unstable();
    assert_eq!(topics, ["suite.done", "suite.own"]);
    assert!(stage.status("b").await?.complete);
    Ok(())
}

/// After a rollback nothing was acknowledged, and the next one completes.
pub async fn what_rolled_back_was_not_acknowledged<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    for dropped in [false, true] {
        let mut transaction = stage.subject.begin().await?;
        transaction.send(&own_work()?).await?;
        assert!(taken(transaction.ack(&batch("b", ["a", "b"])).await?).complete);
        if dropped {
            drop(transaction);
        } else {
            transaction.rollback().await?;
        }
        // A dropped one is rolled back as soon as the database has noticed.
        let mut transaction = stage.subject.begin().await?;
        let none = taken(transaction.ack(&batch("b", [""; 0])).await?);
        assert!(!none.complete);
        transaction.rollback().await?;
        assert_eq!(stage.counts("b").await?, [2, 0, 2, 0, 0]);
        assert!(stage.deliver().await?.is_empty());
    }
    assert!(!stage.ok("b", "b").await?.complete);
    assert!(stage.ok("b", "a").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// A creation that is rolled back never was: there is a barrier or there is none, and nothing between.
pub async fn a_creation_that_rolled_back_never_was<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut transaction = stage.subject.begin().await?;
    let asked = built(plan("b", ["a", "b"]));
    assert!(!taken(transaction.create(&asked).await?).existing);
    assert!(taken(transaction.create(&asked).await?).existing, "it sees its own");
    transaction.rollback().await?;
    assert!(stage.store.barrier_status(&id("b")).await?.is_none());
    assert!(!stage.create(plan("b", ["c"])).await?.existing);
    assert_eq!(stage.names("b", Which::Pending).await?, ["c"]);
    assert!(stage.ok("b", "c").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// What a savepoint undid never was, and the rest is kept.
pub async fn a_savepoint_takes_its_acknowledgements_back<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b", "c"]).await?;
    let mut transaction = stage.subject.begin().await?;
    taken(transaction.ack(&batch("b", ["a"])).await?);
    transaction.savepoint("s").await?;
    assert!(taken(transaction.ack(&batch("b", ["b", "c"])).await?).complete);
    taken(transaction.create(&built(plan("other", ["a"]))).await?);
    transaction.rollback_to("s").await?;
    assert!(!taken(transaction.ack(&batch("b", ["b"])).await?).complete);
    transaction.commit().await?;
    assert_eq!(stage.names("b", Which::Resolved).await?, ["a", "b"]);
    assert!(stage.store.barrier_status(&id("other")).await?.is_none());
    assert!(stage.deliver().await?.is_empty());
    assert!(stage.ok("b", "c").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// Created, acknowledged and complete in one transaction.
pub async fn a_barrier_can_begin_and_end_in_one_transaction<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut transaction = stage.subject.begin().await?;
    taken(transaction.create(&built(plan("b", ["a", "b"]))).await?);
    assert!(!taken(transaction.ack(&batch("b", ["b"])).await?).complete);
    assert!(taken(transaction.ack(&batch("b", ["a"])).await?).complete);
    transaction.commit().await?;
    only(stage.deliver().await?);
    assert_eq!(stage.counts("b").await?, [2, 2, 0, 0, 0]);
    Ok(())
}

/// One transaction acknowledges several barriers and one member after the other.
pub async fn one_transaction_can_complete_several_barriers<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut transaction = stage.subject.begin().await?;
    for of in ["x", "y", "z"] {
        taken(transaction.create(&built(plan(of, ["a", "b"]))).await?);
    }
    transaction.commit().await?;
    let mut transaction = stage.subject.begin().await?;
    for member in ["b", "a"] {
        for of in ["z", "x", "y"] {
            let acked = taken(transaction.ack(&batch(of, [member])).await?);
            assert_eq!(acked.complete, member == "a");
        }
    }
    transaction.commit().await?;
    let mut ended: Vec<String> =
        stage.deliver().await?.iter().map(|message| continuation(message).barrier).collect();
    ended.sort_unstable();
    assert_eq!(ended, ["x", "y", "z"]);
    Ok(())
}

/// A refusal changes nothing, and the transaction goes on.
pub async fn a_refusal_leaves_the_transaction_usable<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    let mut transaction = stage.subject.begin().await?;
    transaction.send(&own_work()?).await?;
    let unknown = taken(transaction.ack(&batch("b", ["nobody"])).await?);
    assert_eq!(unknown.refused(), 1);
    let whole = batch("b", ["a", "nobody"]).all_or_nothing();
    assert_eq!(refused(transaction.ack(&whole).await?), RefusalCode::UnknownMember);
    assert_eq!(refused(transaction.ack(&batch("none", ["a"])).await?), RefusalCode::NotFound);
    let strict = built(plan("b", ["x"]).strict());
    assert_eq!(refused(transaction.create(&strict).await?), RefusalCode::Conflict);
    let grown = Change::Grow(Vec::new());
    assert_eq!(refused(transaction.change(&id("none"), &grown).await?), RefusalCode::NotFound);
    assert!(taken(transaction.ack(&batch("b", ["a"])).await?).complete);
    transaction.commit().await?;
    assert_eq!(stage.deliver().await?.len(), 2, "the caller's own message and the continuation");
    Ok(())
}

/// Pages and status of the caller's transaction are those of its own work.
pub async fn a_transaction_reads_what_it_wrote<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    let mut transaction = stage.subject.begin().await?;
    let acks = vec![ack("a", Outcome::failed().with_error("no"))];
    let acks = sendoff_core::barrier::AckBatch::new(id("b"), acks);
    taken(transaction.ack(&acks).await?);
    let page = sendoff_core::barrier::Page {
        id: id("b"),
        which: Which::Failed,
        after: None,
        limit: 10,
        only: None,
    };
    let read = transaction.outcomes(&page).await?;
    assert_eq!(read.map(|read| read.members.len()), Some(1));
    let excluded = Change::Exclude(super::stage::name("b"));
    assert!(taken(transaction.change(&id("b"), &excluded).await?).complete);
    let status = transaction.status(&id("b")).await?;
    assert_eq!(status.map(|status| (status.resolved, status.failed)), Some((2, 2)));
    transaction.rollback().await?;
    assert_eq!(stage.counts("b").await?, [2, 0, 2, 0, 0]);
    Ok(())
}
