//! `rhumb capability`: makes, restricts, shows and takes back Platypus capabilities.

use rhumb_daemon::cli::CapabilityCommand;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::output::Form;

mod delegate;
mod follow;
mod inspect;
mod mint;
mod revoke;

/// Runs the command.
pub(crate) fn run(
    command: &CapabilityCommand,
    file: &ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome {
    match command {
        CapabilityCommand::Master(arguments) => mint::master(arguments, form),
        CapabilityCommand::Signer(arguments) => mint::signer(arguments, form),
        CapabilityCommand::Mint(arguments) => mint::principal(arguments, file, form),
        CapabilityCommand::Delegate(arguments) => delegate::run(arguments, form),
        CapabilityCommand::Inspect { file } => inspect::run(file, form),
        CapabilityCommand::Revoke(arguments) => revoke::run(arguments, file, form),
        CapabilityCommand::Follow(arguments) => follow::run(arguments, file, with_parent, form),
    }
}

/// Reports are one line for people, and an object for programs.
struct Report {
    text: String,
    object: serde_json::Value,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl serde::Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}
