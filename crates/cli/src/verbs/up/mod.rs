//! `sendoff up`: the whole job in one process that needs no server. Orders come over HTTP and from a
//! load of its own; each is a row and a message in one transaction; a relay delivers to a file.
//!
//! What does not belong here: the transaction itself ([`crate::shop`]).

mod barriers;
mod figures;
mod http;
mod listen;
mod load;
mod partner;

use std::sync::Arc;
use std::time::Duration;

use sendoff::file::{FilePublisher, FolderKeys};
use sendoff::relay::{Relay, Tally};
use sendoff::sqlite::SqliteStore;
use sendoff::store::OutboxDesk;
use sendoff::{Error, ErrorKind, Publisher, Result, Wake};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::arguments::UpArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::log;
use crate::observe::{self, Observed};
use crate::output::{Form, grouped};
use crate::shop::{DataFolder, Shop};
use crate::stop::Stop;
use crate::store::quoted;

use barriers::Secrets;
use figures::{Figures, Reading};
use partner::Partner;

/// Between two looks at what is still pending, while it drains.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// Runs until a signal, then drains and prints the tally.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &UpArguments,
    form: Form,
) -> Ending {
    let settings = configuration.relay()?;
    let patience = settings.cancel_after;
    let folder = DataFolder::make(&arguments.data)?;
    // First of all: its lock says whether another `up` runs on this folder.
    let publisher = Arc::new(FilePublisher::open(folder.delivered())?);
    let store = SqliteStore::open(&folder.database(), configuration.sqlite(true)?)?;
    let store = Arc::new(store.with_key_source(Arc::new(FolderKeys)));
    store.migrate().await?;
    let listener = listen::on(arguments.port).await?;
    let wake = Wake::new();
    let (shop, writer) = Shop::open(&folder.database(), wake.clone())?;
    let stop = Stop::listen()?;
    let secrets = Secrets::of(configuration, &folder)?;
    let figures = Figures::begin(shop.clone(), store.clone(), secrets.signer.clone()).await?;
    let figures = Arc::new(figures);
    let partner = Partner::new(&folder, listener.port, secrets.token.clone(), shop.clone());
    let api = secrets.api(store.clone(), wake.clone());
    let observed = Observed::relay(store.clone(), publisher.address());

    let relay = Relay::builder(store.clone(), publisher.clone())
        .settings(settings)
        .wake(wake)
        .report(log::reports(publisher.address()))
        .build()?;
    observed.begins(observe::Running::of(&relay));
    let relay = Running::begin(relay);
    let place = Place { port: listener.port, folder: &folder, rate: arguments.rate };
    place.announce(arguments.port, figures.read().await?.committed, form)?;
    let routes = http::routes(figures.clone(), place.urls(), &api, &observed);
    let bounds = crate::http::Bounds::of(configuration)?;
    let server = tokio::spawn(crate::http::serve(listener.socket, routes, bounds, stop.clone()));
    let partner = tokio::spawn(partner.run(stop.clone()));
    let load = tokio::spawn(load::run(arguments.rate, figures.clone(), stop.clone()));
    figures::show(&figures, form, stop.asked()).await?;

    // Nothing new first, then what is there.
    let _ =
        tokio::time::timeout(patience, async { (load.await, partner.await, server.await) }).await;
    let drained = drain(&store, patience).await;
    let tally = relay.end().await?;
    let last = figures.read().await?;
    drop((figures, shop));
    // The thread ends once nobody can ask it any more; a handler that hangs must not hold us.
    let _ =
        tokio::time::timeout(patience, tokio::task::spawn_blocking(move || writer.join())).await;
    place.tell_end(&last, &tally, form)?;
    Ok(if drained { Exit::Done } else { Exit::GaveUp })
}

/// Waits until nothing due is pending; false where that takes longer than `patience`.
async fn drain(store: &SqliteStore, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        match store.stats().await {
            Ok(stats) if stats.due == 0 => return true,
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "cannot count what is pending"),
        }
        if Instant::now() > until {
            return false;
        }
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

/// A relay that runs beside the rest.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Tally>,
}

impl Running {
    fn begin(relay: Relay) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(relay.run(async {
            // A sender that is gone is a stop too.
            let _ = stopped.await;
        }));
        Self { stop, task }
    }

    async fn end(self) -> Result<Tally> {
        drop(self.stop);
        self.task.await.map_err(|error| {
            Error::new(ErrorKind::Unexpected, "stopping the relay").caused_by(error)
        })
    }
}

/// Where it runs, for what is said about it.
struct Place<'a> {
    port: u16,
    folder: &'a DataFolder,
    rate: u32,
}

impl Place<'_> {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn urls(&self) -> serde_json::Value {
        let url = self.url();
        json!({
            "figures": format!("{url}/"),
            "status": format!("{url}/status"),
            "place_an_order": format!("{url}/orders"),
            "one_order": format!("{url}/orders/ID"),
            "send_a_batch": format!("{url}/batches"),
            "one_batch": format!("{url}/batches/ID"),
            "barriers": format!("{url}/v1/barriers"),
            "description": format!("{url}/openapi.json"),
        })
    }

    /// `--data` as it has to be given to another command; nothing where it is the default.
    fn data_flag(&self) -> String {
        let here = std::env::current_dir()
            .map(|folder| folder.join(crate::shop::FOLDER_DEFAULT))
            .and_then(|folder| folder.canonicalize());
        match here {
            Ok(default) if default == self.folder.path() => String::new(),
            _ => format!(" --data {}", quoted(&self.folder.path().display().to_string())),
        }
    }

    fn announce(
        &self,
        wanted: u16,
        committed: u64,
        form: Form,
    ) -> std::result::Result<(), Failure> {
        let url = self.url();
        let data = self.folder.path().display().to_string();
        let pid = std::process::id();
        let busy = wanted != 0 && wanted != self.port;
        let mut text = String::new();
        if busy {
            text.push_str(&format!("port {wanted} is busy; using {}\n", self.port));
        }
        if committed > 0 {
            text.push_str(&format!("going on with {} orders\n", grouped(committed)));
        }
        let load = match self.rate {
            0 => "none: only the orders that you send".to_owned(),
            rate => format!("{rate} orders/s of its own; one in ten rolls back on purpose"),
        };
        text.push_str(&format!(
            "orders   {url}/orders\n\
             figures  {url}/\n\
             barriers {url}/v1/barriers (the bearer token is in api-token)\n\
             data     {data} (shop.db, delivered.jsonl)\n\
             load     {load}\n\
             try      curl -d '{{\"customer\":\"you\",\"item\":\"tea\",\"quantity\":2}}' {url}/orders\n\
             batch    curl -d '{{\"documents\":1000}}' {url}/batches\n\
             prove    kill -9 {pid}, start again, then: sendoff verify{}\n\
             stop     Ctrl-C\n",
            self.data_flag()
        ));
        form.answer(
            &json!({
                "event": "started",
                "url": url,
                "urls": self.urls(),
                "port": self.port,
                "port_was_busy": busy,
                "data": data,
                "pid": pid,
                "committed": committed,
                "rate": self.rate,
            }),
            &text,
        )
    }

    fn tell_end(
        &self,
        last: &Reading,
        tally: &Tally,
        form: Form,
    ) -> std::result::Result<(), Failure> {
        let text = format!(
            "stopped: {} orders committed ({} in this run), {} rolled back on purpose, \
             {} delivered ({} in this run), {} pending\n\
             compare: sendoff verify{}\n",
            grouped(last.committed),
            grouped(last.committed_now),
            grouped(last.rolled_back_now),
            grouped(last.delivered),
            grouped(tally.settled),
            grouped(last.pending),
            self.data_flag(),
        );
        form.answer(&json!({ "event": "stopped", "figures": last, "relay": tally }), &text)
    }
}
