//! Probes: lost acknowledgements are found by a query.

use sendoff_core::Result;
use sendoff_core::barrier::{Change, OnDeadline, Outcome, Probe, Reason, RefusalCode, Which};

use super::stage::{HOUR, MINUTE, Stage, continuation, id, only, plan, refused, taken};
use super::subject::Subject;

const LOST: [(&str, bool); 4] = [("a", true), ("b", false), ("c", true), ("nobody", true)];

/// A stage with `b` of four members and a probe that finds three of them; `None` where the store runs
/// no SQL, and says so.
async fn probed<S: Subject>(deadline: bool) -> Result<Option<Stage<S>>> {
    let stage = Stage::<S>::new().await?;
    let Some(query) = stage.subject.lost(&LOST).await? else {
        let probe = Probe::Sql("SELECT 1".to_owned());
        stage.create(plan("b", ["a"]).probe(probe)).await?;
        let answer = stage.store.reconcile_barrier(&id("b")).await?;
        assert_eq!(refused(answer), RefusalCode::Invalid);
        return Ok(None);
    };
    let mut asked = plan("b", ["a", "b", "c", "d"]).probe(Probe::Sql(query));
    if deadline {
        asked = asked.deadline(HOUR).on_deadline(OnDeadline::Continue);
    }
    stage.create(asked).await?;
    stage.ack("b", "c", Outcome::failed()).await?;
    Ok(Some(stage))
}

/// On demand: what is pending and found is acknowledged, what is resolved stays.
pub async fn a_probe_finds_lost_acknowledgements<S: Subject>() -> Result<()> {
    let Some(stage) = probed::<S>(false).await? else { return Ok(()) };
    let found = taken(stage.store.reconcile_barrier(&id("b")).await?);
    assert_eq!((found.resolved(), found.complete), (2, false));
    let members = stage.members("b", Which::Resolved).await?;
    let told: Vec<_> = members
        .iter()
        .map(|one| {
            let ok = one.outcome.as_ref().is_some_and(Outcome::is_ok);
            (one.member.to_string(), ok, one.channel.as_str())
        })
        .collect();
    let expected = [("a", true, "probe"), ("b", false, "probe"), ("c", false, "")];
    assert_eq!(told, expected.map(|(name, ok, by)| (name.to_owned(), ok, by)));
    let again = taken(stage.store.reconcile_barrier(&id("b")).await?);
    assert_eq!(again.resolved(), 0);
    assert!(stage.ok("b", "d").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// A probe can find the last one.
pub async fn a_probe_can_complete_a_barrier<S: Subject>() -> Result<()> {
    let Some(stage) = probed::<S>(false).await? else { return Ok(()) };
    stage.ok("b", "d").await?;
    assert!(taken(stage.store.reconcile_barrier(&id("b")).await?).complete);
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::All));
    Ok(())
}

/// Before a deadline closes a barrier, its probe is asked.
pub async fn a_deadline_asks_the_probe_first<S: Subject>() -> Result<()> {
    let Some(stage) = probed::<S>(true).await? else { return Ok(()) };
    stage.subject.age(HOUR + MINUTE).await?;
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::Deadline));
    assert_eq!(stage.names("b", Which::Missing).await?, ["d"]);
    assert_eq!(stage.counts("b").await?, [4, 3, 0, 2, 1]);
    Ok(())
}

/// Where the probe finds everything there is no deadline to speak of.
pub async fn a_probe_that_finds_everything_spares_the_deadline<S: Subject>() -> Result<()> {
    let Some(stage) = probed::<S>(true).await? else { return Ok(()) };
    stage.change("b", Change::Exclude(super::stage::name("d"))).await?;
    stage.subject.age(HOUR + MINUTE).await?;
    assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(Reason::All));
    Ok(())
}

/// A query that fails or wants to write keeps no deadline from coming, and does not write.
pub async fn a_broken_probe_does_not_keep_the_deadline<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let Some(query) = stage.subject.lost(&[("a", true)]).await? else { return Ok(()) };
    let broken = ["nonsense", "SELECT no_such_column FROM no_such_table"];
    let writing = [
        "DELETE FROM lost",
        "DELETE FROM lost RETURNING member",
        "UPDATE lost SET member = 'x' RETURNING member",
        "DROP TABLE lost",
    ];
    let queries: Vec<&str> = broken.into_iter().chain(writing).collect();
    for (n, query) in queries.iter().enumerate() {
        let asked = plan(&format!("b{n}"), ["a"]).probe(Probe::Sql((*query).to_owned()));
        stage.create(asked.deadline(HOUR).on_deadline(OnDeadline::Continue)).await?;
        let answer = stage.store.reconcile_barrier(&id(&format!("b{n}"))).await;
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.is_err()), "{query}");
    }
    stage.subject.age(HOUR + MINUTE).await?;
    let delivered = stage.deliver().await?;
    assert_eq!(delivered.len(), queries.len());
    for message in &delivered {
        assert_eq!(continuation(message).reason, Some(Reason::Deadline));
    }
    stage.create(plan("b", ["a"]).probe(Probe::Sql(query))).await?;
    let found = taken(stage.store.reconcile_barrier(&id("b")).await?);
    assert!(found.complete, "the table is as it was");
    Ok(())
}

/// Keys under a prefix: on demand, those whose member is pending are acknowledged, page by page.
pub async fn keys_under_a_prefix_are_acknowledged<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let keys = Probe::Keys("keys:a nobody b! c e".to_owned());
    stage.create(plan("b", ["a", "b", "c", "d", "e"]).probe(keys)).await?;
    stage.ack("b", "c", Outcome::failed()).await?;
    let found = taken(stage.store.reconcile_barrier(&id("b")).await?);
    assert_eq!((found.resolved(), found.complete), (3, false));
    assert_eq!(stage.counts("b").await?, [5, 4, 1, 2, 0]);
    let by: Vec<(String, bool, String)> = stage
        .members("b", Which::Resolved)
        .await?
        .into_iter()
        .map(|one| (one.member.to_string(), one.outcome.is_some_and(|o| o.is_ok()), one.channel))
        .collect();
    for (name, ok) in [("a", true), ("b", false), ("e", true)] {
        assert!(by.contains(&(name.to_owned(), ok, "probe".to_owned())), "{name}: {by:?}");
    }
    assert!(by.iter().any(|(name, ok, channel)| name == "c" && !ok && channel != "probe"));
    let Some(why) = stage.store.barrier_why(&id("b")).await? else { panic!("it is there") };
    assert!(why.evidence.is_empty(), "a key of nobody is no near miss: {:?}", why.evidence);
    assert_eq!(taken(stage.store.reconcile_barrier(&id("b")).await?).resolved(), 0);
    assert!(stage.ok("b", "d").await?.complete);
    only(stage.deliver().await?);
    Ok(())
}

/// Before a deadline closes a barrier its keys are listed; where they cannot be, it closes all the same.
pub async fn a_deadline_lists_the_keys_first<S: Subject>() -> Result<()> {
    for (of, prefix, missing) in [
        ("whole", "keys:a b", &[][..]),
        ("part", "keys:b! x", &["a"]),
        ("breaks", "broken:a", &["b"]),
        ("strange", "strange:a b", &["a", "b"]),
    ] {
        let stage = Stage::<S>::new().await?;
        let asked = plan(of, ["a", "b"]).probe(Probe::Keys(prefix.to_owned()));
        stage.create(asked.deadline(HOUR).on_deadline(OnDeadline::Continue)).await?;
        stage.subject.age(HOUR + MINUTE).await?;
        let reason = if missing.is_empty() { Reason::All } else { Reason::Deadline };
        assert_eq!(continuation(&only(stage.deliver().await?)).reason, Some(reason), "{of}");
        assert_eq!(stage.names(of, Which::Missing).await?, missing, "{of}");
    }
    Ok(())
}

/// Without a probe, or with keys that its source does not know, it is told.
pub async fn what_cannot_be_probed_is_told<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a"]).await?;
    stage.create(plan("keys", ["a"]).probe(Probe::Keys("Acks/b/".to_owned()))).await?;
    assert!(stage.store.reconcile_barrier(&id("keys")).await.is_err());
    for (of, code) in [("none", RefusalCode::NotFound), ("b", RefusalCode::Invalid)] {
        assert_eq!(refused(stage.store.reconcile_barrier(&id(of)).await?), code, "{of}");
    }
    Ok(())
}
