//! What a race of quorums meets once in some thousand rounds, step by step.

use std::time::Duration;

use sendoff_core::barrier::{Barriers, Change, Counting, Outcome, Policy};
use tokio_postgres::Client;

use crate::barrier_stage::{Verdict, plan, stage};
use crate::stage::{connect, eventually};

/// Makes a session that asks for it wait before each UPDATE of members: after its statement's
/// snapshot was taken, before its rows are looked for.
const PAUSES: &str = "
    CREATE FUNCTION test_pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('test.pause', true) = 'on' THEN
            PERFORM pg_catalog.pg_advisory_xact_lock_shared(77);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER test_pause BEFORE UPDATE ON sendoff.barrier_member
        FOR EACH STATEMENT EXECUTE FUNCTION test_pause()";

async fn watched(client: &Client, watched: bool) -> Vec<String> {
    let members = "SELECT convert_from(name, 'UTF8') FROM sendoff.barrier_member \
                    WHERE resolved_at IS NULL AND watched = $1 ORDER BY place";
    client.query(members, &[&watched]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn ack(client: &mut Client, member: &str, outcome: Outcome) {
    let mut transaction = client.transaction().await.unwrap();
    Barriers::new().ack(&mut transaction, "batch", member, outcome).await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_not_taken_back_from_the_member_that_a_failure_counted_on() {
    let (_store, url, mut client) = stage().await;
    client.batch_execute(PAUSES).await.unwrap();
    let policy = Policy::at_least(2, Counting::Successful);
    let three = plan("batch").members(["a", "b", "c"]).policy(policy).unsealed().build().unwrap();
    let mut transaction = client.transaction().await.unwrap();
    Barriers::new().create(&mut transaction, &three).await.unwrap();
    transaction.commit().await.unwrap();

    // The one that is not watched fails: two are watched now, and one would do.
    let [unwatched] = watched(&client, false).await.try_into().unwrap();
    ack(&mut client, &unwatched, Outcome::failed()).await;
    let [fails, counted_on] = watched(&client, true).await.try_into().unwrap();

    // A watched one fails and hands nothing on, since the other is watched.
    let mut failing = connect(&url).await;
    let mut failure = failing.transaction().await.unwrap();
    Barriers::new().ack(&mut failure, "batch", &fails, Outcome::failed()).await.unwrap();

    // Whoever seals the list counts before that is committed, and takes a watch back after.
    client.execute("SELECT pg_advisory_lock(77)", &[]).await.unwrap();
    let mut sealing = connect(&url).await;
    let seal = tokio::spawn(async move {
        sealing.batch_execute("SET test.pause = 'on'").await.unwrap();
        let mut transaction = sealing.transaction().await.unwrap();
        Barriers::new().change(&mut transaction, "batch", &Change::Seal).await.unwrap();
        transaction.commit().await.unwrap();
    });
    let waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    eventually("the sealing session waits", async || client.query_opt(waiting, &[]).await.unwrap())
        .await;
    failure.commit().await.unwrap();
    client.execute("SELECT pg_advisory_unlock(77)", &[]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), seal).await.unwrap().unwrap();

    assert_eq!(watched(&client, true).await, [counted_on.as_str()]);
    ack(&mut client, &counted_on, Outcome::ok()).await;
    assert_eq!(Verdict::of(&client).await, Verdict::clean(1));
}
