//! `rhumb name`: what names are called on this machine, and under the names of their owners.

mod published;

use std::fmt;

use rhumb_daemon::cli::{NameArguments, NameCommand};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::names::{Book, Label, Origin, book};
use rhumb_daemon::output::Form;
use rhumb_wire::Name;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(arguments: &NameArguments, form: Form) -> Outcome {
    match &arguments.command {
        None | Some(NameCommand::List) => list(form),
        Some(NameCommand::Add { label, name }) => add(label, *name, form),
        Some(NameCommand::Remove { label, name }) => remove(label, *name, form),
        Some(NameCommand::Publish { names, days, owner }) => {
            published::publish(names, *days, owner, form)
        }
        Some(NameCommand::Published { owner, rib, key }) => {
            published::show(*owner, rib, key.as_deref(), form)
        }
        Some(NameCommand::Withdraw { owner }) => published::withdraw(owner, form),
    }
}

fn list(form: Form) -> Outcome {
    let book = Book::read()?;
    let mut entries: Vec<&book::Entry> = book.entries().collect();
    entries.sort_by_key(|entry| (entry.label.as_str(), entry.name));
    entries.iter().for_each(|entry| form.print(&Line(entry)));
    if entries.is_empty() {
        form.say("no name has a label here; rhumb name add LABEL NAME, or rhumb keygen, gives one");
    }
    Ok(())
}

fn add(label: &Label, name: Name, form: Form) -> Outcome {
    Book::change(|book| {
        if let Some(other) = book.entries().find(|it| it.label == *label && it.name != name) {
            return Err(Failure::setup_text(format!(
                "{label} stands for another name: {other}; first: rhumb name remove {label}"
            )));
        }
        book.add(label.clone(), name, Origin::Added);
        Ok(())
    })?;
    form.print(&Line(&book::Entry { label: label.clone(), name, origin: Origin::Added }));
    Ok(())
}

fn remove(label: &Label, name: Option<Name>, form: Form) -> Outcome {
    let removed = Book::change(|book| match book.remove(label, name) {
        0 => Err(Failure::setup_text(format!("nothing is called {label} here: rhumb name"))),
        removed => Ok(removed),
    })?;
    form.print(&Removed { label: label.to_string(), removed });
    Ok(())
}

struct Line<'a>(&'a book::Entry);

impl Serialize for Line<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let key = match &self.0.origin {
            Origin::Added => None,
            Origin::Key(path) => Some(path),
        };
        serde_json::json!({
            "label": self.0.label.as_str(),
            "name": self.0.name.to_string(),
            "key": key,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let book::Entry { label, name, origin } = self.0;
        write!(f, "{label:12} {name}", label = label.as_str())?;
        match origin {
            Origin::Added => Ok(()),
            Origin::Key(path) => write!(f, "  key {}", path.display()),
        }
    }
}

#[derive(Serialize)]
struct Removed {
    label: String,
    removed: usize,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing is called {} here any more", self.label)
    }
}
