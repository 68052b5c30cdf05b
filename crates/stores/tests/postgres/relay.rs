//! A whole relay while its database refuses or the line to it fails: it says so, loses nothing,
//! publishes nothing twice and goes on by itself.

use std::time::Duration;

use sendoff_conformance::servers::Proxy;
use sendoff_core::ErrorKind;
use sendoff_core::memory::MemoryPublisher;
use sendoff_core::store::OutboxDesk;
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};

use crate::running::{drained, relay};
use crate::stage::{connect, eventually, message, migrated, open, through};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_says_that_its_database_is_read_only_and_goes_on_when_it_is_not() {
    let (store, url) = migrated().await;
    let target = MemoryPublisher::new();
    let relay = relay(open(&url), &target);
    store.send_all(&[message("1", "k")]).await.unwrap();
    drained(&store).await;
    // A fail-over: new connections meet a server that takes no writes. This one is an old one.
    let client = connect(&url).await;
    let name = url.rsplit_once('/').unwrap().1;
    let turn = |on: &str| {
        format!(
            "ALTER DATABASE {name} SET default_transaction_read_only = {on}; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
              WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    };
    client.batch_execute(&turn("on")).await.unwrap();
    for id in ["2", "3"] {
        let sql =
            "INSERT INTO sendoff.outbox (id, source, topic, key) VALUES ($1, 'test', 't', 'k')";
        client.execute(sql, &[&id]).await.unwrap();
    }
    eventually("it says so", || async { relay.told(ErrorKind::ReadOnly).then_some(()) }).await;
    assert!(!relay.ready.is_ready());
    client.batch_execute(&turn("off")).await.unwrap();
    assert_eq!(drained(&store).await.published, 3);
    eventually("it is ready again", || async { relay.ready.is_ready().then_some(()) }).await;
    assert_eq!(
        (target.ids(), target.tally().repeated),
        (["1", "2", "3"].map(String::from).into(), 0)
    );
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_says_that_its_line_is_dead_or_cut_and_goes_on_when_it_is_not() {
    let (store, url) = migrated().await;
    let config: tokio_postgres::Config = url.parse().unwrap();
    let proxy = Proxy::to_port(config.get_ports()[0]).await.unwrap();
    let limit = Duration::from_millis(500);
    let options =
        PostgresOptions { answer_timeout: limit, connect_timeout: limit, ..Default::default() };
    let far = PostgresStore::new(&through(&url, proxy.port()), options).unwrap();
    let target = MemoryPublisher::new();
    let relay = relay(far, &target);
    let mut sent: Vec<String> = Vec::new();
    for dead in [true, false] {
        for _ in 0..20 {
            sent.push(format!("{:03}", sent.len()));
            store.send_all(&[message(&sent[sent.len() - 1], "k")]).await.unwrap();
        }
        drained(&store).await;
        relay.failures.lock().unwrap().clear();
        // Half open: both ends think that the other one is there. Or cut, with every new one.
        if dead {
            proxy.stall();
        } else {
            proxy.refuse();
        }
        for _ in 0..20 {
            sent.push(format!("{:03}", sent.len()));
            store.send_all(&[message(&sent[sent.len() - 1], "k")]).await.unwrap();
        }
        eventually("it says so", || async {
            (relay.told(ErrorKind::Timeout) || relay.told(ErrorKind::Unreachable)).then_some(())
        })
        .await;
        assert!(!relay.ready.is_ready());
        proxy.resume();
        drained(&store).await;
        eventually("it is ready again", || async { relay.ready.is_ready().then_some(()) }).await;
    }
    assert_eq!(target.ids(), sent);
    assert_eq!(target.tally().repeated, 0);
    relay.stop().await;
}
