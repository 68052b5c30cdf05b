//! The documents of `examples/documents/`: 1,000 of them, and the service and the partner are killed
//! while they work. One continuation is applied once, and every document has the right state.
//!
//! The seed of the kills is printed; `SENDOFF_DOCUMENTS_SEED` sets it. [`programs`] runs the processes,
//! [`looks`] reads what they have done.
#![expect(clippy::unwrap_used, reason = "an error that a test does not expect is its failure")]

mod looks;
#[path = "../../documents/partner/manners.rs"]
mod manners;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fastrand::Rng;
use sendoff::barrier::{BarrierState, Reason};

use looks::{Documents, Streams};
use manners::Manners;
use programs::{PARTNER, Programs, SERVICE, until};

const BATCH: &str = "batch-7";
const COUNT: u32 = 1_000;
/// Longer than kills and answers take on a busy machine: four documents are waited for in vain.
const DEADLINE_S: &str = "20";

/// What somebody does whom [`Documents::hold`] holds.
const MESSAGES: &str = "INSERT ON sendoff.outbox FOR EACH ROW WHEN (NEW.topic = 'documents.sent')";
const ANSWERS: &str = "UPDATE ON documents FOR EACH ROW WHEN (NEW.answered_by = 'nats')";
const NEXT: &str = "INSERT ON sendoff.outbox FOR EACH ROW WHEN (NEW.topic = 'batches.settled')";

fn seed() -> u64 {
    let given = std::env::var("SENDOFF_DOCUMENTS_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("SENDOFF_DOCUMENTS_SEED={seed} strikes like this again");
    seed
}

fn name(number: u32) -> String {
    format!("doc-{number:04}.xml")
}

/// The names of the documents that the partner treats so.
fn names(which: impl Fn(&Manners) -> bool) -> BTreeSet<String> {
    (1..=COUNT).filter(|number| which(&Manners::towards(*number))).map(name).collect()
}

#[tokio::test]
async fn a_thousand_documents_go_on_once_whoever_is_killed() {
    let mut rng = Rng::with_seed(seed());
    let mut programs = Programs::new();
    programs.run(SERVICE, &["setup"]).await;
    let documents = Documents::of(&programs.database).await;
    let streams = Streams::at(&programs.nats.url()).await;

    send_and_kill(&programs, &documents, &mut rng).await;
    answer_and_kill(&mut programs, &documents, &mut rng).await;

    // The deadline closes it, and the service is killed at the end of the continuation's transaction.
    documents.hold(NEXT).await;
    until("the continuation is being handled", async || documents.is_holding().await).await;
    assert!(documents.status(BATCH).await.complete);
    programs.kill(SERVICE);
    documents.release().await;
    programs.start(SERVICE);
    until("the batch is settled and said so", async || {
        documents.summaries().await.len() == 1 && documents.waiting().await == 0
    })
    .await;
    // The reader's place is lost, so NATS delivers the continuation once more.
    programs.stop(SERVICE).await;
    streams.forget("continuations").await;
    programs.start(SERVICE);
    until("the continuation is read again", async || streams.has_read("continuations").await).await;
    programs.stop(SERVICE).await;
    programs.stop(PARTNER).await;

    check_batch(&documents).await;
    check_documents(&documents).await;
    check_streams(&streams).await;
}

/// Lets a random time pass, of at most so many milliseconds.
async fn pass(rng: &mut Rng, ms_max: u64) {
    let (begun, pause) = (Instant::now(), Duration::from_millis(rng.u64(..ms_max)));
    until("it is time", async || begun.elapsed() >= pause).await;
}

/// Sends the batch, killed at random moments, and between the rows and the messages: all of it is there
/// or nothing.
async fn send_and_kill(programs: &Programs, documents: &Documents, rng: &mut Rng) {
    let send = ["send", BATCH, "1000", DEADLINE_S];
    documents.hold(MESSAGES).await;
    let mut sending = programs.spawn(SERVICE, &send);
    until("messages are being written", async || documents.is_holding().await).await;
    sending.kill();
    documents.release().await;
    assert_eq!(documents.sent().await, (0, 0, 0));
    for _ in 0..3 {
        let mut sending = programs.spawn(SERVICE, &send);
        pass(rng, 150).await;
        sending.kill();
        let found = documents.sent().await;
        assert!([(0, 0, 0), (1_000, 1_000, 1)].contains(&found), "{found:?}");
    }
    programs.run(SERVICE, &send).await;
    programs.run(SERVICE, &send).await;
    assert_eq!(documents.sent().await, (1_000, 1_000, 1));
}

/// Kills the service while it records answers, and then it and the partner four times each, at random
/// moments while answers come.
async fn answer_and_kill(programs: &mut Programs, documents: &Documents, rng: &mut Rng) {
    documents.hold(ANSWERS).await;
    programs.start(SERVICE);
    programs.start(PARTNER);
    until("answers are being recorded", async || documents.is_holding().await).await;
    programs.kill(SERVICE);
    documents.release().await;
    programs.start(SERVICE);
    let mut strikes = [[SERVICE; 4], [PARTNER; 4]].concat();
    rng.shuffle(&mut strikes);
    let mut moments: Vec<i64> = strikes.iter().map(|_| rng.i64(0..900)).collect();
    moments.sort_unstable();
    for (moment, victim) in moments.into_iter().zip(strikes) {
        until("so many answers have come", async || documents.answered().await >= moment).await;
        pass(rng, 40).await;
        println!("{moment} answers: kill -9 {victim}");
        programs.kill(victim);
        programs.start(victim);
        assert!(documents.summaries().await.is_empty(), "nothing is settled early");
    }
    let all = names(|manners| !manners.forgets && !manners.loses_the_answer).len();
    until("all answers have come that will, before the deadline", async || {
        documents.answered().await == i64::try_from(all).unwrap()
    })
    .await;
}

async fn check_batch(documents: &Documents) {
    let status = documents.status(BATCH).await;
    assert_eq!((status.state, status.reason), (BarrierState::Deadline, Some(Reason::Deadline)));
    assert_eq!(
        (status.total, status.resolved, status.failed, status.missing),
        (1_000, 996, 100, 4)
    );
    assert!(status.completed_at >= status.deadline_at, "it ended early: {status:?}");
    let summaries = documents.summaries().await;
    let [summary] = &summaries[..] else { panic!("{summaries:?}") };
    assert_eq!((summary.done, summary.failed, summary.missing), (896, 100, 4));
    assert!(summary.written_at >= status.completed_at.unwrap(), "{summary:?}");
}

async fn check_documents(documents: &Documents) {
    let states = documents.states().await;
    assert_eq!(states.len(), 1_000);
    let of = |state: &str| -> BTreeSet<String> {
        states.iter().filter(|(_, d)| d.state == state).map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(of("missing"), names(|manners| manners.forgets));
    assert_eq!(of("failed"), names(|manners| manners.fails));
    assert_eq!(of("done"), names(|manners| !manners.forgets && !manners.fails));

    // The service's own rows and the barrier's are of the same transactions.
    let channels = documents.channels(BATCH).await;
    let mut by: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, channel) in &channels {
        let own = states[name].answered_by.as_deref();
        assert_eq!(own, Some(channel.as_str()).filter(|channel| *channel != "probe"), "{name}");
        by.entry(channel).or_default().insert(name.clone());
    }
    assert_eq!(channels.len(), 996);
    assert_eq!(by["probe"], names(|manners| manners.loses_the_answer));
    let answered = |manners: &Manners| !manners.forgets && !manners.loses_the_answer;
    assert_eq!(by["http"], names(|manners| answered(manners) && manners.by_http));
    assert_eq!(by["nats"], names(|manners| answered(manners) && !manners.by_http));
    for number in 1..=COUNT {
        let (manners, document) = (Manners::towards(number), &states[&name(number)]);
        let note = document.note.as_deref();
        if manners.forgets {
            assert_eq!(note, None);
        } else if manners.fails {
            assert_eq!(note, Some("it is not readable"));
        } else {
            let receipt: serde_json::Value = serde_json::from_str(note.unwrap()).unwrap();
            assert_eq!(receipt, serde_json::json!({"receipt": number}));
        }
    }
    let refused = documents.refused().await;
    let misspelt = names(|manners| manners.misspells && !manners.loses_the_answer);
    let wrong: BTreeSet<String> = misspelt.iter().map(|name| name.to_uppercase()).collect();
    assert_eq!(refused.keys().cloned().collect::<BTreeSet<_>>(), wrong);
    for (name, reason) in refused {
        assert!(reason.contains(&format!("did you mean \"{}\"", name.to_lowercase())), "{reason}");
    }
}

async fn check_streams(streams: &Streams) {
    // Ids, since a killed relay may publish a message again.
    for (topic, count) in [("documents.sent", 1_000), ("batches.done", 1), ("batches.settled", 1)] {
        assert_eq!(streams.ids(&format!("WORK.{topic}")).await.len(), count, "{topic}");
    }
    // The partner has said at least as much as it means to; what it was killed at it has said again.
    let by_nats = (1..=COUNT).map(Manners::towards).filter(|m| !m.forgets && !m.loses_the_answer);
    let said = by_nats.map(|m| u64::from(m.misspells) + if m.by_http { 0 } else { m.times });
    assert!(streams.answers().await >= said.sum());
}
