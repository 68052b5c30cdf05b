//! Relays that claim rows under locks, where PostgreSQL could get in their way: a database that fails, a
//! mark that changes nothing, transactions beside somebody who holds the gate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::ErrorKind;
use sendoff_core::memory::{Act, MemoryPublisher, On};
use sendoff_core::relay::{
    Readiness, Relay, RelayGate, RelaySettings, Report, RowLockRelay, RowLockSettings, Tally,
};
use sendoff_core::store::{ClaimRequest, ClaimStore, OutboxDesk, RelayId};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::running::drained;
use crate::stage::{connect, eventually, message, migrated, open};

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Tally>,
    ready: Readiness,
    failures: Arc<Mutex<Vec<ErrorKind>>>,
}

fn relay(store: PostgresStore, target: &MemoryPublisher, gate: &RelayGate) -> Running {
    let failures: Arc<Mutex<Vec<ErrorKind>>> = Arc::default();
    let heard = Arc::clone(&failures);
    let relay = RowLockRelay::builder(Arc::new(store), Arc::new(target.clone()))
        .settings(RowLockSettings { poll: Duration::from_millis(20), ..Default::default() })
        .gate(gate.clone())
        .report(move |report| {
            if let Report::StoreFailed(error) = report {
                heard.lock().unwrap().push(error.kind());
            }
        })
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ready = relay.readiness();
    let task = tokio::spawn(relay.run(async move { drop(stopped.await) }));
    Running { stop, task, ready, failures }
}

impl Running {
    async fn told(&self, kind: ErrorKind) {
        let told = || async { self.failures.lock().unwrap().contains(&kind).then_some(()) };
        eventually("it says so", told).await;
    }

    async fn ready(&self) {
        eventually("it is ready", || async { self.ready.is_ready().then_some(()) }).await;
    }

    async fn stop(self) -> Tally {
        drop(self.stop);
        self.task.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_away_makes_it_unready_until_a_pass_reaches_it_again() {
    let (store, url) = migrated().await;
    let target = MemoryPublisher::new();
    let relay = relay(open(&url), &target, &RelayGate::new());
    store.send_all(&[message("1", "k")]).await.unwrap();
    drained(&store).await;
    let client = connect(&url).await;
    client.batch_execute("ALTER TABLE sendoff.outbox RENAME TO away").await.unwrap();
    relay.told(ErrorKind::SchemaMissing).await;
    assert!(!relay.ready.is_ready());
    client.batch_execute("ALTER TABLE sendoff.away RENAME TO outbox").await.unwrap();
    relay.ready().await;
    store.send_all(&[message("2", "k")]).await.unwrap();
    drained(&store).await;
    assert_eq!(target.ids(), ["1", "2"]);
    assert_eq!(relay.stop().await.settled, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_changes_no_row_is_a_failure_of_the_database() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let in_the_way = "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql \
         AS $$ BEGIN RETURN NULL; END $$; \
         CREATE TRIGGER keep BEFORE DELETE ON sendoff.outbox FOR EACH ROW EXECUTE FUNCTION keep()";
    client.batch_execute(in_the_way).await.unwrap();
    let target = MemoryPublisher::new();
    store.send_all(&[message("1", "k")]).await.unwrap();
    let relay = relay(open(&url), &target, &RelayGate::new());
    eventually("it is tried again", || async { (target.ids().len() >= 2).then_some(()) }).await;
    relay.told(ErrorKind::Unexpected).await;
    assert_eq!(store.stats().await.unwrap().pending, 1);
    client.batch_execute("DROP TRIGGER keep ON sendoff.outbox").await.unwrap();
    drained(&store).await;
    relay.ready().await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_transaction_of_a_relay_is_open_beside_somebody_who_holds_the_gate() {
    let (store, url) = migrated().await;
    let client = connect(&url).await;
    let target = MemoryPublisher::new();
    target.always(On::Any, Act::Delay(Duration::from_millis(2)));
    let gate = RelayGate::new();
    let open_ones = "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid() \
           AND xact_start IS NOT NULL AND backend_type = 'client backend'";
    let hold = async |rounds: u32| {
        for _ in 0..rounds {
            let held = gate.exclusive().await;
            for _ in 0..5 {
                let open: i64 = client.query_one(open_ones, &[]).await.unwrap().get(0);
                assert_eq!(open, 0, "a transaction runs beside the exclusive holder");
            }
            drop(held);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let send = async |from: u32| {
        let messages: Vec<_> =
            (from..from + 200).map(|n| message(&n.to_string(), &n.to_string())).collect();
        store.send_all(&messages).await.unwrap();
    };
    // The connection that listens claims and settles nothing, and asks no gate.
    let deaf = || {
        let options = PostgresOptions { listen: false, ..PostgresOptions::default() };
        PostgresStore::new(&url, options).unwrap()
    };
    send(0).await;
    let locks = relay(deaf(), &target, &gate);
    hold(20).await;
    drained(&store).await;
    locks.stop().await;
    send(1_000).await;
    let lanes = Relay::builder(Arc::new(deaf()), Arc::new(target.clone()))
        .settings(RelaySettings { in_flight_max: 3, ..RelaySettings::default() })
        .gate(gate.clone())
        .build()
        .unwrap();
    let lanes = tokio::spawn(lanes.run(std::future::pending()));
    hold(20).await;
    drained(&store).await;
    lanes.abort();
    assert_eq!(target.tally().repeated, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_has_gone_silent_holds_its_rows_no_longer_than_its_claim_lasts() {
    let (store, url) = migrated().await;
    store.send_all(&[message("1", "k")]).await.unwrap();
    let (silent, other) = (open(&url), open(&url));
    let claim = |lasts| ClaimRequest {
        relay: RelayId::new(),
        target: None,
        after: 0,
        rows_max: 1,
        bytes_max: 1_000,
        lasts,
    };
    let begun = std::time::Instant::now();
    let lasts = Duration::from_millis(700);
    // As a process that was stopped: it has the rows, and does nothing with them.
    let held = silent.claim(&claim(lasts)).await.unwrap().unwrap();
    assert!(other.claim(&claim(lasts)).await.unwrap().is_none());
    eventually("the server has ended the transaction", || async {
        other.claim(&claim(lasts)).await.unwrap().map(drop)
    })
    .await;
    assert!(begun.elapsed() >= lasts, "not before its time");
    assert!(held.mark(&[]).await.is_err(), "what it had claimed is not its own any more");
}
