//! `rhumb domain create`: a domain with all that is needed for its daily work: its own key, which
//! may go off line at once, and a working key that it admitted to admit others.
//!
//! Nothing is written when one of the files exists: half a domain would be in the way of the next
//! attempt.

use std::fmt;
use std::path::PathBuf;

use rhumb_daemon::cli::CreateArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key::{self, passphrase};
use rhumb_daemon::names::{self, Label};
use rhumb_daemon::output::Form;
use rhumb_trust::{Membership, Window};
use rhumb_wire::{Name, Rights, Role};
use serde::Serialize;
use serde_json::json;

use super::SECONDS_A_DAY;

pub(super) fn run(arguments: &CreateArguments, form: Form) -> Outcome {
    let CreateArguments { out, working, label, days, .. } = arguments;
    let membership_file = working.with_extension("membership");
    // A domain is in nobody's membership: one that lies where its key comes would be taken for it.
    let stray = out.with_extension("membership");
    for (path, option) in
        [(out, "--out"), (working, "--working"), (&membership_file, "--working"), (&stray, "--out")]
    {
        if path.exists() {
            let path = path.display();
            return Err(Failure::setup_text(format!(
                "{path} exists and is not overwritten; give another with {option}"
            )));
        }
    }
    if stray == membership_file {
        return Err(Failure::setup_text(format!(
            "{} would be both the domain's key and the working key; give another with --working",
            out.display()
        )));
    }
    let passphrase = match &arguments.passphrase_file {
        Some(file) => passphrase(Some(file))?,
        None => None,
    };
    let domain = key::make(Role::Domain, label.as_deref())?;
    let worker = key::make(Role::Node, None)?;
    let now = clock::now();
    let window = Window::starting(now.unix_s(), u64::from(*days) * SECONDS_A_DAY);
    let membership =
        Membership::sign(&domain, None, worker.name(), all_rights(), now.unix_ms, window)
            .map_err(Failure::operation)?;
    key::save(out, &domain, passphrase.as_ref())?;
    key::save(working, &worker, None)?;
    membership.save(&membership_file).map_err(Failure::setup)?;
    form.print(&Report {
        domain: domain.name(),
        label: names::enter_key(label.as_deref(), domain.name(), out),
        key: out.clone(),
        is_sealed: passphrase.is_some(),
        worker: worker.name(),
        working_label: names::enter_key(None, worker.name(), working),
        working: working.clone(),
        membership_file,
        not_after_s: membership.not_after_s(),
    });
    Ok(())
}

/// A working key admits members of all kinds, so it has to have all that they may.
fn all_rights() -> Rights {
    Rights::ALL.into_iter().fold(Rights::ADMIT, |all, (_, right)| all.and(right))
}

struct Report {
    domain: Name,
    /// What it is called on this machine.
    label: Option<Label>,
    key: PathBuf,
    is_sealed: bool,
    worker: Name,
    working_label: Option<Label>,
    working: PathBuf,
    membership_file: PathBuf,
    not_after_s: u64,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "domain": self.domain.to_string(),
            "label": self.label.as_ref().map(Label::as_str),
            "file": self.key,
            "sealed": self.is_sealed,
            "working": self.worker.to_string(),
            "working_label": self.working_label.as_ref().map(Label::as_str),
            "working_file": self.working,
            "membership_file": self.membership_file,
            "rights": all_rights().names().collect::<Vec<_>>(),
            "not_after_s": self.not_after_s,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, worker, .. } = self;
        let (key, working) = (self.key.display(), self.working.display());
        let sealed = if self.is_sealed { " (sealed)" } else { "" };
        let called = self.label.as_ref().map(|label| format!("; called {label} on this machine"));
        writeln!(f, "domain {domain}")?;
        writeln!(f, "key written to {key}{sealed}{}", called.unwrap_or_default())?;
        writeln!(f, "working key {worker}")?;
        let until = date_and_time(self.not_after_s);
        writeln!(f, "written to {working}; it admits members until {until} UTC\n")?;
        let called = self.label.as_ref().map_or_else(|| domain.to_string(), Label::to_string);
        write!(
            f,
            "next: admit routers, RIBs and nodes with the working key, each with a file beside its own key:\n  \
             rhumb domain admit NAME --key {working} --rights carry,publish --out router.membership\n  \
             rhumb domain admit NAME --key {working} --rights publish --out rib.membership\n  \
             rhumb domain admit NAME --key {working} --rights join --out node.membership\n\
             start routers and RIBs with: --admit-domain {called} --strangers refused\n\
             put {key} away: it is needed for borders (rhumb domain delegate), and for another working key"
        )
    }
}
