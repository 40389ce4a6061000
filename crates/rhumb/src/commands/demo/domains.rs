//! `rhumb demo --domains`: trust domains within trust domains, with nothing faked.
//!
//! 1. Start five domains on three levels, each with a RIB of its own, as processes.
//! 2. Carry out the [`STEPS`], one after the other, and say what came of each.
//!
//! A step is a function of `steps.rs` or `groups.rs` that tries something with the running network
//! and says what it saw, by the word of the processes.

mod groups;
mod nest;
mod steps;
mod story;

use std::path::Path;
use std::time::{Duration, Instant};

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;

use super::file::DemoFile;
use super::patience::Patience;
use nest::Nest;
use steps::Given;
use story::{Step, Story};

/// Runs the command.
pub(crate) fn run(given: Option<&Path>, with_parent: bool, quiet: bool, form: Form) -> Outcome {
    let begin = Instant::now();
    let patience = Patience::begin(DEADLINE, with_parent)?;
    let folder = tempfile::Builder::new()
        .prefix("rhumb-demo-")
        .tempdir()
        .map_err(|error| Failure::setup_text(format!("no temporary folder: {error}")))?;
    let file = DemoFile::choose(given, folder.path(), EXCERPT_BYTES)?;
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).map_err(Failure::operation)?;

    let mut nest = Nest::start(folder.path(), &inbox, &patience)?;
    let mut story = Story::begin(&nest, begin.elapsed());
    form.say(&story.introduction());
    let given = Given { file: &file, quiet };
    for (number, step) in STEPS.iter().enumerate() {
        let step = step(&mut nest, &given)?;
        form.say(&step.told(number + 1));
        story.add(step);
    }
    drop(nest);
    story.end(begin.elapsed());
    form.print(&story);
    story.verdict()
}

/// What is tried, in this order.
const STEPS: [fn(&mut Nest<'_>, &Given<'_>) -> Outcome<Step>; 7] = [
    steps::move_file,
    steps::trace,
    steps::what_the_world_knows,
    steps::uninvited,
    steps::not_exported,
    groups::one_message_to_many,
    steps::a_border_dies,
];
/// It takes a dozen seconds; sixteen processes on a machine that is busy with others take longer.
const DEADLINE: Duration = Duration::from_secs(50);
/// It passes six routers, which all run on this machine.
const EXCERPT_BYTES: u64 = 16 << 20;
