//! `sendoff tail`: what was sent lately, and what becomes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use sendoff::Error;
use sendoff::message::TopicPattern;
use sendoff::store::{Place, Standing};
use serde::Serialize;

use crate::arguments::TailArguments;
use crate::configuration::Configuration;
use crate::exit::{Ending, Exit, Failure};
use crate::output::{Form, grouped, shown};
use crate::stop::Stop;
use crate::store::Store;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// The newest messages that are watched. What has left this window is not watched any more.
const WINDOW: u32 = 1_000;
/// So much is shown of a body.
const BODY_BYTES: u32 = 256;

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    standing: &'a Standing,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
}

/// What is known of a message that was shown.
struct Watched {
    place: Place,
    topic: String,
    key: Option<String>,
    body_bytes: Option<u64>,
}

/// Answers with the newest messages and, with `--follow`, with what happens until a signal.
pub(crate) async fn run(
    configuration: &Configuration,
    arguments: &TailArguments,
    form: Form,
) -> Ending {
    let topic = arguments.topic.as_deref().map(str::parse::<TopicPattern>).transpose()?;
    let store = Store::open(configuration, false)?;
    store.check_schema().await?;
    let mut tail =
        Tail { store: &store, bodies: arguments.bodies, topic, form, watched: BTreeMap::new() };
    tail.begin(arguments.lines, arguments.follow).await?;
    if !arguments.follow {
        return Ok(Exit::Done);
    }
    let stop = Stop::listen()?;
    loop {
        tokio::select! {
            () = stop.asked() => return Ok(Exit::Done),
            () = tokio::time::sleep(EVERY) => {}
        }
        match tail.go_on().await {
            Err(Failure::Error { error, .. }) if is_passing(&error) => {
                tracing::warn!(%error, "the store cannot be read; trying again");
            }
            other => other?,
        }
    }
}

fn is_passing(error: &Error) -> bool {
    error.retry() != sendoff::error::Retry::Never
}

struct Tail<'a> {
    store: &'a Store,
    bodies: bool,
    topic: Option<TopicPattern>,
    form: Form,
    /// By seq: what was shown last.
    watched: BTreeMap<i64, Watched>,
}

impl Tail<'_> {
    async fn begin(&mut self, lines: u32, follow: bool) -> Result<(), Failure> {
        let window = if follow || self.topic.is_some() { WINDOW } else { lines };
        let found = self.recent(window).await?;
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        let wanted: Vec<&Standing> = found.iter().filter(|one| self.is_wanted(one)).collect();
        let first = wanted.len().saturating_sub(lines);
        self.show(&wanted[first..]).await?;
        for standing in &found {
            self.watch(standing);
        }
        Ok(())
    }

    /// Shows what is new, and what has changed since the last look.
    async fn go_on(&mut self) -> Result<(), Failure> {
        let mut found = self.recent(WINDOW).await?;
        for standing in &mut found {
            // Once it is gone, the store knows the pair only.
            if let Some(seen) = standing.seq.and_then(|seq| self.watched.get(&seq))
                && standing.topic.is_empty()
            {
                standing.topic.clone_from(&seen.topic);
                standing.key.clone_from(&seen.key);
                standing.body_bytes = seen.body_bytes;
            }
        }
        let is_news = |one: &Standing| {
            let seen = one.seq.and_then(|seq| self.watched.get(&seq));
            seen.is_none_or(|seen| seen.place != one.place)
        };
        let news: Vec<&Standing> =
            found.iter().filter(|one| is_news(one) && self.is_wanted(one)).collect();
        self.show(&news).await?;
        let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        if found.len() == window
            && found.iter().all(|one| one.seq.is_some_and(|seq| !self.watched.contains_key(&seq)))
        {
            tracing::warn!("more was sent than can be shown: some messages are left out");
        }
        let oldest = found.iter().filter_map(|one| one.seq).min().unwrap_or(0);
        self.watched.retain(|seq, _| *seq >= oldest);
        for standing in &found {
            self.watch(standing);
        }
        Ok(())
    }

    async fn recent(&self, rows_max: u32) -> Result<Vec<Standing>, Failure> {
        let recent = self.store.tail.recent(rows_max).await;
        recent.map_err(|error| self.store.explain(error).into())
    }

    fn is_wanted(&self, standing: &Standing) -> bool {
        self.topic.as_ref().is_none_or(|pattern| pattern.matches(&standing.topic))
    }

    fn watch(&mut self, standing: &Standing) {
        if let Some(seq) = standing.seq {
            let seen = Watched {
                place: standing.place,
                topic: standing.topic.clone(),
                key: standing.key.clone(),
                body_bytes: standing.body_bytes,
            };
            self.watched.insert(seq, seen);
        }
    }

    async fn show(&self, standings: &[&Standing]) -> Result<(), Failure> {
        let bodies = self.bodies_of(standings).await?;
        for standing in standings {
            let body = standing.seq.and_then(|seq| bodies.get(&seq)).map(String::as_str);
            self.form.answer(&Line { standing, body }, &text(standing, body))?;
        }
        Ok(())
    }

    async fn bodies_of(&self, standings: &[&Standing]) -> Result<BTreeMap<i64, String>, Failure> {
        let there = standings.iter().filter(|one| one.place != Place::Gone);
        let seqs: Vec<i64> = there.filter_map(|one| one.seq).collect();
        if !self.bodies || seqs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let bodies = self.store.tail.bodies(&seqs, BODY_BYTES).await;
        let bodies = bodies.map_err(|error| self.store.explain(error))?;
        let readable = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        Ok(bodies.into_iter().map(|(seq, body)| (seq, readable(&body))).collect())
    }
}

fn text(standing: &Standing, body: Option<&str>) -> String {
    let place = match standing.place {
        Place::Ready => "ready",
        Place::DueLater => "due later",
        Place::Retrying => "retrying",
        Place::Postponed => "postponed",
        Place::Paused => "paused",
        Place::Held => "held",
        Place::Quarantined => "quarantined",
        Place::Gone => "gone",
    };
    let time = standing.sent_at.map_or(String::new(), |time| format!("{time:.3}"));
    let topic = if standing.topic.is_empty() { "-".to_owned() } else { shown(&standing.topic) };
    let size = standing.body_bytes.map_or("-".to_owned(), |bytes| format!("{} B", grouped(bytes)));
    let mut line = format!(
        "{time}  {:<11}  {topic}  {}  key={}  {size}",
        place,
        shown(&standing.id),
        standing.key.as_deref().map_or("-".to_owned(), shown),
    );
    if let Some(error) = standing.last_error.as_deref().filter(|_| standing.place != Place::Gone) {
        line.push_str(&format!("  ({})", shown(error)));
    }
    if let Some(body) = body {
        line.push_str(&format!("\n    {}", shown(body)));
    }
    line
}
