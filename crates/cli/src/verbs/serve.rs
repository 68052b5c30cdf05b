//! `sendoff serve`: barriers of one store over HTTP.

use sendoff::{Error, Wake};
use serde_json::json;

use crate::callback::Signer;
use crate::configuration::{Configuration, FILE_DEFAULT};
use crate::exit::{Ending, Exit};
use crate::http::{self, Api, Bounds, Keys};
use crate::observe::Observed;
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
    let (listener, address) =
        http::listen(configuration.text("serve.listen").unwrap_or_default()).await?;
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
             health     http://{address}/health/ready\n\
             store      {}\n\
             callbacks  {}\n\
             stop       Ctrl-C\n",
            store.shown,
            if callbacks { "on" } else { "off: set SENDOFF_SERVE_CALLBACK_SECRET" },
        ),
    )?;
    let observed = Observed::server(&store);
    let routes = api.routes().merge(observed.health_routes());
    // This address may be reached by partners: how much there is to do is none of their business.
    let routes = routes.merge(api.guarded(observed.metrics_routes()));
    http::serve(listener, routes.fallback(http::nothing_here), bounds, stop).await;
    form.answer(&json!({ "event": "stopped" }), "stopped\n")?;
    Ok(Exit::Done)
}
