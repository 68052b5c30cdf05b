//! `sendoff status`: counts of a store.

use std::time::Duration;

use sendoff::store::{PauseStanding, Stats};
use serde::Serialize;

use crate::arguments::StatusArguments;
use crate::configuration::{Configuration, duration_text, parse_duration};
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, grouped};
use crate::stop::Stop;
use crate::store::Store;

#[derive(Debug, Serialize)]
struct Status<'a> {
    store: &'a str,
    #[serde(flatten)]
    stats: &'a Stats,
    pauses: &'a [PauseStanding],
}

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
    let pauses = store.pauses.pauses().await.map_err(|e| store.explain(e))?;
    let status = Status { store: &store.shown, stats: &stats, pauses: &pauses };
    form.answer(&status, &text(&store.shown, &stats, &pauses))
}

fn text(shown: &str, stats: &Stats, pauses: &[PauseStanding]) -> String {
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
    let relays = match stats.relays {
        0 if stats.pending > 0 => "0  nothing leaves until `sendoff relay` runs".to_owned(),
        count => format!("{count}  ({} of {} lanes leased)", stats.lanes_leased, stats.lanes),
    };
    let oldest =
        stats.oldest_due_ms.map_or("-".to_owned(), |ms| duration_text(Duration::from_millis(ms)));
    format!(
        "store        {shown}\n\
         pending      {pending}\n\
         held         {held}\n\
         paused       {paused}\n\
         quarantined  {quarantined}\n\
         published    {}\n\
         oldest due   {oldest}\n\
         relays       {relays}\n",
        grouped(stats.published),
    )
}
