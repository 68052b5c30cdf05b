//! The examination of a NATS target: the server, the stream, its subjects, its duplicate window.

use std::time::Duration;

use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, ConnectOptions};
use sendoff_core::store::Finding;

use crate::nats::address::NatsAddress;
use crate::nats::subject::overlap;
use crate::nats::{NatsOptions, security};

/// Examines the server and the stream. See [`crate::Target::examine`].
pub(crate) async fn examine(
    address: &NatsAddress,
    options: &NatsOptions,
    repeated_after: Duration,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let connecting = tokio::time::timeout(options.connect_timeout, connect(address, options));
    let client = match connecting.await {
        Ok(Ok(client)) => client,
        Ok(Err(why)) => return vec![unreachable(address, &why)],
        Err(_) => return vec![unreachable(address, "no greeting in time")],
    };
    findings.push(Finding::ok("target", format!("{address} answers")));
    match stream(&client, address, options).await {
        Ok(config) => {
            findings.push(Finding::ok("stream", format!("stream {} is there", address.stream())));
            findings.push(subjects(address, &config));
            findings.push(duplicate_window(address, &config, repeated_after));
            findings.push(storage(&config));
        }
        Err(finding) => findings.push(finding),
    }
    findings
}

fn unreachable(address: &NatsAddress, why: &str) -> Finding {
    Finding::failure(
        "target",
        format!("{address} cannot be reached: {why}"),
        "see whether the server runs, and the address, its port, its login and its TLS files",
    )
}

async fn connect(address: &NatsAddress, options: &NatsOptions) -> Result<Client, String> {
    let plain = ConnectOptions::new()
        .name(&options.client_name)
        .connection_timeout(options.connect_timeout)
        .ignore_discovered_servers();
    let secure = security::secure(plain, address)?;
    secure.connect(address.server()).await.map_err(|error| security::refused(&error))
}

async fn stream(
    client: &Client,
    address: &NatsAddress,
    options: &NatsOptions,
) -> Result<Config, Finding> {
    let mut context = jetstream::new(client.clone());
    context.set_timeout(options.connect_timeout);
    let (name, filter) = (address.stream(), address.filter());
    let error = match context.get_stream(name).await {
        Ok(stream) => return Ok(stream.cached_info().config.clone()),
        Err(error) => error,
    };
    match error.kind() {
        GetStreamErrorKind::JetStream(answer)
            if answer.error_code() == ErrorCode::STREAM_NOT_FOUND && address.create() =>
        {
            Err(Finding::ok("stream", format!("there is no stream {name}; a relay will create it")))
        }
        GetStreamErrorKind::JetStream(answer)
            if answer.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            Err(Finding::failure(
                "stream",
                format!("there is no stream {name}"),
                format!("nats stream add {name} --subjects='{filter}' --storage=file --defaults"),
            ))
        }
        _ => Err(Finding::warning(
            "stream",
            format!("stream {name} cannot be asked about: {error}"),
            format!("give this user the right to $JS.API.STREAM.INFO.{name}, or ask as another"),
        )),
    }
}

fn subjects(address: &NatsAddress, config: &Config) -> Finding {
    let (filter, name) = (address.filter(), address.stream());
    let listens = config.subjects.join(", ");
    if config.subjects.iter().any(|subject| overlap(subject, &filter)) {
        return Finding::ok("subjects", format!("it listens to {listens}"));
    }
    Finding::failure(
        "subjects",
        format!("it listens to {listens} and to nothing under {filter}"),
        format!(
            "nats stream edit {name} --subjects='{filter}', or give the address another prefix"
        ),
    )
}

fn duplicate_window(address: &NatsAddress, config: &Config, repeated_after: Duration) -> Finding {
    let (window, name) = (config.duplicate_window, address.stream());
    let (window_s, needed_s) = (window.as_secs_f64(), repeated_after.as_secs_f64());
    if window >= repeated_after {
        return Finding::ok(
            "duplicate-window",
            format!("{window_s} s; a repetition comes within {needed_s} s"),
        );
    }
    Finding::warning(
        "duplicate-window",
        format!("{window_s} s, and a repetition can come {needed_s} s after the first publish"),
        format!(
            "nats stream edit {name} --dupe-window={}s, or let consumers recognise repetitions",
            needed_s.ceil()
        ),
    )
}

fn storage(config: &Config) -> Finding {
    if config.storage == StorageType::File {
        return Finding::ok("storage", format!("on files, {} replicas", config.num_replicas));
    }
    Finding::warning(
        "storage",
        "the stream is in memory: a crash of the server loses what it has confirmed",
        "make a stream with --storage=file",
    )
}
