//! A whole run: stretches of rounds with one, two or four relays, each drained and compared.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use sendoff::relay::Hold;
use sendoff::store::{Stats, Which};

use crate::failed;
use crate::ground::{Ground, StoreKind, TargetKind};
use crate::ledger::{Explained, Ledger};
use crate::outcome::Outcome;
use crate::relay::Mode;
use crate::relays::Relays;
use crate::round::{Fault, Strike, strike};
use crate::writers::Writers;

/// What a run is to be.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// How many rounds have to count.
    #[arg(long, default_value_t = 150)]
    pub rounds: u64,
    /// What everything random follows from; a new one each time unless it is given. The machine's
    /// timing is not repeated by it.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The database.
    #[arg(long, value_enum, default_value_t = StoreKind::Postgres)]
    pub store: StoreKind,
    /// The broker. A file has one writer, so it goes with one relay.
    #[arg(long, value_enum, default_value_t = TargetKind::Nats)]
    pub to: TargetKind,
    /// The kind of relay. With row locks nobody promises an order, so it is not compared.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// What strikes. Default: all that this database and this broker can have.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub faults: Vec<Fault>,
    /// How many relays: one stretch of rounds with each.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    pub relays: Vec<usize>,
    /// Everything drains and is compared after so many rounds at most.
    #[arg(long, default_value_t = 30)]
    pub compare_every: u64,
    /// Orders a second.
    #[arg(long, default_value_t = 600.0)]
    pub rate: f64,
    /// The relays' lease, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    pub lease_ms: u64,
    /// For how long the stream knows the ids it has seen, in milliseconds. The least that NATS
    /// takes, so that the stream does not keep duplicates out that a broker without such a window
    /// would let in.
    #[arg(long, default_value_t = 100)]
    pub dedup_ms: u64,
    /// What a failed message holds back. Under `none` no order is compared; under `all` nothing is
    /// refused for good, so that the order is that of the sends.
    #[arg(long, default_value_t = Hold::Key)]
    pub hold: Hold,
    /// How long draining may take, in seconds.
    #[arg(long, default_value_t = 60)]
    pub patience: u64,
    /// Tells each round.
    #[arg(long, short)]
    pub verbose: bool,
}

/// A run under way.
struct Run<'a> {
    settings: &'a Settings,
    ground: Ground,
    relays: Relays,
    ledger: Ledger,
    random: fastrand::Rng,
    faults: Vec<Fault>,
    strikes: Vec<Strike>,
    began: Instant,
    outcome: Outcome,
}

const WRITERS: u32 = 4;

/// Runs; `program` is this harness's own, for the relay processes. `say` is told how far it is.
///
/// # Errors
/// Where the run cannot go on: a server or a relay does not come back, or something does not drain.
/// What the comparison finds is no error here but in the [`Outcome`].
pub fn run(settings: &Settings, program: &Path, say: impl Fn(&str)) -> io::Result<Outcome> {
    if settings.to == TargetKind::File && settings.relays.iter().any(|count| *count != 1) {
        return Err(io::Error::other("a file has one writer: give --relays 1 with --to file"));
    }
    let seed = settings.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    say(&format!("seed {seed}"));
    let mut run = Run::new(settings, program, seed)?;
    let stretches = stretches(settings);
    for (relays, rounds) in stretches {
        run.stretch(relays, rounds, &say)?;
        let found = run.ledger.findings();
        say(&format!(
            "{} of {} rounds, {relays} relay(s): {} committed, {} arrived, {} lost, {} out of order, {} duplicates ({} unexplained)",
            run.outcome.rounds,
            settings.rounds,
            found.committed,
            found.arrived,
            found.lost,
            found.out_of_order,
            found.duplicates_explained + found.duplicates_unexplained,
            found.duplicates_unexplained,
        ));
    }
    run.outcome.findings = run.ledger.findings().clone();
    run.outcome.seconds = run.began.elapsed().as_secs_f64();
    Ok(run.outcome)
}

/// What a run of this kind strikes with.
fn faults(settings: &Settings) -> io::Result<Vec<Fault>> {
    let wanted =
        if settings.faults.is_empty() { Fault::value_variants() } else { &settings.faults };
    let possible = |fault: &&Fault| fault.is_possible(settings.store, settings.to);
    let faults: Vec<Fault> = wanted.iter().filter(possible).copied().collect();
    if faults.is_empty() {
        return Err(io::Error::other("no fault of --faults can strike this database and broker"));
    }
    Ok(faults)
}

/// How many rounds with how many relays, in stretches between two comparisons.
fn stretches(settings: &Settings) -> Vec<(usize, u64)> {
    let kinds = settings.relays.len() as u64;
    let mut stretches = Vec::new();
    for (at, relays) in settings.relays.iter().enumerate() {
        let more = u64::from((at as u64) < settings.rounds % kinds);
        let mut rounds = settings.rounds / kinds + more;
        while rounds > 0 {
            let part = rounds.min(settings.compare_every.max(1));
            stretches.push((*relays, part));
            rounds -= part;
        }
    }
    stretches
}

impl<'a> Run<'a> {
    fn new(settings: &'a Settings, program: &Path, seed: u64) -> io::Result<Self> {
        let dedup = Duration::from_millis(settings.dedup_ms);
        let ground = Ground::start(settings.store, settings.to, dedup)?;
        let arguments = [
            ("--store", ground.store_url()),
            ("--to", ground.target_url()),
            ("--healed", healed(&ground)),
            ("--lease-ms", settings.lease_ms.to_string()),
            ("--hold", settings.hold.to_string()),
            ("--mode", settings.mode.as_str().to_owned()),
        ];
        let arguments =
            arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        if settings.hold == Hold::All {
            fs::write(healed(&ground), "")?;
        }
        let relays = Relays::new(program, arguments, &ground.folder());
        Ok(Self {
            settings,
            ground,
            relays,
            ledger: Ledger::of(settings.mode, settings.hold),
            random: fastrand::Rng::with_seed(seed),
            faults: faults(settings)?,
            strikes: Vec::new(),
            began: Instant::now(),
            outcome: Outcome {
                seed,
                store: settings.store,
                target: settings.to,
                rounds: 0,
                struck_nothing: 0,
                landed: Default::default(),
                rolled_back: 0,
                broken: 0,
                fenced: 0,
                fenced_early: 0,
                published_late: 0,
                foreign_verdicts: 0,
                comparisons: 0,
                seconds: 0.0,
                findings: Default::default(),
            },
        })
    }

    fn stretch(&mut self, relays: usize, rounds: u64, say: &impl Fn(&str)) -> io::Result<()> {
        for _ in 0..relays {
            self.relays.start()?;
        }
        let books = self.ground.books();
        let writers = Writers::start(&books, WRITERS, self.settings.rate, self.random.u64(..))?;
        let mut counted = 0;
        while counted < rounds {
            let fault = Fault::pick(&mut self.random, &self.faults);
            let lease = Duration::from_millis(self.settings.lease_ms);
            let strike =
                strike(fault, &mut self.ground, &mut self.relays, lease, &mut self.random)?;
            self.strikes.push(strike);
            if self.settings.verbose {
                let at = self.began.elapsed().as_secs_f64();
                say(&format!("{at:.2} s: {}: {}", fault.as_str(), strike.counts));
            }
            if strike.counts.any() {
                counted += 1;
                self.outcome.rounds += 1;
                self.outcome.landed.entry(fault).or_default().book(&strike);
            } else {
                self.outcome.struck_nothing += 1;
            }
        }
        let wrote = writers.stop()?;
        self.outcome.rolled_back += wrote.rolled_back;
        self.outcome.broken += wrote.broken;
        self.drain()?;
        self.relays.stop_all()?;
        self.compare(say)
    }

    /// Heals the poison, requeues it, and waits until nothing is left in the store.
    fn drain(&mut self) -> io::Result<()> {
        fs::write(healed(&self.ground), "")?;
        let desk = self.ground.desk();
        let begun = Instant::now();
        loop {
            let stats = self.ground.block_on(async {
                let stats = desk.stats().await?;
                if stats.quarantined > 0 {
                    desk.requeue(&Which::All).await?;
                }
                Ok::<Stats, sendoff::Error>(stats)
            });
            self.relays.check_alive()?;
            match stats {
                Ok(left) if left.pending + left.held + left.quarantined == 0 => break,
                left if begun.elapsed() > Duration::from_secs(self.settings.patience) => {
                    let words: Vec<String> =
                        self.relays.live.iter().map(|r| r.last_words()).collect();
                    return Err(failed(
                        "draining",
                        format!("this is left: {left:?}; the relays said: {}", words.join(" || ")),
                    ));
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        match self.settings.hold {
            Hold::All => Ok(()),
            Hold::Key | Hold::None => fs::remove_file(healed(&self.ground)),
        }
    }

    fn compare(&mut self, say: &impl Fn(&str)) -> io::Result<()> {
        let explained = self.explain()?;
        let orders = self.ground.committed()?;
        let arrivals = self.ground.arrived()?;
        self.ledger.book(orders, &arrivals, &explained);
        self.tell_suspects(say)?;
        for (relay, log) in self.relays.logs() {
            self.outcome.fenced += log.fenced();
            self.outcome.fenced_early += log.fenced_early();
            // Whoever is stopped between a look at the clock and the publish cannot know: one each.
            let frozen = self
                .strikes
                .iter()
                .filter(|strike| strike.fault == Fault::FreezeRelay && strike.relay == Some(relay));
            self.outcome.published_late += log.late().saturating_sub(frozen.count() as u64);
        }
        let foreign = self.ground.foreign_verdicts()?;
        for words in
            foreign.iter().skip(usize::try_from(self.outcome.foreign_verdicts).unwrap_or(0))
        {
            say(&format!("a verdict on what another owns: {words}"));
        }
        self.outcome.foreign_verdicts = foreign.len() as u64;
        self.outcome.comparisons += 1;
        self.relays.forget();
        self.strikes.clear();
        Ok(())
    }

    /// Tells what became of the messages with which something went wrong, beside the strikes.
    fn tell_suspects(&mut self, say: &impl Fn(&str)) -> io::Result<()> {
        let suspects = self.ledger.take_suspects();
        if suspects.is_empty() {
            return Ok(());
        }
        let mut lines: Vec<(u64, String)> = self.strikes.iter().flat_map(told).collect();
        for relay in self.relays.live.iter().chain(&self.relays.dead) {
            say(&format!("relay {} said: {}", relay.number, relay.last_words()));
        }
        let names: HashMap<u128, String> = suspects.into_iter().collect();
        for (relay, mark) in self.relays.history(|id| names.contains_key(&id))? {
            let name = names.get(&mark.id).map(String::as_str).unwrap_or_default();
            let phase = mark.phase.as_str();
            lines.push((mark.at, format!("relay {relay}: row {}, {name}: {phase}", mark.seq)));
        }
        lines.sort();
        for (at, line) in lines {
            say(&format!("{:>16.3} ms  {line}", at as f64 / 1e6));
        }
        Ok(())
    }

    /// Which messages were in flight, in the process that was struck, while it was struck.
    fn explain(&mut self) -> io::Result<Explained> {
        let mut explained = Explained::default();
        for (relay, log) in self.relays.logs() {
            log.counts(u64::MAX)?;
            for span in log.spans() {
                let struck = self.strikes.iter().any(|strike| {
                    strike.relay.is_none_or(|struck| struck == relay)
                        && span.from <= strike.to
                        && span.to >= strike.from
                });
                if struck {
                    explained.by_fault.insert(span.id);
                } else if span.unknown {
                    explained.by_timeout.insert(span.id);
                } else if span.fenced {
                    explained.by_lapse.insert(span.id);
                }
            }
        }
        Ok(explained)
    }
}

/// A strike's beginning and end, for a history.
fn told(strike: &Strike) -> Vec<(u64, String)> {
    let name = strike.fault.as_str();
    let of = strike.relay.map(|relay| format!(" {relay}")).unwrap_or_default();
    let mut lines = vec![(strike.from, format!("{name}{of}"))];
    if strike.to != u64::MAX {
        lines.push((strike.to, format!("{name}{of} is over")));
    }
    lines
}

/// The file that ends the poison.
fn healed(ground: &Ground) -> String {
    ground.folder().join("healed").display().to_string()
}

#[cfg(test)]
mod tests {
    use super::{Settings, stretches};
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn rounds_are_shared_out_among_the_numbers_of_relays() {
        let line = Line::parse_from(["crash", "--rounds", "100", "--compare-every", "25"]);
        let shared = stretches(&line.settings);
        assert_eq!(shared, [(1, 25), (1, 9), (2, 25), (2, 8), (4, 25), (4, 8)]);
    }
}
