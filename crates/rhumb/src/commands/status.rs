//! `rhumb status`: asks a running RIB or router over its admin endpoint what it is doing.

use rhumb_daemon::admin::Admin;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::output::Form;
use rhumb_daemon::status;

/// Runs the command.
pub(crate) fn run(
    admin: Option<Admin>,
    with_flows: bool,
    file: &ConfigFile,
    form: Form,
) -> Outcome {
    status::ask(admin, with_flows, file, form)
}
