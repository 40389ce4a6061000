//! `rhumb doctor`: looks at what this host has, as files, networks and running daemons say, and
//! says what is wrong and what to do. It changes nothing, and takes no daemon and no root.
//!
//! 1. What lies here: the file of settings, keys with memberships, the book of names.
//! 2. What runs here: daemons that answer this user, and who has the ports.
//! 3. What is elsewhere, for each network and for the file: the host of a link's network, keeper,
//!    clock, router, the way there, RIB, and whether this name is let in. A look whose ground is
//!    missing says so.
//!
//! INVARIANT: no name is taken from a process that has it. A router or RIB has one session with a
//! name, and of two nodes with one key the later one counts: so links are tried under a key of the
//! moment, and this host's own name is used only where no node with it is known to run; and with
//! the keeper, who has no sessions.

mod admission;
mod daemons;
mod directory;
mod files;
mod findings;
mod keeper;
mod link;
mod ports;
mod router;
mod subjects;

use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use rhumb_daemon::cli::DoctorArguments;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;

use findings::Findings;

/// Runs the command. `file`: the file of settings, or why it cannot be read.
pub(crate) fn run(
    arguments: &DoctorArguments,
    file: Outcome<ConfigFile>,
    form: Form,
) -> Outcome<ExitCode> {
    let mut findings = Findings::new(form);
    let file = files::settings(file, &mut findings);
    let survey = file.survey();
    files::sections(&survey, &mut findings);
    files::book(&mut findings);
    let subjects = subjects::gather(arguments, &survey, &mut findings)?;
    let running = daemons::look(&file, &mut findings);
    let listens = subjects::listens(&subjects, survey.listens);
    ports::look(&listens, &running, &mut findings);
    let stranger = key::load_or_ephemeral(None)?;
    for subject in &subjects {
        let told = keeper::look(subject, &mut findings);
        let mut reached = Vec::new();
        for remote in &subject.routers {
            let router = router::look(subject, *remote, &stranger, &mut findings);
            reached.extend(router.then_some(*remote));
        }
        let is_running = running.has(subject);
        let heard = directory::look(subject, &stranger, is_running, &mut findings);
        keeper::compare_clocks(subject, told, heard.told, &mut findings);
        if subject.is_node() {
            admission::look(subject, &reached, (&heard, &running), &mut findings);
        }
    }
    Ok(findings.end())
}

/// What `work` gives, if it does so in time: what looks up hosts cannot be told to end.
fn within<T: Send + 'static>(work: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<T> {
    let (done, result) = channel();
    let late = || Failure::setup_text("nobody answers who knows hosts; is DNS reached from here?");
    std::thread::Builder::new()
        // Who asked may have gone on without it.
        .spawn(move || drop(done.send(work())))
        .map_err(Failure::operation)?;
    result.recv_timeout(LOOK_UP_WITHIN).unwrap_or_else(|_| Err(late()))
}

/// A resolver that does not answer is asked again once by most systems.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(6);
