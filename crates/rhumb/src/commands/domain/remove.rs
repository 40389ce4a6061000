//! `rhumb domain remove`: a domain takes back what made a name its member. The RIBs that are named
//! keep that and tell routers; whoever was removed is a stranger everywhere within a second.
//!
//! All RIBs are told side by side, so that one that is away holds up nobody. What was signed is
//! written first, if that was asked for: it can be brought to a RIB again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhumb_daemon::cli::RemoveArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::inquiry::{Told, tell_removal};
use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use rhumb_trust::{Identity, Removal, RemovalError, Window};
use rhumb_wire::Role;
use serde::Serialize;
use serde_json::json;

use super::{SECONDS_A_DAY, load_issuer};

pub(super) fn run(arguments: &RemoveArguments, form: Form) -> Outcome {
    let (identity, removal) = match (&arguments.from, arguments.name) {
        (Some(file), _) => {
            let removal = Removal::load(file).map_err(|error| unreadable(file, &error))?;
            let carrier = Identity::generate(Role::Node, clock::now().unix_s());
            (carrier.map_err(Failure::operation)?, removal)
        }
        (None, Some(name)) => {
            let issuer = load_issuer(&arguments.key, arguments.as_member.as_deref())?;
            let now = clock::now();
            let window = Window::starting(now.unix_s(), u64::from(arguments.days) * SECONDS_A_DAY);
            let removal = Removal::sign(&issuer, issuer.membership(), name, now.unix_ms, window)
                .map_err(|error| explain(&arguments.key, error))?;
            (issuer, removal)
        }
        (None, None) => return Err(Failure::setup_text("give the NAME that is removed")),
    };
    if let Some(out) = &arguments.out {
        removal.save(out).map_err(|error| explain(out, error))?;
    }
    let told = tell_removal(&Arc::new(identity), &removal, &arguments.ribs);
    let missing = told.iter().filter(|told| told.why_not.is_some()).count();
    form.print(&Report { removal, told, written_to: arguments.out.clone() });
    match missing {
        0 => Ok(()),
        _ => Err(Failure::operation_text(format!(
            "{missing} of {} RIBs did not store it, and cannot tell their routers: remove it there again",
            arguments.ribs.len()
        ))),
    }
}

/// Shows what a removal says.
pub(super) fn inspect(file: &Path, form: Form) -> Outcome {
    let removal = Removal::load(file).map_err(|error| unreadable(file, &error))?;
    let now_s = clock::now().unix_s();
    removal.clone().verify(now_s).map_err(|error| unreadable(file, &error))?;
    form.print(&Report { removal, told: Vec::new(), written_to: None });
    Ok(())
}

/// Whether a file says that it is a removal.
pub(super) fn is_one(file: &Path) -> bool {
    !matches!(Removal::load(file), Err(RemovalError::Malformed { line: 1 }))
}

fn explain(path: &Path, error: RemovalError) -> Failure {
    let path = path.display();
    match error {
        RemovalError::File { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            Failure::setup_text(format!(
                "{path} exists and is not overwritten; give another with --out"
            ))
        }
        RemovalError::NoAuthority => Failure::setup_text(format!(
            "{path} is no domain's key, and no membership with the right to admit lies beside it: only who may admit can remove"
        )),
        RemovalError::NotBelow => Failure::setup_text(
            "a key removes whom it could admit: neither itself, nor who admitted it",
        ),
        error => Failure::setup(error),
    }
}

fn unreadable(path: &Path, error: &RemovalError) -> Failure {
    Failure::setup_text(format!("{}: {error}", path.display()))
}

struct Report {
    removal: Removal,
    told: Vec<Told>,
    written_to: Option<PathBuf>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = self.removal.certificate();
        let told = |told: &Told| {
            json!({
                "rib": told.rib.name,
                "address": told.rib.address,
                "stored": told.why_not.is_none(),
                "why_not": told.why_not,
            })
        };
        let mut facts = json!({
            "removed": self.removal.removed(),
            "issuer": self.removal.issuer(),
            "sequence": said.sequence,
            "not_after_s": said.not_after_s,
            "ribs": self.told.iter().map(told).collect::<Vec<_>>(),
        });
        if let Some(file) = &self.written_to {
            facts["file"] = json!(file);
        }
        facts.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (removal, said) = (&self.removal, self.removal.certificate());
        let [issuer, removed] = [removal.issuer(), removal.removed()].map(|it| it.to_string());
        writeln!(f, "{} says:", names::with_labels(&issuer))?;
        write!(
            f,
            "  {} is my member no longer, by whatever I, or whom I admitted, gave it until {} UTC",
            names::with_labels(&removed),
            date_and_time(said.sequence / 1000)
        )?;
        for told in &self.told {
            match &told.why_not {
                None => write!(f, "\n  stored by {}", told.rib)?,
                Some(why) => write!(f, "\n  not stored by {}: {why}", told.rib)?,
            }
        }
        match &self.written_to {
            Some(file) => write!(
                f,
                "\nwritten to {0}; to bring it to RIBs: rhumb domain remove --from {0} --rib NAME@ADDR",
                file.display()
            ),
            None => Ok(()),
        }
    }
}
