//! Plain tables, one an interval: for files, programs, and terminals that can do no more.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use ratatui::crossterm::terminal;
use rhumb_daemon::cli::TopArguments;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_top::Top;

use super::askers::{Askers, News};

/// Prints until so many tables are printed, or nobody reads them.
pub(super) fn run(mut top: Top, askers: &Askers, arguments: &TopArguments, form: Form) -> Outcome {
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let mut due = askers.now() + FIRST_LOOK + arguments.interval;
    while left > 0 {
        take_until(&mut top, askers, due);
        top.set_now(askers.now());
        let text = match form {
            Form::Json => top.object().to_string(),
            Form::Text => top.plain(columns()) + "\n",
        };
        let mut out = io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            // Whoever read it has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            printed => printed.map_err(Failure::operation)?,
        }
        left -= 1;
        due += arguments.interval;
        // A process that was stopped does not catch up.
        due = due.max(askers.now());
    }
    Ok(())
}

fn take_until(top: &mut Top, askers: &Askers, due: Duration) {
    loop {
        let left = due.saturating_sub(askers.now());
        match askers.next(left) {
            Some(News::Look(look)) => top.take(look),
            Some(News::Gone(place)) => top.forget(&place),
            Some(_) => {}
            None => return,
        }
        if left.is_zero() {
            return;
        }
    }
}

/// As wide as the terminal, or as `COLUMNS` says, or else as files may well be.
fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|it| it.parse().ok());
    // Without a terminal, another one would be asked, which need not be where this goes.
    let is_terminal = io::stdout().is_terminal();
    let of_terminal = || is_terminal.then(terminal::size)?.ok().map(|(columns, _)| columns);
    let columns = said.or_else(of_terminal).filter(|it| *it > 0);
    columns.map_or(COLUMNS, usize::from)
}

const COLUMNS: usize = 160;
/// By then each daemon has answered once, so that the first table has rates.
const FIRST_LOOK: Duration = Duration::from_millis(300);
