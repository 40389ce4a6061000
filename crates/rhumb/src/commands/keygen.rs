//! `rhumb keygen`: makes a key and writes it to a file that only its owner can read.

use std::fmt;
use std::path::{Path, PathBuf};

use rhumb_daemon::cli::KeygenArguments;
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key::passphrase;
use rhumb_daemon::names::{Book, Label, Origin};
use rhumb_daemon::output::Form;
use rhumb_trust::{Identity, LABEL, TrustError, save_key};
use rhumb_wire::{Metadata, Name, Role};
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
    let identity = make(role, arguments.label.as_deref())?;
    save_key(&path, &identity, passphrase.as_ref()).map_err(|error| explain(&path, error))?;
    let label = Label::of_key(arguments.label.as_deref(), &path)
        .filter(|label| enter(label, identity.name(), &path));
    form.print(&Report { name: identity.name(), role, path, sealed: passphrase.is_some(), label });
    Ok(())
}

/// Puts the name into the book. The key is made whatever comes of this.
fn enter(label: &Label, name: Name, path: &Path) -> bool {
    let entered = std::path::absolute(path).map_err(Failure::operation).and_then(|path| {
        if path.to_str().is_none() {
            return Err(Failure::setup_text("its path is no text"));
        }
        Book::change(|book| {
            if let Some(other) = book.entries().find(|it| it.label == *label && it.name != name) {
                eprintln!(
                    "rhumb: {label} stands for two names now, and so for none: the other is {other}"
                );
            }
            book.add(label.clone(), name, Origin::Key(path));
            Ok(())
        })
    });
    entered.inspect_err(|failure| eprintln!("rhumb: the key has no label here: {failure}")).is_ok()
}

fn make(role: Role, label: Option<&str>) -> Outcome<Identity> {
    let created_s = clock::now().unix_s();
    let Some(label) = label else {
        return Identity::generate(role, created_s).map_err(Failure::operation);
    };
    let mut refused = None;
    let identity = Identity::generate_with(|key| {
        let plain = Metadata::new(role, key, created_s);
        plain.clone().with_attribute(LABEL, label).unwrap_or_else(|error| {
            refused = Some(error);
            plain
        })
    })
    .map_err(Failure::operation)?;
    match refused {
        Some(error) => Err(Failure::setup_text(format!("the label cannot be used: {error}"))),
        None => Ok(identity),
    }
}

fn explain(path: &Path, error: TrustError) -> Failure {
    match error {
        TrustError::KeyFile { source, .. }
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            Failure::setup_text(format!(
                "key file {} exists and is never overwritten; give another with --out",
                path.display()
            ))
        }
        error => Failure::setup(error),
    }
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
