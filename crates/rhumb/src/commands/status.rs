//! `rhumb status`: asks a running RIB or router over its admin endpoint what it is doing.

use crate::admin::Admin;
use crate::config::ConfigFile;
use crate::failure::Outcome;
use crate::output::Form;
use crate::status;

/// Runs the command.
pub(crate) fn run(
    admin: Option<Admin>,
    with_flows: bool,
    file: &ConfigFile,
    form: Form,
) -> Outcome {
    status::ask(admin, with_flows, file, form)
}
