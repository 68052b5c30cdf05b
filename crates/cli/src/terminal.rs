//! One line at the bottom of a terminal that is drawn again and again, and logs that go above it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether the line is on the screen now. Everything that writes to the terminal asks first.
static DRAWN: Mutex<bool> = Mutex::new(false);

/// To the line's beginning, and erase it.
const ERASE: &[u8] = b"\r\x1b[2K";

fn drawn() -> MutexGuard<'static, bool> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether standard error is a terminal that a line can be drawn on.
pub(crate) fn is_there() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Draws the line, cut to the terminal's width so that it can be erased again.
pub(crate) fn draw(text: &str) {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    // Some terminals do not know how wide they are.
    let width = if columns < 20 { 79 } else { usize::from(columns) - 1 };
    let cut: String = text.chars().take(width).collect();
    let mut drawn = drawn();
    let mut line = ERASE.to_vec();
    line.extend_from_slice(cut.as_bytes());
    let mut to = io::stderr().lock();
    // A terminal that is gone ends the process by a signal, not by this.
    let _ = to.write_all(&line).and_then(|()| to.flush());
    *drawn = true;
}

/// Erases the line.
pub(crate) fn clear() {
    let mut drawn = drawn();
    if std::mem::take(&mut *drawn) {
        let _ = io::stderr().write_all(ERASE);
    }
}

/// Standard error for logs: erases the line first; the next drawing brings it back.
#[derive(Debug)]
pub(crate) struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut drawn = drawn();
        let mut to = io::stderr().lock();
        if std::mem::take(&mut *drawn) {
            to.write_all(ERASE)?;
        }
        to.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
