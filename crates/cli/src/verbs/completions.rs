//! `sendoff completions`: a shell's completions on standard output.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::exit::{Ending, Exit};

/// Prints the completions of `shell`.
pub(crate) fn run(shell: Shell) -> Ending {
    // Into memory first: the generator panics where a write fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sendoff", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
