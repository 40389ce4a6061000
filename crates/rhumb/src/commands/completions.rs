//! `rhumb completions`: the script by which a shell completes commands and options. It is the
//! same with `--json`: a script is what was asked for.

use std::io::{self, Write};

use rhumb_daemon::cli::manual::{self, Shell};
use rhumb_daemon::failure::{Failure, Outcome};

/// Runs the command.
pub(crate) fn run(shell: Shell) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(&manual::completions(shell)).and_then(|()| out.flush()) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        // A script that is cut off would be worse than none.
        written => written.map_err(Failure::operation),
    }
}
