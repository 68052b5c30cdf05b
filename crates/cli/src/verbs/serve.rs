//! `sendoff serve`: barriers of one store over HTTP.

use std::net::SocketAddr;

use sendoff::{Error, ErrorKind, Result, Wake};
use serde_json::json;
use tokio::net::TcpListener;

use crate::callback::Signer;
use crate::configuration::{Configuration, FILE_DEFAULT};
use crate::exit::{Ending, Exit};
use crate::http::{self, Api, Bounds, Keys};
use crate::output::Form;
use crate::stop::Stop;
use crate::store::Store;

const DOING: &str = "starting the server";

/// Answers until a signal.
pub(crate) async fn run(configuration: &Configuration, form: Form) -> Ending {
    let bounds = Bounds::of(configuration)?;
    let tokens = configuration.secrets("serve.tokens")?;
    if tokens.is_empty() {
        return Err(Error::invalid(DOING, "no bearer token is set, so nobody could use it")
            .advice(format!(
                "set SENDOFF_SERVE_TOKENS, or `tokens` under [serve] in {FILE_DEFAULT}; make one with \
                 `openssl rand -hex 32`"
            ))
            .into());
    }
    let signer = Signer::new(&configuration.secrets("serve.callback_secret")?);
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let (listener, address) = listen(configuration).await?;
    let stop = Stop::listen()?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "listening beyond this machine, without TLS: put a proxy before it");
    }
    let callbacks = signer.is_some();
    let api = Api::new(store.barriers.clone(), Keys::new(&tokens)?, signer, Wake::new());
    form.answer(
        &json!({
            "event": "started",
            "url": format!("http://{address}"),
            "port": address.port(),
            "store": store.shown,
            "callbacks": callbacks,
            "pid": std::process::id(),
        }),
        &format!(
            "barriers   http://{address}/v1/barriers\n\
             described  http://{address}/openapi.json\n\
             store      {}\n\
             callbacks  {}\n\
             stop       Ctrl-C\n",
            store.shown,
            if callbacks { "on" } else { "off: set SENDOFF_SERVE_CALLBACK_SECRET" },
        ),
    )?;
    http::serve(listener, api.routes().fallback(http::nothing_here), bounds, stop).await;
    form.answer(&json!({ "event": "stopped" }), "stopped\n")?;
    Ok(Exit::Done)
}

async fn listen(configuration: &Configuration) -> Result<(TcpListener, SocketAddr)> {
    let text = configuration.text("serve.listen").unwrap_or_default();
    let wanted: SocketAddr = text.parse().map_err(|_| {
        Error::invalid(DOING, format!("`{text}` is not an address to listen on"))
            .advice("write 127.0.0.1:8080 or [::1]:8080; port 0 is any")
    })?;
    let failed = |error| {
        Error::new(ErrorKind::Unexpected, DOING)
            .subject(text)
            .caused_by(error)
            .advice("name another address with --listen; port 0 takes any")
    };
    let listener = TcpListener::bind(wanted).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
