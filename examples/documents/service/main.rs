//! A service that sends a batch of documents to a partner, takes the answers over NATS and HTTP, and
//! goes on once all of them have come, or the deadline has.
//!
//! `documents_service setup` makes tables and streams, `send BATCH COUNT DEADLINE_S` sends a batch, and
//! `run` does everything else until SIGTERM. Any of them may be killed at any moment and started again.
//!
//! `DATABASE_URL` names a PostgreSQL, `NATS_URL` a NATS with JetStream, `HTTP_ADDRESS` what the route
//! for answers listens at and the partner connects to.

mod answers;
mod continuation;
mod http;
mod send;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use sendoff::nats::{NatsOptions, NatsPublisher};
use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::relay::RelaySettings;
use sendoff::store::OutboxDesk;
use sendoff::{Relay, Wake};
use sqlx::PgPool;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whatever may go wrong here ends the program with its words, or one try of several.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What every part of `run` works with.
#[derive(Clone)]
struct Service {
    pool: PgPool,
    jetstream: jetstream::Context,
    /// Tells the relay in this process of a commit.
    wake: Wake,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["setup"] => setup().await,
        ["send", batch, count, deadline_s] => {
            let pool = PgPool::connect(&variable("DATABASE_URL")?).await?;
            let deadline = Duration::from_secs(deadline_s.parse()?);
            let address = variable("HTTP_ADDRESS")?;
            if send::send(&pool, batch, count.parse()?, deadline, &address).await? {
                println!("{batch}: sent");
            } else {
                println!("{batch}: was sent before; nothing was changed");
            }
            Ok(())
        }
        ["run"] => run().await,
        _ => Err("usage: documents_service setup | send BATCH COUNT DEADLINE_S | run".into()),
    }
}

fn variable(name: &str) -> Result<String, Error> {
    std::env::var(name).map_err(|error| format!("reading the variable {name}: {error}").into())
}

/// Safe to repeat.
async fn setup() -> Result<(), Error> {
    let url = variable("DATABASE_URL")?;
    PostgresStore::new(&url, PostgresOptions::default())?.migrate().await?;
    sqlx::raw_sql(include_str!("tables.sql")).execute(&PgPool::connect(&url).await?).await?;
    streams::create(&jetstream::new(async_nats::connect(variable("NATS_URL")?).await?)).await
}

async fn run() -> Result<(), Error> {
    let (database, nats) = (variable("DATABASE_URL")?, variable("NATS_URL")?);
    let address = variable("HTTP_ADDRESS")?;
    let service = Service {
        pool: PgPool::connect(&database).await?,
        jetstream: jetstream::new(async_nats::connect(&nats).await?),
        wake: Wake::new(),
    };
    let stop = CancellationToken::new();
    stop_on_signals(stop.clone())?;

    // The relay publishes what is committed, and fires the deadline. It outlives the others, so that
    // what they commit last still leaves.
    let relay_stop = CancellationToken::new();
    let relay = relay(&database, &nats, service.wake.clone())?;
    let relay = tokio::spawn(relay.run(relay_stop.clone().cancelled_owned()));

    // An error of one of them ends the program, as a crash would: whoever supervises it starts it
    // again.
    tokio::try_join!(
        answers::take(&service, &stop),
        continuation::take(&service, &stop),
        http::serve(&service, &address, &stop),
    )?;
    relay_stop.cancel();
    let tally = relay.await?;
    // NATS has been told what was done, or would deliver it again.
    service.jetstream.client().flush().await?;
    println!("stopped: {} messages published", tally.settled);
    Ok(())
}

fn relay(database: &str, nats: &str, wake: Wake) -> Result<Relay, Error> {
    let store = PostgresStore::new(database, PostgresOptions::default())?;
    let target = format!("{nats}/{}", streams::WORK);
    let publisher = NatsPublisher::new(&target, NatsOptions::default())?;
    let settings = RelaySettings {
        // So long do messages wait for another relay when this one is killed.
        lease: Duration::from_secs(3),
        publish_timeout: Duration::from_secs(2),
        ..RelaySettings::default()
    };
    Ok(Relay::builder(Arc::new(store), Arc::new(publisher))
        .settings(settings)
        .wake(wake)
        .report(|report| eprintln!("{report:?}"))
        .build()?)
}

fn stop_on_signals(stop: CancellationToken) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}
