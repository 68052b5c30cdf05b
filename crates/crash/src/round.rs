//! One round: wait until something is under way, strike, and let what was struck come back.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;

use crate::ground::{Ground, StoreKind, TargetKind};
use crate::marks::{Counts, Phase, now};
use crate::relays::Relays;

/// What a round does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// `kill -9` of one relay; a new one starts at once.
    KillRelay,
    /// The database crashes (an immediate stop, or `kill -9` of the postmaster) and recovers.
    CrashStore,
    /// `kill -9` of the broker, and a restart.
    CrashBroker,
    /// One relay is stopped (SIGSTOP) until its lease is over, and goes on.
    FreezeRelay,
    /// The broker is stopped (SIGSTOP) for longer than a publish may take, and goes on.
    SilenceBroker,
}

impl Fault {
    /// Whether a run of this kind can have it.
    #[must_use]
    pub fn is_possible(self, store: StoreKind, target: TargetKind) -> bool {
        match self {
            Self::KillRelay | Self::FreezeRelay => true,
            Self::CrashStore => store == StoreKind::Postgres,
            Self::CrashBroker | Self::SilenceBroker => target == TargetKind::Nats,
        }
    }

    /// Picks one of these, those that are cheap more often. There has to be one.
    pub fn pick(random: &mut fastrand::Rng, of: &[Self]) -> Self {
        loop {
            let fault = match random.u32(..20) {
                0..10 => Self::KillRelay,
                10..13 => Self::CrashStore,
                13..16 => Self::CrashBroker,
                16..19 => Self::FreezeRelay,
                _ => Self::SilenceBroker,
            };
            if of.contains(&fault) {
                return fault;
            }
        }
    }

    /// The fault's name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KillRelay => "kill -9 of a relay",
            Self::CrashStore => "crash of the database",
            Self::CrashBroker => "kill -9 of the broker",
            Self::FreezeRelay => "SIGSTOP of a relay past its lease",
            Self::SilenceBroker => "SIGSTOP of the broker",
        }
    }

    /// Whether it strikes one relay and not all of them.
    fn of_one_relay(self) -> bool {
        matches!(self, Self::KillRelay | Self::FreezeRelay)
    }
}

/// A fault that happened.
#[derive(Debug, Clone, Copy)]
pub struct Strike {
    /// What it was.
    pub fault: Fault,
    /// The relay, where it struck one.
    pub relay: Option<usize>,
    /// When it began, in nanoseconds since the machine started.
    pub from: u64,
    /// When its consequences were over.
    pub to: u64,
    /// What it landed in.
    pub counts: Counts,
}

/// How long a relay may have nothing under way before the run fails.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// How long a strike waits for the phase that it would like.
const WANTED_MAX: Duration = Duration::from_millis(400);

/// Waits for a window with something in it, and strikes. What it landed in may be nothing all the
/// same, since the relays do not wait; then the round does not count.
///
/// # Errors
/// Where nothing comes under way, or what was struck does not come back.
pub fn strike(
    fault: Fault,
    ground: &mut Ground,
    relays: &mut Relays,
    lease: Duration,
    random: &mut fastrand::Rng,
) -> io::Result<Strike> {
    std::thread::sleep(Duration::from_millis(random.u64(0..120)));
    let wanted = Phase::COUNTED[random.usize(..Phase::COUNTED.len())];
    let failing = fault == Fault::FreezeRelay && relays.live.len() > 1 && random.bool();
    let at = match failing.then(|| wait_for_failing(relays)).transpose()?.flatten() {
        Some(at) => at,
        None => wait_for(fault, wanted, relays, random)?,
    };
    match fault {
        Fault::KillRelay => kill_relay(relays, at),
        Fault::FreezeRelay => freeze_relay(relays, at, lease, random),
        Fault::CrashStore => {
            let hard = random.u32(..4) == 0;
            let down = Duration::from_millis(random.u64(0..150));
            // A relay whose lease lapsed meanwhile learns of it once it is connected again, and
            // until the lapse it publishes what it had read ahead.
            strike_all(fault, relays, lease, || ground.crash_store(hard, down))
        }
        Fault::CrashBroker => {
            let down = Duration::from_millis(random.u64(0..300));
            strike_all(fault, relays, lease, || ground.crash_broker(down))
        }
        Fault::SilenceBroker => {
            let silent = lease.mul_f64(0.7 + 0.6 * random.f64());
            strike_all(fault, relays, lease, || ground.silence_broker(silent))
        }
    }
}

/// Waits until something is under way, preferably in the phase `wanted`, and answers in which live
/// relay.
fn wait_for(
    fault: Fault,
    wanted: Phase,
    relays: &mut Relays,
    random: &mut fastrand::Rng,
) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        let at = random.usize(..relays.live.len());
        let counts = if fault.of_one_relay() {
            relays.live[at].log.counts(u64::MAX)?
        } else {
            relays.counts(u64::MAX)?
        };
        let waited = begun.elapsed();
        let good_enough = match wanted {
            _ if waited > 4 * WANTED_MAX => counts.any(),
            Phase::Read => counts.any(),
            _ => waited > WANTED_MAX && counts.any_sent(),
        };
        if counts.of(wanted) > 0 || good_enough {
            // Not always at the first moment: a relay that has just begun has one in flight.
            std::thread::sleep(Duration::from_micros(random.u64(0..8_000)));
            return Ok(at);
        }
        if waited > IDLE_MAX {
            relays.check_alive()?;
            let words: Vec<String> = relays.live.iter().map(|r| r.last_words()).collect();
            return Err(io::Error::other(format!(
                "no relay had anything under way for {IDLE_MAX:?}; they said: {}",
                words.join(" || ")
            )));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for a live relay that has a message which failed and whose verdict is not in the store:
/// stopped now, it will write that verdict when its lane is another's. There may be none for long.
fn wait_for_failing(relays: &mut Relays) -> io::Result<Option<usize>> {
    let begun = Instant::now();
    while begun.elapsed() < 4 * WANTED_MAX {
        for (at, relay) in relays.live.iter_mut().enumerate() {
            relay.log.counts(u64::MAX)?;
            if relay.log.failing() > 0 {
                return Ok(Some(at));
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(None)
}

fn kill_relay(relays: &mut Relays, at: usize) -> io::Result<Strike> {
    let mut relay = relays.live.swap_remove(at);
    let from = now();
    relay.kill()?;
    let strike = Strike {
        fault: Fault::KillRelay,
        relay: Some(relay.number),
        from,
        to: u64::MAX,
        counts: relay.log.counts(u64::MAX)?,
    };
    relays.dead.push(relay);
    relays.start()?;
    Ok(strike)
}

fn freeze_relay(
    relays: &mut Relays,
    at: usize,
    lease: Duration,
    random: &mut fastrand::Rng,
) -> io::Result<Strike> {
    let relay = &mut relays.live[at];
    let from = now();
    relay.signal(Signal::STOP)?;
    let counts = relay.log.counts(from)?;
    std::thread::sleep(lease.mul_f64(1.1 + 0.5 * random.f64()));
    relay.signal(Signal::CONT)?;
    Ok(Strike { fault: Fault::FreezeRelay, relay: Some(relay.number), from, to: now(), counts })
}

fn strike_all(
    fault: Fault,
    relays: &mut Relays,
    aftermath: Duration,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<Strike> {
    let from = now();
    work()?;
    let aftermath = u64::try_from(aftermath.as_nanos()).unwrap_or(u64::MAX);
    Ok(Strike {
        fault,
        relay: None,
        from,
        to: now().saturating_add(aftermath),
        counts: relays.counts(from)?,
    })
}
