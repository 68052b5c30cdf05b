//! The backend of the last acknowledgement is killed with SIGKILL at each boundary between two
//! statements, also between those inside of the functions: nothing of it stands, and the next try
//! completes the barrier with its one continuation.

use std::time::Duration;

use sendoff_conformance::servers::Postgres;
use sendoff_core::barrier::{AckBatch, BarrierDesk, BarrierTransaction, Outcome};
use sendoff_core::store::OutboxDesk;
use tokio_postgres::Client;

use crate::barrier_stage::{Verdict, batch, name, plan, try_connect};
use crate::stage::{connect, eventually, open};

/// Counts the boundaries that a session passes, and stops it at the one that it asks for.
const BOUNDARIES: &str = "
    CREATE FUNCTION test_boundary() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE passed integer := coalesce(nullif(current_setting('test.passed', true), ''), '0');
    BEGIN
        PERFORM pg_catalog.set_config('test.passed', (passed + 1)::text, false);
        IF passed::text = current_setting('test.stop_at', true) THEN
            PERFORM pg_catalog.pg_sleep(60);
        END IF;
        RETURN NULL;
    END $$;
    DO $$ DECLARE place text; BEGIN
        FOR place IN SELECT moment || ' INSERT OR UPDATE ON sendoff.' || name
                       FROM unnest(ARRAY['BEFORE', 'AFTER']) AS moment,
                            unnest(ARRAY['barrier', 'barrier_member', 'outbox']) AS name LOOP
            EXECUTE 'CREATE TRIGGER boundary_' || md5(place) || ' ' || place
                || ' FOR EACH STATEMENT EXECUTE FUNCTION test_boundary()';
        END LOOP;
    END $$";

/// Where a session is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Begun,
    Boundary(usize),
    Acknowledged,
}

fn last_ack(barrier: &str) -> AckBatch {
    batch(barrier, &[("member-1".to_owned(), Outcome::ok())])
}

async fn commit(client: &mut Client, ack: &AckBatch) {
    let mut transaction = client.transaction().await.unwrap();
    transaction.ack_members(ack).await.unwrap().unwrap();
    transaction.commit().await.unwrap();
}

/// Acknowledges and is killed on the way. Answers whether it got there.
async fn killed(server: &Postgres, url: &str, ack: &AckBatch, at: At) -> bool {
    let (mut session, pid) = try_connect(url).await.unwrap();
    let kill = || server.kill_backend(u32::try_from(pid).unwrap()).unwrap();
    if let At::Boundary(boundary) = at {
        session.batch_execute(&format!("SET test.stop_at = '{boundary}'")).await.unwrap();
    }
    let mut transaction = session.transaction().await.unwrap();
    if at == At::Begun {
        kill();
        return true;
    }
    let observer = connect(url).await;
    let sleeps = "SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'";
    tokio::select! {
        acknowledged = transaction.ack_members(ack) => {
            acknowledged.unwrap().unwrap();
            if at == At::Acknowledged {
                kill();
                return true;
            }
            false
        }
        () = async {
            while observer.query_opt(sleeps, &[&pid]).await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        } => {
            kill();
            true
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_killed_at_any_boundary_of_the_last_acknowledgement_leaves_it_to_be_done_again() {
    let server = tokio::task::spawn_blocking(Postgres::start).await.unwrap().unwrap();
    let url = server.url();
    open(&url).migrate().await.unwrap();
    connect(&url).await.batch_execute(BOUNDARIES).await.unwrap();
    let places = [At::Begun, At::Acknowledged].into_iter().chain((0..100).map(At::Boundary));
    let (mut rounds, mut boundaries) = (0, 0);
    for at in places {
        let barrier = format!("round-{rounds}");
        let parent = plan(&format!("parent-{rounds}")).members(["child", "other"]);
        let asked = plan(&barrier)
            .members(["member-0", "member-1"])
            .member_of(format!("parent-{rounds}"), name("child"));
        let store = open(&url);
        store.create_barrier(&parent.build().unwrap()).await.unwrap().unwrap();
        store.create_barrier(&asked.build().unwrap()).await.unwrap().unwrap();
        let mut client = connect(&url).await;
        commit(&mut client, &batch(&barrier, &[("member-0".to_owned(), Outcome::ok())])).await;
        rounds += 1;

        let reached = killed(&server, &url, &last_ack(&barrier), at).await;
        if reached {
            // Before it has noticed, the server takes connections that it then ends.
            eventually("the server notices", async || client.is_closed().then_some(())).await;
            client = eventually("the server recovers", async || {
                try_connect(&url).await.map(|(client, _)| client)
            })
            .await;
            let left = client
                .query_one(
                    "SELECT b.state, (SELECT count(*) FROM sendoff.barrier_member m \
                                WHERE m.barrier = b.no AND m.resolved_at IS NULL), \
                            (SELECT count(*) FROM sendoff.outbox o WHERE o.key = b.id) \
                       FROM sendoff.barrier b WHERE b.id = $1",
                    &[&barrier],
                )
                .await
                .unwrap();
            let state: String = left.get(0);
            let (pending, sent): (i64, i64) = (left.get(1), left.get(2));
            assert_eq!((state.as_str(), pending, sent), ("open", 1, 0), "{at:?}");
            boundaries += usize::from(matches!(at, At::Boundary(_)));
        }
        commit(&mut client, &last_ack(&barrier)).await;
        client.batch_execute("DELETE FROM sendoff.barrier WHERE id LIKE 'parent-%'").await.unwrap();
        assert_eq!(Verdict::of(&client).await, Verdict::clean(rounds), "{at:?}");
        if !reached {
            break;
        }
    }
    assert!(boundaries >= 10, "only {boundaries} boundaries were met");
}
