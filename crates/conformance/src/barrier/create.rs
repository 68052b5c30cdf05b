//! Creation: an id is one barrier, and names are bytes.

use sendoff_core::Result;
use sendoff_core::barrier::{
    BarrierId, BarrierState, Json, Outcome, Plan, Reason, RefusalCode, Which,
};

use super::stage::{DAY, DONE, HOUR, Stage, continuation, id, name, only, plan, refused};
use super::subject::Subject;

/// What was asked for is there.
pub async fn a_barrier_is_as_it_was_created<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    assert!(stage.store.barrier_status(&id("b")).await?.is_none());
    let state = Json::parse(r#"{ "ref": 12345678901234567890 }"#)?;
    let created = stage.create(plan("b", ["a", "b"]).deadline(HOUR).state(state.clone())).await?;
    assert_eq!(created.id, "b");
    assert!(!created.existing && !created.differs && !created.complete);
    let status = stage.status("b").await?;
    assert_eq!((status.id.as_str(), status.total, status.pending), ("b", 2, 2));
    assert_eq!((status.state, status.reason, status.epoch), (BarrierState::Open, None, 1));
    assert!(status.sealed && !status.complete && !status.overdue);
    assert_eq!((status.dispatched, status.completed_at, status.last_ack_at), (None, None, None));
    assert_eq!(status.continue_with.as_deref(), Some(DONE));
    assert_eq!(status.state_value, Some(state));
    let after = |time: Option<sendoff_core::time::Timestamp>| {
        time.map(|time| time.duration_since(status.created_at).as_secs())
    };
    assert_eq!(after(status.deadline_at), Some(3_600));
    assert_eq!(after(Some(status.expires_at)), Some(7 * 24 * 3_600));
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// The same id again changes nothing and says so.
pub async fn an_id_that_is_there_is_answered_and_left_as_it_is<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    stage.ok("b", "a").await?;
    let again = stage.create(plan("b", ["b", "a"])).await?;
    assert!(again.existing && !again.differs && !again.complete);
    let other = stage.create(plan("b", ["a", "c", "d"])).await?;
    assert!(other.existing && other.differs);
    assert_eq!(stage.counts("b").await?, [2, 1, 1, 0, 0]);
    assert!(stage.ok("b", "b").await?.complete);
    let again = stage.create(plan("b", ["b", "a"])).await?;
    assert!(again.existing && again.complete, "a complete one is there too");
    assert_eq!(stage.deliver().await?.len(), 1);
    Ok(())
}

/// Other members are an error only where the caller is strict.
pub async fn a_strict_creation_refuses_other_members<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::with(&["a", "b"]).await?;
    let other = stage.try_create(plan("b", ["a", "c"]).strict()).await?;
    assert_eq!(refused(other), RefusalCode::Conflict);
    assert!(stage.create(plan("b", ["b", "a"]).strict()).await?.existing);
    assert_eq!(stage.names("b", Which::Pending).await?, ["a", "b"]);
    Ok(())
}

/// An empty list is complete, and its continuation comes, one.
pub async fn an_empty_list_completes_at_once<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    assert!(stage.create(plan("b", [""; 0])).await?.complete);
    assert!(stage.create(plan("b", [""; 0])).await?.existing);
    let message = only(stage.deliver().await?);
    let status = stage.hydrate(&continuation(&message)).await?;
    let Some(status) = status else { panic!("it is complete") };
    assert_eq!((status.total, status.state), (0, BarrierState::Complete));
    assert_eq!(status.reason, Some(Reason::All));
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// Without a continuation it is a work list: it says that it is complete, and sends nothing.
pub async fn a_barrier_without_a_continuation_is_a_work_list<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.create(Plan::builder(id("b")).members(["a"])).await?;
    let acked = stage.ok("b", "a").await?;
    assert!(acked.complete && !acked.duplicate);
    let status = stage.status("b").await?;
    assert!(status.complete);
    assert_eq!(status.dispatched, None);
    assert!(stage.deliver().await?.is_empty());
    Ok(())
}

/// Names are stored and matched byte for byte, whatever they are.
pub async fn names_are_bytes<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let long = vec![b'x'; 1_024];
    let mut names: Vec<&[u8]> = vec![
        b"a",
        b"A",
        b" a",
        b"a ",
        b"a\n",
        b":/|%",
        b"%2F",
        b"a+b",
        b"\0",
        b"a\0b",
        b"\xff\xfe",
        b"'",
        b"\"",
        b"\\x61",
        b"{}",
        b"null",
        b"0",
        b"00",
        &long,
    ];
    // Composed and decomposed: no normalisation.
    let (composed, decomposed) = ("\u{e9}", "e\u{301}");
    names.extend([composed.as_bytes(), decomposed.as_bytes(), "\u{1f41f}".as_bytes()]);
    stage.create(plan("b", &names)).await?;
    names.sort_unstable();
    let read = |members: Vec<sendoff_core::barrier::MemberOutcome>| -> Vec<Vec<u8>> {
        members.iter().map(|member| member.member.as_bytes().to_vec()).collect()
    };
    assert_eq!(read(stage.members("b", Which::Pending).await?), names);
    for (index, one) in names.iter().enumerate() {
        let result = Json::parse(index.to_string())?;
        let outcome = Outcome::ok().with_result(result);
        let acked = stage.try_ack("b", one, outcome).await?;
        let complete = acked.is_ok_and(|acked| !acked.duplicate && acked.complete);
        assert_eq!(complete, index + 1 == names.len(), "{:?}", name(one));
    }
    let members = stage.members("b", Which::Resolved).await?;
    for (index, member) in members.iter().enumerate() {
        let result = member.outcome.as_ref().and_then(Outcome::result);
        assert_eq!(result.map(Json::as_str), Some(index.to_string().as_str()));
    }
    assert_eq!(read(members), names);
    Ok(())
}

/// Two tenants never meet.
pub async fn tenants_share_ids_and_nothing_else<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let of = |tenant: &str| BarrierId::of_tenant(tenant, "b");
    for tenant in ["", "t", "u"] {
        stage.create(Plan::builder(of(tenant)?).members(["a"]).continue_with(DONE)).await?;
    }
    let batch = super::stage::batch("b", ["a"]);
    let batch = sendoff_core::barrier::AckBatch { id: of("t")?, ..batch };
    assert!(stage.ack_all(&batch).await?.complete);
    let continuation = continuation(&only(stage.deliver().await?));
    assert_eq!((continuation.tenant.as_str(), continuation.barrier.as_str()), ("t", "b"));
    assert!(stage.hydrate(&continuation).await?.is_some());
    for (tenant, complete) in [("", false), ("t", true), ("u", false)] {
        let status = stage.store.barrier_status(&of(tenant)?).await?;
        assert_eq!(status.map(|status| status.complete), Some(complete), "{tenant:?}");
        assert_eq!(stage.store.barriers(tenant, None, 10).await?.len(), 1);
    }
    Ok(())
}

/// A deadline lies before the end: one that is too far away is refused before anything is written.
pub async fn a_deadline_lies_before_the_end<S: Subject>() -> Result<()> {
    let plan = |deadline| plan("b", ["a"]).deadline(deadline).build();
    assert!(plan(7 * DAY - HOUR).is_ok());
    assert!(plan(7 * DAY).is_err());
    let stage = Stage::<S>::new().await?;
    stage.create(super::stage::plan("b", ["a"]).deadline(7 * DAY - HOUR)).await?;
    assert!(!stage.status("b").await?.overdue);
    Ok(())
}
