//! `rhumb waypoint accounts`: who sent how much, from the files that a waypoint writes. It works
//! whether the waypoint runs or not.

use std::fmt;
use std::path::PathBuf;

use rhumb_daemon::cli::AccountsArguments;
use rhumb_daemon::clock::date_and_time;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::{Form, bytes_text};
use rhumb_daemon::waypoint::books::{periods, read_period};
use rhumb_waypoint::ledger::{Book, Line};
use serde::Serialize;

/// Runs the command.
pub(super) fn run(arguments: &AccountsArguments, file: &ConfigFile, form: Form) -> Outcome {
    let folder: PathBuf =
        arguments.accounts.clone().or_else(|| file.accounts()).ok_or_else(|| {
            Failure::setup_text(
                "no folder of accounts; give --accounts DIR, the one the waypoint was started with",
            )
        })?;
    let there = periods(&folder).map_err(|error| {
        Failure::setup_text(format!("folder of accounts {}: {error}", folder.display()))
    })?;
    let last = there.last().ok_or_else(|| {
        Failure::setup_text(format!("there are no accounts in {}", folder.display()))
    })?;
    match arguments.period.as_deref() {
        Some("all") => form.print(&Periods { periods: there }),
        period => {
            let period = period.unwrap_or(last);
            let book = read_period(&folder, period)?.ok_or_else(|| {
                Failure::setup_text(format!(
                    "there are no accounts of {period}; there are {} to {last}",
                    there.first().unwrap_or(last)
                ))
            })?;
            form.print(&Bill(book));
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Periods {
    periods: Vec<String>,
}

impl fmt::Display for Periods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.periods.join("\n"))
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Bill(Book);

impl fmt::Display for Bill {
    /// A table; below each principal, who sent under its
    /// delegations, which is part of what the principal sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(book) = self;
        write!(f, "accounts of {} (UTC), as of {}", book.period, date_and_time(book.written_s))?;
        let head = ["principal", "packets", "bytes", "dropped", "first", "last"];
        let [who, packets, bytes, dropped, first, last] = head;
        write!(f, "\n{who:<20} {packets:>14} {bytes:>12} {dropped:>9}  {first:<19}  {last:<19}")?;
        for Line { principal, delegations, sum } in &book.accounts {
            let ids: Vec<String> = delegations.iter().map(u32::to_string).collect();
            let who = match ids.is_empty() {
                true => principal.to_string(),
                false => format!("  by {}", ids.join(" > ")),
            };
            let [packets, dropped] = [sum.packets, sum.dropped_packets];
            let bytes = bytes_text(sum.bytes);
            let [first, last] = [sum.first_s, sum.last_s].map(|at| match at {
                0 => "-".to_owned(),
                at => date_and_time(at),
            });
            write!(
                f,
                "\n{who:<20} {packets:>14} {bytes:>12} {dropped:>9}  {first:<19}  {last:<19}"
            )?;
        }
        if book.unlisted.packets > 0 {
            let (packets, bytes) = (book.unlisted.packets, bytes_text(book.unlisted.bytes));
            write!(f, "\n{:<20} {packets:>14} {bytes:>12}", "no place")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_waypoint::ledger::Sum;

    #[test]
    fn the_table_shows_delegates_below_their_principal() {
        let sum =
            Sum { packets: 5, bytes: 5_000, dropped_packets: 1, first_s: 1_795_280_400, last_s: 0 };
        let line = |delegations| Line { principal: 7, delegations, sum };
        let accounts = vec![line(vec![]), line(vec![17, 3])];
        let book =
            Book { period: "2026-11-21".into(), written_s: 1_795_280_400, accounts, unlisted: sum };
        let text = Bill(book).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "accounts of 2026-11-21 (UTC), as of 2026-11-21 17:00:00");
        assert!(
            lines[2].starts_with("7  ")
                && lines[2].contains("5.0 kB         1  2026-11-21 17:00:00  -")
        );
        assert!(lines[3].starts_with("  by 17 > 3 "), "{text}");
        assert!(lines[4].starts_with("no place"));
    }
}
