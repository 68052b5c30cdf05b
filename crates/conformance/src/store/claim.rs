//! Claims: rows that are published while nobody else can have them.
#![expect(clippy::expect_used, reason = "a case panics where the store breaks its contract")]

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::store::{
    ClaimRequest, ClaimStore, Claimed, Content, KeptLook, Mark, MarkVerdict, Place,
    QuarantineReason, RelayId, Retention,
};
use sendoff_core::{ErrorKind, Result};

use super::stage::{LONG, SHORT, Stage, message, plain, quarantined, retry};
use super::subject::Subject;

/// A relay that claims, on a handle of its own.
struct Claimer {
    store: Arc<dyn ClaimStore>,
    id: RelayId,
}

type Claim<'a> = Option<Box<dyn Claimed + 'a>>;

impl Claimer {
    async fn new<S: Subject>(stage: &Stage<S>) -> Result<Self> {
        Ok(Self { store: stage.subject.open().await?.claims(), id: RelayId::new() })
    }

    fn request(&self, rows_max: usize) -> ClaimRequest {
        let relay = self.id.clone();
        ClaimRequest {
            relay,
            target: Some("suite:".to_owned()),
            after: 0,
            rows_max,
            bytes_max: 1 << 20,
            lasts: LONG,
        }
    }

    async fn claim(&self, rows_max: usize) -> Result<Claim<'_>> {
        self.store.claim(&self.request(rows_max)).await
    }

    /// Claims, gives the ids and gives the rows back.
    async fn ids(&self, request: &ClaimRequest) -> Result<Vec<String>> {
        let claim = self.store.claim(request).await?;
        let ids = ids_of(&claim);
        if let Some(claim) = claim {
            claim.give_back().await?;
        }
        Ok(ids)
    }

    async fn leave(&self) -> Result<()> {
        self.store.leave(&self.id).await
    }
}

fn ids_of(claim: &Claim<'_>) -> Vec<String> {
    let rows = claim.iter().flat_map(|claim| claim.rows());
    rows.map(|row| match &row.content {
        Content::Message(message) => message.id().to_owned(),
        other => format!("{other:?}"),
    })
    .collect()
}

/// Marks every claimed row with one verdict.
async fn mark(claim: Claim<'_>, verdict: &MarkVerdict) -> Result<u64> {
    let Some(claim) = claim else { return Ok(0) };
    let marks: Vec<Mark> =
        claim.rows().iter().map(|row| Mark { seq: row.seq, verdict: verdict.clone() }).collect();
    Ok(claim.mark(&marks).await?.published)
}

fn failed(counts: bool) -> MarkVerdict {
    MarkVerdict::Failed { error: "the target said no".to_owned(), counts }
}

/// The oldest come first, within the bounds on rows, bytes and position; what is due later or stands in
/// quarantine does not come.
pub async fn a_claim_gives_the_oldest_rows_that_may_go_within_its_bounds<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    let later = stage.time_in(LONG).await?;
    stage.send(&[message("later").due_at(later).build()?]).await?;
    stage.send(&[message("set aside").key("k").build()?]).await?;
    let owner = stage.owner().await?;
    owner.settle(&owner.row("set aside").await?, quarantined()).await?;
    stage.lapse(&owner).await?;
    let due = stage.time_in(SHORT).await?;
    stage.send(&[message("due").due_at(due).build()?]).await?;
    for (id, size) in [("1", 2 << 20), ("2", 600_000), ("3", 600_000), ("4", 10)] {
        stage.send(&[message(id).key("k").body(vec![7; size]).build()?]).await?;
    }
    stage.subject.pass(SHORT * 2).await;
    let claimer = Claimer::new(&stage).await?;
    let mut request = claimer.request(100);
    request.bytes_max = 64 << 20;
    assert_eq!(claimer.ids(&request).await?, ["due", "1", "2", "3", "4"]);
    request.rows_max = 2;
    assert_eq!(claimer.ids(&request).await?, ["due", "1"]);
    request.bytes_max = 100;
    assert_eq!(claimer.ids(&request).await?, ["due"], "the next one is too heavy");
    let claim = claimer.store.claim(&claimer.request(2)).await?;
    request.after =
        claim.iter().flat_map(|claim| claim.rows()).map(|row| row.seq).max().unwrap_or(0);
    drop(claim);
    (request.rows_max, request.bytes_max) = (100, 1 << 20);
    stage
        .eventually("rows above the mark", || async {
            let ids = claimer.ids(&request).await?;
            Ok((ids == ["1"]).then_some(()))
        })
        .await
}

/// Another relay passes over what is claimed, and finds it when the claim has ended.
pub async fn claimed_rows_are_nobody_elses_until_the_claim_ends<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let (one, other) = (Claimer::new(&stage).await?, Claimer::new(&stage).await?);
    let claim = one.claim(2).await?;
    assert_eq!(ids_of(&claim), ["1", "2"]);
    let beside = other.claim(10).await?;
    let expected: &[&str] = if S::FACTS.one_writer { &[] } else { &["3"] };
    assert_eq!(ids_of(&beside), expected);
    drop(beside);
    // Without a mark: as a relay that was cancelled.
    drop(claim);
    one.leave().await?;
    stage
        .eventually("all of them", || async {
            let ids = other.ids(&other.request(10)).await?;
            Ok((ids == ["1", "2", "3"]).then_some(()))
        })
        .await
}

/// Relays that claim at the same time get different rows, and each row is got.
pub async fn relays_that_claim_at_once_get_different_rows<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let messages = (0..40).map(|n| message(&n.to_string()).build()).collect::<Result<Vec<_>>>()?;
    stage.send(&messages).await?;
    let mut claimers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let claimer = Claimer::new(&stage).await?;
        claimers.spawn(async move {
            let mut got = Vec::new();
            loop {
                let claim = claimer.claim(1).await?;
                if claim.is_none() {
                    return Ok::<_, sendoff_core::Error>(got);
                }
                got.extend(ids_of(&claim));
                tokio::task::yield_now().await;
                mark(claim, &MarkVerdict::Published).await?;
            }
        });
    }
    let mut got = Vec::new();
    while let Some(claimer) = claimers.join_next().await {
        got.extend(claimer.expect("it does not panic")?);
    }
    assert_eq!(got.len(), 40, "each was claimed by one of them");
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 40, "and by no other");
    assert_eq!(stage.store.stats().await?.published, 40);
    Ok(())
}

/// Published rows go and are counted; failed ones stay, with their attempts and error, and can be claimed
/// at once; quarantined ones stand aside; what has no mark is as it was.
pub async fn one_mark_takes_verdicts_of_every_kind<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["goes", "fails", "down", "aside", "unmarked"]).await?;
    let claimer = Claimer::new(&stage).await?;
    let claim = claimer.claim(10).await?.expect("they are there");
    let reason = QuarantineReason::TooLarge;
    let aside = MarkVerdict::Quarantined { reason, error: "too big".to_owned() };
    let verdicts = [MarkVerdict::Published, failed(true), failed(false), aside];
    let marks: Vec<Mark> = claim
        .rows()
        .iter()
        .zip(verdicts)
        .map(|(row, verdict)| Mark { seq: row.seq, verdict })
        .collect();
    let marked = claim.mark(&marks).await?;
    assert_eq!((marked.published, marked.fenced.len()), (1, 0));
    let stats = stage.store.stats().await?;
    assert_eq!((stats.pending, stats.quarantined, stats.published), (3, 1, 1));
    let at = async |id: &str| Ok::<_, sendoff_core::Error>(stage.find(id).await?.expect("known"));
    assert_eq!(at("goes").await?.place, Place::Gone);
    let fails = at("fails").await?;
    assert_eq!((fails.place, fails.attempts), (Place::Ready, 1));
    assert_eq!(fails.last_error.as_deref(), Some("the target said no"));
    let down = at("down").await?;
    assert_eq!((down.attempts, down.last_error.is_some()), (0, true));
    let aside = at("aside").await?;
    assert_eq!(aside.place, Place::Quarantined);
    let listed = stage.store.quarantined(0, 10).await?;
    assert_eq!((listed[0].reason.as_str(), listed[0].error.as_str()), ("too_large", "too big"));
    assert_eq!(at("unmarked").await?.last_error, None);
    let again = claimer.claim(10).await?;
    assert_eq!(ids_of(&again), ["fails", "down", "unmarked"], "nothing is held behind anything");
    let attempts: Vec<u32> = again.iter().flat_map(|c| c.rows()).map(|row| row.attempts).collect();
    assert_eq!(attempts, [1, 0, 0]);
    Ok(())
}

/// Whose claim has lasted too long changes nothing any more, and its rows are free.
pub async fn a_claim_that_has_lasted_too_long_is_over<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let (slow, other) = (Claimer::new(&stage).await?, Claimer::new(&stage).await?);
    let request = ClaimRequest { lasts: SHORT, ..slow.request(1) };
    let late = slow.store.claim(&request).await?.expect("it is there");
    stage.subject.pass(SHORT * 2).await;
    let claim = stage.eventually("the row is free", || async { other.claim(1).await }).await?;
    assert_eq!(ids_of(&Some(claim)), ["1"]);
    let marks = [Mark { seq: late.rows()[0].seq, verdict: failed(true) }];
    // Told as an error where the database has ended the transaction, as fenced elsewhere.
    let fenced = late.mark(&marks).await.map(|marked| marked.fenced.len());
    assert!(matches!(fenced, Ok(1) | Err(_)), "{fenced:?}");
    assert_eq!(stage.find("1").await?.map(|one| one.attempts), Some(0));
    Ok(())
}

/// A relay with lanes reads without locks: while one is live nothing is claimed, and once its leases have
/// lapsed it writes no more verdicts.
pub async fn nothing_is_claimed_while_lanes_are_leased<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let owner = stage.owner().await?;
    let row = owner.row("1").await?;
    let claimer = Claimer::new(&stage).await?;
    match claimer.claim(1).await {
        Ok(None) => assert!(S::FACTS.one_writer, "it stands by, as any second relay there"),
        Ok(Some(_)) => panic!("it was claimed beside a relay with lanes"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
    }
    stage.lapse(&owner).await?;
    let claim = claimer.claim(1).await?;
    assert_eq!(ids_of(&claim), ["1"]);
    drop(claim);
    let settled = stage
        .eventually("the row is free", || async { owner.settle(&row, retry(LONG)).await.map(Some) })
        .await?;
    assert_eq!(settled.fenced, [row.seq], "its lanes are not its own any more");
    Ok(())
}

/// And the other way round: a relay with lanes gets none while anything is claimed, and all of them after.
pub async fn no_lane_is_leased_while_rows_are_claimed<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1"]).await?;
    let claimer = Claimer::new(&stage).await?;
    let claim = claimer.claim(1).await?;
    let mut relay = stage.relay().await?;
    let (store, mut request) =
        (relay.store.clone(), relay.request(LONG, sendoff_core::store::Ask::Share));
    request.keep = Vec::new();
    let leasing = tokio::spawn(async move { store.lease(&request).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    if leasing.is_finished() {
        let grant = leasing.await.expect("it does not panic")?;
        assert!(grant.lanes.is_empty(), "it has lanes beside a claim");
    }
    assert_eq!(mark(claim, &MarkVerdict::Published).await?, 1);
    claimer.leave().await?;
    stage
        .eventually("the lanes", || async {
            Ok((relay.clone().lease(LONG).await?.lanes.len() == usize::from(S::FACTS.lanes))
                .then_some(()))
        })
        .await?;
    relay.lease(LONG).await?;
    assert!(relay.ids().await?.is_empty(), "it was published");
    Ok(())
}

/// What a relay with lanes has held behind a failed message is claimed in its place, and what is left goes
/// on when lanes come back.
pub async fn what_was_held_is_claimed_in_order_and_what_is_left_goes_on<S: Subject>() -> Result<()>
{
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    owner.settle(&owner.row("1").await?, retry(LONG)).await?;
    assert_eq!(stage.place("2").await?, Some(Place::Held));
    stage.lapse(&owner).await?;
    stage.send_keyed("k", &["4"]).await?;
    let claimer = Claimer::new(&stage).await?;
    let claim = claimer.claim(2).await?;
    assert_eq!(ids_of(&claim), ["1", "2"]);
    assert_eq!(mark(claim, &MarkVerdict::Published).await?, 2);
    claimer.leave().await?;
    let mut next = stage.relay().await?;
    next.lease(LONG).await?;
    assert_eq!(next.drain_holding().await?, ["3", "4"]);
    Ok(())
}

/// A row that does not decode is claimed as what it is.
pub async fn a_row_that_does_not_decode_can_be_claimed_and_set_aside<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let mut bad = plain("bad");
    bad.headers = r#"["no object"]"#.to_owned();
    stage.subject.insert(bad).await?;
    let claimer = Claimer::new(&stage).await?;
    let claim = claimer.claim(1).await?;
    let content = claim.iter().flat_map(|claim| claim.rows()).map(|row| &row.content).next();
    assert!(matches!(content, Some(Content::Undecodable(_))), "{content:?}");
    let reason = QuarantineReason::Undecodable;
    mark(claim, &MarkVerdict::Quarantined { reason, error: "no".to_owned() }).await?;
    assert!(claimer.claim(1).await?.is_none(), "it is not claimed again");
    Ok(())
}

/// Under row locks what is in quarantine holds nothing: a relay with lanes that comes later publishes what
/// one before it had held.
pub async fn what_was_held_behind_a_row_that_is_set_aside_goes_on<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    stage.send_keyed("k", &["1", "2", "3"]).await?;
    let owner = stage.owner().await?;
    owner.settle(&owner.row("1").await?, retry(LONG)).await?;
    assert_eq!(stage.place("2").await?, Some(Place::Held));
    stage.lapse(&owner).await?;
    let claimer = Claimer::new(&stage).await?;
    let reason = QuarantineReason::Permanent;
    let aside = MarkVerdict::Quarantined { reason, error: "no".to_owned() };
    mark(claimer.claim(1).await?, &aside).await?;
    claimer.leave().await?;
    assert_eq!(stage.place("1").await?, Some(Place::Quarantined));
    assert_ne!(stage.place("2").await?, Some(Place::Held), "it waits for nothing");
    let mut next = stage.relay().await?;
    next.lease(LONG).await?;
    assert_eq!(next.drain_holding().await?, ["2", "3"]);
    Ok(())
}

/// What is published under a claim is kept as any other: its target, its time, and once.
pub async fn what_is_marked_as_published_is_kept_where_the_store_keeps<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    let claimer = Claimer::new(&stage).await?;
    stage.send_keyed("k", &["before"]).await?;
    assert_eq!(mark(claimer.claim(1).await?, &MarkVerdict::Published).await?, 1);
    stage.store.set_retention(Retention::KeepFor(Duration::from_secs(3_600))).await?;
    stage.send_keyed("k", &["1", "2", "3", "4"]).await?;
    let claim = claimer.claim(3).await?.expect("they are there");
    stage.subject.pass(SHORT).await;
    let begun = stage.subject.now().await?;
    let verdicts = [MarkVerdict::Published, failed(true), MarkVerdict::Published];
    let marks: Vec<Mark> = claim
        .rows()
        .iter()
        .zip(verdicts)
        .map(|(row, verdict)| Mark { seq: row.seq, verdict })
        .collect();
    assert_eq!(claim.mark(&marks).await?.published, 2);
    let kept = async || stage.store.kept(&KeptLook { rows_max: 10, ..KeptLook::default() }).await;
    let first = kept().await?;
    let ids: Vec<&str> = first.iter().map(|kept| kept.id.as_str()).collect();
    assert_eq!(ids, ["1", "3"], "neither what was published before nor what failed");
    assert_eq!(first[0].target.as_deref(), Some("suite:"));
    assert!(first[0].published_at >= begun, "the time of the mark, not of the claim");
    let resent = stage.store.resend(&[first[0].mark]).await?;
    assert_eq!(resent.sent, 1);
    assert_eq!(mark(claimer.claim(10).await?, &MarkVerdict::Published).await?, 3);
    let ids: Vec<String> = kept().await?.into_iter().map(|kept| kept.id).collect();
    assert_eq!(ids.len(), 4, "what was sent again is not kept again: {ids:?}");
    Ok(())
}
