//! `sendoff status`: counts of a store.

use std::time::Duration;

use sendoff::store::{Holder, PauseStanding, Place, Stats};
use serde::Serialize;

use crate::arguments::StatusArguments;
use crate::configuration::{Configuration, duration_text, parse_duration};
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, grouped, shown};
use crate::stop::Stop;
use crate::store::Store;

#[derive(Debug, Serialize)]
struct Status<'a> {
    store: &'a str,
    #[serde(flatten)]
    stats: &'a Stats,
    holders: &'a [Holder],
    pauses: &'a [PauseStanding],
}

/// So many messages are named that hold others.
const HOLDERS_MAX: u32 = 5;

/// Answers with the counts, once or, with `--watch`, until a signal.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &StatusArguments,
    form: Form,
) -> Ending {
    let every = arguments
        .watch
        .as_deref()
        .map(|text| {
            parse_duration(text).map_err(|why| sendoff::Error::invalid("reading --watch", why))
        })
        .transpose()?;
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    answer(&store, form).await?;
    let Some(every) = every else {
        return Ok(Exit::Done);
    };
    let stop = Stop::listen()?;
    loop {
        tokio::select! {
            () = stop.asked() => return Ok(Exit::Done),
            () = tokio::time::sleep(every.max(Duration::from_millis(100))) => {}
        }
        answer(&store, form).await?;
    }
}

async fn answer(store: &Store, form: Form) -> Result<(), Failure> {
    let stats = store.desk.stats().await.map_err(|e| store.explain(e))?;
    let holders = match stats.held + stats.retrying {
        0 => Vec::new(),
        _ => store.desk.holders(HOLDERS_MAX).await.map_err(|e| store.explain(e))?,
    };
    let pauses = store.pauses.pauses().await.map_err(|e| store.explain(e))?;
    let status = Status { store: &store.shown, stats: &stats, holders: &holders, pauses: &pauses };
    form.answer(&status, &text(&status))
}

fn text(status: &Status<'_>) -> String {
    let Status { store: address, stats, holders, pauses } = *status;
    let pending = format!(
        "{}  (due {}, of these retrying {}, postponed {})",
        grouped(stats.pending),
        grouped(stats.due),
        grouped(stats.retrying),
        grouped(stats.postponed)
    );
    let mut paused = grouped(stats.paused);
    for pause in pauses {
        let (parked, held) = (grouped(pause.parked), grouped(pause.held));
        let name = crate::output::shown(&pause.name);
        paused.push_str(&format!(
            "\n             {} {name}: {parked}, and {held} held behind",
            pause.kind
        ));
    }
    let quarantined = match stats.quarantined {
        0 => "0".to_owned(),
        count => format!("{}  LOOK: `sendoff quarantine list` says why", grouped(count)),
    };
    let held = match stats.held {
        0 => "0".to_owned(),
        count => format!("{}  behind an earlier message of their key", grouped(count)),
    };
    let by: String = holders.iter().map(holder).collect();
    let relays = match stats.relays {
        0 if stats.pending > 0 => "0  nothing leaves until `sendoff relay` runs".to_owned(),
        count => format!("{count}  ({} of {} lanes leased)", stats.lanes_leased, stats.lanes),
    };
    let oldest =
        stats.oldest_due_ms.map_or("-".to_owned(), |ms| duration_text(Duration::from_millis(ms)));
    format!(
        "store        {address}\n\
         pending      {pending}\n\
         held         {held}\n{by}\
         paused       {paused}\n\
         quarantined  {quarantined}\n\
         published    {}\n\
         oldest due   {oldest}\n\
         relays       {relays}\n",
        grouped(stats.published),
    )
}

/// A line on a message that later ones wait for.
fn holder(holder: &Holder) -> String {
    let what = match holder.holds {
        // It is the first of all that failed: under `hold = all` nothing else is said to be held.
        0 => "the first to be tried again is".to_owned(),
        count => format!("{} behind", grouped(count)),
    };
    let key = holder.key.as_deref().map_or(String::new(), |key| format!(" of key {}", shown(key)));
    let place = match (holder.place, holder.retry_at) {
        (Place::Quarantined, _) => "in quarantine".to_owned(),
        (_, Some(at)) => format!("failed {} times, again at {at}", holder.attempts),
        // Its time is never: see the pauses.
        (_, None) => "which may not leave now".to_owned(),
    };
    let error = holder.error.as_deref().map_or(String::new(), |why| format!(": {}", shown(why)));
    format!("             {what} {}{key}, {place}{error}\n", shown(&holder.id))
}
