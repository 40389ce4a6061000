//! `rhumb keygen`: makes a key and writes it to a file that only its owner can read.

use std::fmt;
use std::path::PathBuf;

use rhumb_daemon::cli::KeygenArguments;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::key::{self, passphrase};
use rhumb_daemon::names::{self, Label};
use rhumb_daemon::output::Form;
use rhumb_wire::{Name, Role};
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(arguments: &KeygenArguments, form: Form) -> Outcome {
    let role = Role::from(arguments.role);
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{}.key", role.as_str())),
    };
    let passphrase = match &arguments.passphrase_file {
        Some(file) => passphrase(Some(file))?,
        None => None,
    };
    let label = arguments.label.as_deref();
    let identity = key::make(role, label)?;
    key::save(&path, &identity, passphrase.as_ref())?;
    let label = names::enter_key(label, identity.name(), &path);
    form.print(&Report { name: identity.name(), role, path, sealed: passphrase.is_some(), label });
    Ok(())
}

struct Report {
    name: Name,
    role: Role,
    path: PathBuf,
    sealed: bool,
    /// What it is called on this machine.
    label: Option<Label>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "name": self.name.to_string(),
            "role": self.role.as_str(),
            "file": self.path,
            "sealed": self.sealed,
            "label": self.label.as_ref().map(Label::as_str),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sealed = if self.sealed { " (sealed)" } else { "" };
        let path = self.path.display();
        write!(f, "{} {}\nkey written to {path}{sealed}", self.role.as_str(), self.name)?;
        match &self.label {
            Some(label) => write!(f, "; called {label} on this machine"),
            None => Ok(()),
        }
    }
}
