//! Border files: a domain's word for the router at its border and for the domain around it. The
//! router that is given it publishes it for the domain.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rhumb_daemon::cli::BorderArguments;
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_trust::{Delegation, DelegationError, Export, Window};
use serde::Serialize;
use serde_json::json;

use super::{SECONDS_A_DAY, until};

pub(super) fn delegate(arguments: &BorderArguments, form: Form) -> Outcome {
    let domain = key::load_any(&arguments.key)?;
    let now = clock::now();
    let window = Window::starting(now.unix_s(), u64::from(arguments.days) * SECONDS_A_DAY);
    let up_to = arguments.up_to;
    let parent = arguments.parent.map(|domain| Export { domain, up_to });
    let router = (arguments.router, arguments.only);
    let delegation = Delegation::sign(&domain, router, parent, now.unix_ms, window)
        .map_err(|error| explain(&arguments.key, error))?;
    delegation.save(&arguments.out).map_err(|error| explain(&arguments.out, error))?;
    form.print(&Report { delegation, written_to: Some(arguments.out.clone()) });
    Ok(())
}

/// Shows what a file says that is no membership.
pub(super) fn inspect(file: &Path, form: Form) -> Outcome {
    let path = file.display();
    let delegation = Delegation::load(file).map_err(|error| {
        Failure::setup_text(match error {
            DelegationError::Malformed { line: 1 } => format!(
                "{path} is neither a membership nor a border file; a domain makes them: rhumb domain admit, rhumb domain delegate"
            ),
            error => format!("{path}: {error}; get it from the domain once more"),
        })
    })?;
    form.print(&Report { delegation, written_to: None });
    Ok(())
}

/// What to do about a word of a domain that could not be made or read.
pub(super) fn explain(path: &Path, error: DelegationError) -> Failure {
    let path = path.display();
    match error {
        DelegationError::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
            Failure::setup_text(format!(
                "{path} exists and is not overwritten; give another with --out"
            ))
        }
        DelegationError::NoDomain => Failure::setup_text(format!(
            "{path} is no domain's key; make a domain: rhumb domain create"
        )),
        error => Failure::setup(error),
    }
}

struct Report {
    delegation: Delegation,
    /// Where it was written, if it was made now.
    written_to: Option<PathBuf>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (delegation, now_s) = (&self.delegation, clock::now().unix_s());
        let parent = delegation.parent();
        let mut facts = json!({
            "domain": delegation.domain().to_string(),
            "router": delegation.router().to_string(),
            "parent": parent.map(|it| it.domain.to_string()),
            "up_to": parent.and_then(|it| it.up_to).map(|it| it.to_string()),
            "not_after_s": delegation.not_after_s(),
            "holds": delegation.check(delegation.router(), now_s).is_ok(),
        });
        if let Some(file) = &self.written_to {
            facts["file"] = json!(file);
        }
        facts.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (delegation, now_s) = (&self.delegation, clock::now().unix_s());
        let (domain, router) = (delegation.domain(), delegation.router());
        writeln!(f, "{domain} says:\n  router {router} stands at my border")?;
        match delegation.parent() {
            Some(Export { domain, up_to: None }) => {
                writeln!(f, "  {domain} is around me, and I may be known everywhere")?;
            }
            Some(Export { domain, up_to: Some(up_to) }) => {
                writeln!(f, "  {domain} is around me, and I may be known up to {up_to}")?;
            }
            None => writeln!(f, "  no domain is around me")?,
        }
        writeln!(f, "  {}", until(&delegation.certificates()[0], now_s))?;
        match &self.written_to {
            Some(file) => {
                write!(f, "written to {0}; start the router with --border {0}", file.display())
            }
            None => write!(f, "signed by it"),
        }
    }
}
