//! The command line of `rhumb top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::admin::Admin;

/// `rhumb top`
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TopArguments {
    /// The admin socket or address of a daemon; may be repeated [default: each daemon of this user
    /// that has a socket at the usual place, as they come and go, and the one that the
    /// configuration file names]
    #[arg(long, value_name = "PATH|ADDR", value_parser = Admin::parse)]
    pub admin: Vec<Admin>,

    /// How often daemons are asked, in seconds: 0.2 to 3600
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval, default_value = "2")]
    pub interval: Duration,

    /// What to show first
    #[arg(long, value_name = "SCREEN", value_enum, default_value_t)]
    pub screen: TopScreen,

    /// Print a plain table once an interval, as is done where there is no terminal, or a dumb one
    #[arg(long)]
    pub batch: bool,

    /// Print so many plain tables, and end; as with --batch
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// A screen of `rhumb top`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TopScreen {
    /// Each daemon in one row
    #[default]
    Overview,
    /// With whom they talk
    Sessions,
    /// Who sends to whom
    Flows,
    /// What was dropped, and why
    Drops,
    /// What ends when
    Certificates,
    /// All that they count
    Work,
    /// What is wrong, and what to do
    Warnings,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|it| INTERVALS_S.contains(it));
    let seconds = seconds.ok_or("give seconds, 0.2 to 3600")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// A daemon is not to be kept busy by whoever looks at it.
const INTERVALS_S: std::ops::RangeInclusive<f64> = 0.2..=3600.0;
const AFTER_HELP: &str = "Keys: ? shows them all; 1-7 or Tab another screen, / filter, s sort, r reverse, p hold, \
Enter details, q leave. NO_COLOR=1 leaves colours out. With --json each table is an object.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_within_bounds() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "0.1", "-1", "3601", "NaN", "inf", "x", ""] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }
}
