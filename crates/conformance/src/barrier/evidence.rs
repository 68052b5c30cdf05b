//! Evidence: acknowledgements that were refused and may explain something.

use sendoff_core::Result;
use sendoff_core::barrier::{
    AckBatch, Change, EVIDENCE_MAX, Evidence, EvidenceKind, OnDeadline, Outcome, Probe,
};

use super::stage::{HOUR, MINUTE, Stage, ack, batch, id, name, only, plan};
use super::subject::Subject;

async fn evidence<S: Subject>(stage: &Stage<S>) -> Result<Vec<Evidence>> {
    Ok(stage.store.barrier_why(&id("b")).await?.map(|why| why.evidence).unwrap_or_default())
}

/// A name that is not on the list is kept, with what it may have meant.
pub async fn unknown_names_are_kept_with_near_ones<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a.xml", "b.xml"]).await?;
    let acks = vec![ack("A.XML", Outcome::failed()), ack("b.xml", Outcome::ok())];
    stage.ack_all(&AckBatch::new(id("b"), acks).by("http")).await?;
    let kept = evidence(&stage).await?;
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].kind, kept[0].ok), (EvidenceKind::Unknown, false));
    assert_eq!((&kept[0].member, kept[0].channel.as_str()), (&name("A.XML"), "http"));
    assert_eq!(kept[0].near, [name("a.xml")]);
    assert!(kept[0].at >= stage.status("b").await?.created_at);
    Ok(())
}

/// What comes after the end is kept as late, and changes nothing.
pub async fn late_acknowledgements_are_kept<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let asked = plan("b", ["a", "b"]).deadline(HOUR).on_deadline(OnDeadline::Continue);
    stage.create(asked).await?;
    stage.ok("b", "b").await?;
    stage.subject.age(HOUR + MINUTE).await?;
    only(stage.deliver().await?);
    let acked = stage.ack_all(&batch("b", ["a", "b", "\u{fffd}"]).by("nats")).await?;
    assert_eq!((acked.refused(), acked.duplicates()), (2, 1));
    let kept = evidence(&stage).await?;
    let kinds: Vec<_> = kept.iter().map(|one| (one.kind, one.member.to_string())).collect();
    assert!(kinds.contains(&(EvidenceKind::Late, "a".to_owned())), "{kinds:?}");
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|one| one.ok && one.channel == "nats"));
    Ok(())
}

/// Evidence is bounded, and the last of it is kept.
pub async fn evidence_is_bounded<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    for round in 0..3 {
        let names: Vec<String> = (0..EVIDENCE_MAX).map(|n| format!("{round}-{n}")).collect();
        stage.ack_all(&batch("b", &names)).await?;
    }
    assert_eq!(stage.ack_all(&batch("b", ["the last"])).await?.refused(), 1);
    let kept = evidence(&stage).await?;
    assert_eq!(kept.len(), EVIDENCE_MAX);
    assert!(kept.iter().any(|one| one.member == name("the last")));
    assert!(!kept.iter().any(|one| one.member == name("0-0")));
    Ok(())
}

/// What is found by a probe and is not on the list is no evidence against anybody.
pub async fn a_probe_leaves_no_evidence<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let Some(query) = stage.subject.lost(&[("a", true), ("nobody", true)]).await? else {
        return Ok(());
    };
    stage.create(plan("b", ["a", "b"]).probe(Probe::Sql(query))).await?;
    assert!(stage.store.reconcile_barrier(&id("b")).await?.is_ok());
    assert!(evidence(&stage).await?.is_empty());
    stage.change("b", Change::Cancel).await?;
    assert_eq!(stage.counts("b").await?, [2, 1, 1, 0, 0]);
    Ok(())
}
