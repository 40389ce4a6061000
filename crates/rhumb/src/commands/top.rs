//! `rhumb top`: a live view of the daemons of this user, in a terminal; or plain tables, where
//! there is none.
//!
//! Each daemon is asked by a thread of its own, so that one that hangs holds up no other. What they
//! say, keys and signals come to the first thread over one bounded queue; it alone draws.

mod askers;
mod batch;
mod keys;
mod live;
mod signals;
mod stage;

use std::io::IsTerminal;
use std::time::Instant;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::cli::{TopArguments, TopScreen};
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use rhumb_top::{Labels, Screen, Top};

use askers::Askers;

/// Runs the command until somebody leaves, or so many tables are printed.
pub(crate) fn run(arguments: &TopArguments, file: &ConfigFile, form: Form) -> Outcome {
    let began = Instant::now();
    let is_plain =
        arguments.batch || arguments.count.is_some() || form == Form::Json || !has_terminal();
    let labels = Labels::by(|name| name.parse().ok().and_then(names::label_of));
    let pace_ms = u64::try_from(arguments.interval.as_millis()).unwrap_or(u64::MAX);
    let mut top = Top::new(labels, pace_ms, has_colours());
    top.show(screen(arguments.screen));
    let whom = match &arguments.admin[..] {
        [] => askers::Whom::Found(file.any_admin()?.filter(|it| *it != Admin::Usual)),
        given => askers::Whom::Given(given.to_vec()),
    };
    let askers = Askers::start(whom, began, arguments.interval)?;
    if is_plain { batch::run(top, &askers, arguments, form) } else { live::run(top, &askers) }
}

/// Whether there is a terminal that can do more than print.
fn has_terminal() -> bool {
    let is_dumb = std::env::var("TERM").map_or(true, |it| it.is_empty() || it == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb
}

/// Colours, unless somebody does without: <https://no-color.org>.
fn has_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty())
}

fn screen(screen: TopScreen) -> Screen {
    match screen {
        TopScreen::Overview => Screen::Overview,
        TopScreen::Sessions => Screen::Sessions,
        TopScreen::Flows => Screen::Flows,
        TopScreen::Drops => Screen::Drops,
        TopScreen::Certificates => Screen::Certificates,
        TopScreen::Work => Screen::Work,
        TopScreen::Warnings => Screen::Warnings,
    }
}
