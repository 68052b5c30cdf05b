//! Stopping: the first SIGINT or SIGTERM asks for a graceful stop, a second one ends the process.

use std::time::{Duration, Instant};

use sendoff::{Error, ErrorKind, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A signal that follows the first this soon is its echo: `timeout` and some supervisors signal the
/// process and its group.
const ECHO: Duration = Duration::from_millis(200);

/// Whether a stop was asked for. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Begins to listen for signals.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub(crate) fn listen() -> Result<Self> {
        let handler = |kind| {
            signal(kind).map_err(|error| {
                Error::new(ErrorKind::Unexpected, "listening for signals").caused_by(error)
            })
        };
        let mut interrupt = handler(SignalKind::interrupt())?;
        let mut terminate = handler(SignalKind::terminate())?;
        let (ask, asked) = watch::channel(false);
        tokio::spawn(async move {
            let _ = next(&mut interrupt, &mut terminate).await;
            // Nobody listening any more means that the program is at its end.
            let _ = ask.send(true);
            tracing::info!("stopping; a second signal ends the program at once");
            let asked_at = Instant::now();
            let mut number = next(&mut interrupt, &mut terminate).await;
            while asked_at.elapsed() < ECHO {
                number = next(&mut interrupt, &mut terminate).await;
            }
            crate::terminal::clear();
            std::process::exit(128 + number);
        });
        Ok(Self(asked))
    }

    /// A stop that this program asks for itself, by sending `true`.
    pub(crate) fn by_hand() -> (watch::Sender<bool>, Self) {
        let (ask, asked) = watch::channel(false);
        (ask, Self(asked))
    }

    /// Waits until a stop is asked for.
    pub(crate) async fn asked(&self) {
        let mut asked = self.0.clone();
        // An error would mean that the listening task is gone, which ends with the process only.
        if asked.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a stop was asked for already.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }
}

/// Waits for the next signal and gives its number.
async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> i32 {
    tokio::select! {
        _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
    }
}
