//! What is kept of published messages, sending it again, and what was sent lately.

use std::time::Duration;

use sendoff_core::message::TopicPattern;
use sendoff_core::store::{
    KeptDesk, KeptLook, KeptMessage, Place, Resend, Resending, Resent, Retention, Wanted,
};
use sendoff_core::{Error, ErrorKind, Message, Result};

use super::stage::{Owner, Stage, message, published, quarantined, retry};
use super::subject::Subject;

const HOUR: Duration = Duration::from_secs(3_600);

/// All that is kept, in the order of the first publishes.
async fn kept<S: Subject>(stage: &Stage<S>) -> Result<Vec<KeptMessage>> {
    stage.store.kept(&KeptLook { rows_max: 10_000, ..KeptLook::default() }).await
}

async fn kept_ids<S: Subject>(stage: &Stage<S>) -> Result<Vec<String>> {
    Ok(kept(stage).await?.into_iter().map(|message| message.id).collect())
}

async fn keeping<S: Subject>() -> Result<(Stage<S>, Owner)> {
    let stage = Stage::<S>::new().await?;
    stage.store.set_retention(Retention::KeepFor(HOUR)).await?;
    let owner = stage.owner().await?;
    Ok((stage, owner))
}

async fn resend<S: Subject>(stage: &Stage<S>, wanted: Wanted) -> Result<Resending> {
    let mut resend = Resend::new(wanted);
    let desk: &dyn KeptDesk = &*stage.store;
    while resend.step(desk).await? {}
    Ok(*resend.progress())
}

/// Nothing is kept unless the store is told to, and the store remembers what it was told.
pub async fn nothing_is_kept_unless_it_is_asked_for<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    assert_eq!(stage.store.retention().await?, Retention::DeleteBehind);
    let owner = stage.owner().await?;
    stage.send_keyed("k", &["1"]).await?;
    owner.drain().await?;
    stage.store.set_retention(Retention::KeepFor(HOUR * 5)).await?;
    stage.send_keyed("k", &["2"]).await?;
    owner.drain().await?;
    let other = stage.subject.open().await?;
    assert_eq!(other.retention().await?, Retention::KeepFor(HOUR * 5));
    other.set_retention(Retention::DeleteBehind).await?;
    stage.send_keyed("k", &["3"]).await?;
    owner.drain().await?;
    assert_eq!(stage.store.retention().await?, Retention::DeleteBehind);
    assert_eq!(kept_ids(&stage).await?, ["2"], "it stays until its time is over");
    assert_eq!(stage.store.stats().await?.published, 3);
    Ok(())
}

/// A time that is out of range is refused, and changes nothing.
pub async fn a_time_that_is_out_of_range_is_refused<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::new().await?;
    for time in [Duration::ZERO, Duration::from_secs(59), HOUR * 24 * 3_651] {
        let refused = stage.store.set_retention(Retention::KeepFor(time)).await;
        assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Invalid), "{time:?}");
    }
    assert_eq!(stage.store.retention().await?, Retention::DeleteBehind);
    Ok(())
}

/// What is kept says what it was, how often it failed, and in which order it left.
pub async fn a_published_message_is_kept_in_full<S: Subject>() -> Result<()> {
    let (stage, mut owner) = keeping::<S>().await?;
    let mut request = owner.request(HOUR, sendoff_core::store::Ask::Share);
    request.target = Some("memory:target".to_owned());
    owner.lanes = owner.store.lease(&request).await?.lanes;
    let before = stage.subject.now().await?;
    stage.send(&[message("1").key("k").header("a", "b").body("body").build()?]).await?;
    stage.send_keyed("k", &["2"]).await?;
    let row = owner.row("1").await?;
    owner.settle(&row, retry(Duration::ZERO)).await?;
    owner.hold_blocked(0).await?;
    let row = stage.eventually("its retry", || owner.seen("1")).await?;
    owner.settle(&row, published(true)).await?;
    owner.drain().await?;
    let kept = kept(&stage).await?;
    assert_eq!(kept.len(), 2);
    let first = &kept[0];
    assert_eq!((first.id.as_str(), kept[1].id.as_str()), ("1", "2"));
    assert_eq!((first.source.as_str(), first.topic.as_str()), ("suite", "suite.topic"));
    assert_eq!((first.key.as_deref(), first.body_bytes, first.attempts), (Some("k"), 4, 1));
    assert_eq!(first.target.as_deref(), Some("memory:target"));
    assert_eq!((first.mark.seq, first.mark.published_at), (row.seq, first.published_at));
    let early = before.checked_sub(Duration::from_secs(1)).unwrap_or(before);
    assert!(first.sent_at >= early && first.published_at >= first.sent_at, "{first:?}");
    assert_eq!(stage.place("1").await?, Some(Place::Gone));
    Ok(())
}

/// What an operator gives up is no publish, and is not kept.
pub async fn what_is_discarded_is_not_kept<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    stage.send_keyed("k", &["1"]).await?;
    let row = owner.row("1").await?;
    owner.settle(&row, quarantined()).await?;
    stage.store.discard(&sendoff_core::store::Which::All).await?;
    assert!(kept_ids(&stage).await?.is_empty());
    Ok(())
}

/// A late publish is a fact, and is kept; one that two relays record is kept one time.
pub async fn a_publish_that_two_relays_record_is_kept_one_time<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    stage.send_keyed("k", &["1"]).await?;
    let row = owner.row("1").await?;
    stage.lapse(&owner).await?;
    let next = stage.owner().await?;
    let first = owner.settle(&row, published(false)).await?;
    assert_eq!((first.published, first.fenced.len()), (1, 1));
    assert_eq!(next.settle(&row, published(false)).await?.published, 0);
    assert_eq!(kept_ids(&stage).await?, ["1"]);
    Ok(())
}

/// The same source and id, the same bytes, new positions, in the order of the first publishes.
pub async fn kept_messages_are_sent_again_as_they_were<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    let body: Vec<u8> = (0..=255).collect();
    stage.send(&[message("1").key("k").header("a", "ü").body(body.clone()).build()?]).await?;
    stage.send_keyed("k", &["2", "3"]).await?;
    let due = stage.time_in(Duration::ZERO).await?;
    stage.send(&[message("due").due_at(due).build()?]).await?;
    let first_seq = owner.row("1").await?.seq;
    stage.eventually("it is due", || owner.seen("due")).await?;
    owner.drain().await?;
    let done = resend(&stage, Wanted::default()).await?;
    assert_eq!((done.wanted, done.resent), (4, Resent { sent: 4, ..Resent::default() }));
    let rows = owner.rows().await?;
    let row = owner.row("1").await?;
    assert!(row.seq > first_seq, "a new position");
    let sendoff_core::store::Content::Message(again) = &row.content else {
        return Err(Error::invalid("looking", "it does not decode"));
    };
    assert_eq!((again.source(), again.key(), &again.body()[..]), ("suite", Some("k"), &body[..]));
    assert_eq!(again.headers().get("a"), Some("ü"));
    assert_eq!(again.due_at(), None, "it is due at once");
    assert_eq!((rows.len(), stage.store.stats().await?.pending), (4, 4));
    let of_key: Vec<String> = owner.drain().await?.into_iter().filter(|id| id != "due").collect();
    assert_eq!(of_key, ["1", "2", "3"]);
    assert_eq!(kept_ids(&stage).await?.len(), 4, "they are not kept a second time");
    Ok(())
}

/// What waits in the outbox is left alone, and no sender may send a kept pair again.
pub async fn what_waits_already_is_not_sent_again<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    stage.send_keyed("k", &["1", "2"]).await?;
    owner.drain().await?;
    let two = Wanted { id: Some("2".to_owned()), ..Wanted::default() };
    assert_eq!(resend(&stage, two).await?.resent.sent, 1);
    let all = resend(&stage, Wanted::default()).await?;
    assert_eq!(all.resent, Resent { sent: 1, waiting: 1, gone: 0 });
    let refused = stage.store.send_all(&[message("1").build()?]).await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Duplicate));
    let mut drained = owner.drain().await?;
    drained.sort_unstable();
    assert_eq!(drained, ["1", "2"]);
    let refused = stage.store.send_all(&[message("1").build()?]).await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Duplicate));
    Ok(())
}

/// A resent message of a key that is held waits its turn.
pub async fn a_resent_message_joins_the_order_of_its_key<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    stage.send_keyed("k", &["1"]).await?;
    owner.drain().await?;
    stage.send_keyed("k", &["2"]).await?;
    let row = owner.row("2").await?;
    owner.settle(&row, quarantined()).await?;
    assert_eq!(resend(&stage, Wanted::default()).await?.resent.sent, 1);
    owner.hold_blocked(1).await?;
    stage.store.requeue(&sendoff_core::store::Which::All).await?;
    stage.eventually("it comes back", || owner.seen("2")).await?;
    assert_eq!(owner.drain_holding().await?, ["2", "1"]);
    Ok(())
}

/// A time range, a topic, a key, an id and a limit say what is wanted; a mark says where to go on.
pub async fn what_is_wanted_is_chosen<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    for (id, topic, key) in [
        ("1", "orders.eu", "a"),
        ("2", "orders.us", "b"),
        ("3", "bills.eu", "a"),
        ("4", "orders.eu", "b"),
    ] {
        stage.send(&[Message::builder("suite", topic).id(id).key(key).build()?]).await?;
        owner.drain().await?;
        stage.subject.pass(Duration::from_millis(5)).await;
    }
    let all = kept(&stage).await?;
    assert_eq!(all.len(), 4);
    let (second, fourth) = (all[1].published_at, all[3].published_at);
    let topic = |text: &str| text.parse::<TopicPattern>().map(Some);
    let key = |text: &str| Some(text.to_owned());
    let cases = [
        (Wanted { from: Some(second), until: Some(fourth), ..Wanted::default() }, 2, "2"),
        (Wanted { topic: topic("orders.*")?, limit: Some(2), ..Wanted::default() }, 2, "1"),
        (Wanted { topic: topic("*.eu")?, key: key("b"), ..Wanted::default() }, 1, "4"),
        (Wanted { id: key("3"), ..Wanted::default() }, 1, "3"),
        (Wanted { after: Some(all[2].mark), ..Wanted::default() }, 1, "4"),
        (Wanted { key: key("nobody"), ..Wanted::default() }, 0, ""),
        (Wanted { limit: Some(0), ..Wanted::default() }, 0, ""),
    ];
    for (wanted, count, first) in cases {
        let mut dry = Resend::new(wanted.clone()).dry();
        while dry.step(&*stage.store).await? {}
        assert_eq!((dry.progress().wanted, dry.progress().resent.sent), (count, 0), "{wanted:?}");
        assert_eq!(stage.store.stats().await?.pending, 0, "a dry run sends nothing");
        let done = resend(&stage, wanted.clone()).await?;
        assert_eq!(done.resent.sent, count, "{wanted:?}");
        let sent = owner.rows().await?;
        let lowest = sent.iter().min_by_key(|row| row.seq).and_then(super::stage::id_of);
        assert_eq!(lowest.unwrap_or_default(), first, "{wanted:?}");
        owner.drain().await?;
    }
    Ok(())
}

/// More than one step's worth, stopped in the middle and gone on with: every message once, in order.
pub async fn a_stopped_run_goes_on_behind_its_mark<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    let ids: Vec<String> = (0..2_300).map(|n| format!("{n:04}")).collect();
    for part in ids.chunks(500) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        stage.send_keyed("k", &part).await?;
        owner.drain().await?;
    }
    let mut first = Resend::new(Wanted::default());
    assert!(first.step(&*stage.store).await?, "there is more");
    let progress = *first.progress();
    assert!(progress.resent.sent > 0 && progress.resent.sent < 2_300);
    let rest = Wanted { after: progress.after, ..Wanted::default() };
    let rest = resend(&stage, rest).await?;
    assert_eq!(progress.resent.sent + rest.resent.sent, 2_300);
    assert_eq!(rest.resent.waiting, 0);
    assert_eq!(owner.drain().await?, ids);
    Ok(())
}

/// What was sent last, in its order, with where it is.
pub async fn what_was_sent_lately_is_told<S: Subject>() -> Result<()> {
    let (stage, owner) = keeping::<S>().await?;
    assert!(stage.store.recent(10).await?.is_empty());
    stage.send(&[message("1").key("k").body("12345").build()?]).await?;
    owner.drain().await?;
    stage.store.set_retention(Retention::DeleteBehind).await?;
    stage.send_keyed("x", &["2"]).await?;
    owner.drain().await?;
    stage.send_keyed("k", &["3"]).await?;
    let row = owner.row("3").await?;
    owner.settle(&row, quarantined()).await?;
    stage.send(&[message("4").body("abcdef").build()?]).await?;
    let recent = stage.store.recent(10).await?;
    let told: Vec<_> = recent
        .iter()
        .map(|one| (one.id.as_str(), one.place, one.topic.as_str(), one.body_bytes))
        .collect();
    assert_eq!(
        told,
        [
            ("1", Place::Gone, "suite.topic", Some(5)),
            ("2", Place::Gone, "", None),
            ("3", Place::Quarantined, "suite.topic", Some(0)),
            ("4", Place::Ready, "suite.topic", Some(6)),
        ]
    );
    assert!(recent.iter().is_sorted_by_key(|one| one.seq), "{recent:?}");
    assert!(recent.iter().all(|one| one.seq.is_some()), "each has a position");
    let last = stage.store.recent(1).await?;
    assert_eq!((last.len(), last[0].id.as_str()), (1, "4"));
    let seqs: Vec<i64> = recent.iter().filter_map(|one| one.seq).collect();
    let bodies = stage.store.bodies(&seqs, 4).await?;
    let beginning = bodies.iter().find(|(seq, _)| Some(*seq) == last[0].seq);
    assert_eq!(beginning.map(|(_, body)| &body[..]), Some(&b"abcd"[..]));
    assert_eq!(bodies.len(), 2, "of those that are there");
    let one = Wanted { id: Some("1".to_owned()), ..Wanted::default() };
    assert_eq!(resend(&stage, one).await?.resent.sent, 1);
    let row = owner.row("4").await?;
    owner.settle(&row, published(false)).await?;
    owner.hold_blocked(1).await?;
    let last = stage.store.recent(1).await?;
    assert_eq!((last[0].id.as_str(), last[0].place), ("1", Place::Held), "under its new position");
    Ok(())
}
