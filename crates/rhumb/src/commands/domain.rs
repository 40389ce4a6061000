//! `rhumb domain`: a trust domain's word for its members, and for the router at its border. The
//! domain's key stays where it is; the file that is made goes to the member, lies beside its key,
//! and is no secret, or goes to the router; what it says of a neighbour goes to its RIB, as does
//! what it takes back.

mod border;
mod carry;
mod create;
mod list;
mod remove;
mod renew;
mod routes;

use std::fmt;
use std::path::{Path, PathBuf};

use rhumb_daemon::cli::{AdmitArguments, DomainCommand};
use rhumb_daemon::clock::{self, date_and_time, time_left};
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_daemon::words;
use rhumb_trust::{Identity, Membership, MembershipError, Window};
use rhumb_wire::{Certificate, Limits, Rights, Statement};
use serde::Serialize;
use serde_json::json;

/// Runs the command.
pub(crate) fn run(command: &DomainCommand, file: &ConfigFile, form: Form) -> Outcome {
    match command {
        DomainCommand::Create(arguments) => create::run(arguments, form),
        DomainCommand::List(arguments) => list::run(arguments, form),
        DomainCommand::Admit(arguments) => admit(arguments, form),
        DomainCommand::Renew(arguments) => renew::run(arguments, form),
        DomainCommand::Remove(arguments) => remove::run(arguments, form),
        DomainCommand::Delegate(arguments) => border::delegate(arguments, form),
        DomainCommand::Carry(arguments) => carry::run(arguments, form),
        DomainCommand::Routes(arguments) => routes::run(arguments, file, form),
        DomainCommand::Inspect { file } => inspect(file, form),
    }
}

fn inspect(file: &Path, form: Form) -> Outcome {
    match Membership::load(file) {
        Ok(membership) => form.print(&Report { membership, written_to: None }),
        Err(MembershipError::Malformed { line: 1 }) if remove::is_one(file) => {
            return remove::inspect(file, form);
        }
        Err(MembershipError::Malformed { line: 1 }) if carry::is_one(file) => {
            return carry::inspect(file, form);
        }
        Err(MembershipError::Malformed { line: 1 }) => return border::inspect(file, form),
        Err(error) => return Err(unreadable(file, error)),
    }
    Ok(())
}

fn admit(arguments: &AdmitArguments, form: Form) -> Outcome {
    let issuer = load_issuer(&arguments.key, arguments.as_member.as_deref())?;
    let now = clock::now();
    let window = Window::starting(now.unix_s(), u64::from(arguments.days) * SECONDS_A_DAY);
    let given = arguments.rights.iter().map(|right| Rights::from(*right));
    let rights = given.reduce(Rights::and).unwrap_or(Rights::JOIN);
    let own = issuer.membership();
    let limits = arguments.limits(own.map_or(Limits::NONE, Membership::limits));
    let limits = limits.map_err(Failure::setup_text)?;
    let (by, sequence) = ((&issuer, own), now.unix_ms);
    let membership = Membership::sign_within(limits, by, arguments.name, rights, sequence, window)
        .map_err(|error| explain(&arguments.key, error))?;
    membership.save(&arguments.out).map_err(|error| explain(&arguments.out, error))?;
    form.print(&Report { membership, written_to: Some(arguments.out.clone()) });
    Ok(())
}

/// Who admits and removes, as what the membership beside its key says, or another one.
fn load_issuer(path: &Path, as_member: Option<&Path>) -> Outcome<Identity> {
    let issuer = key::load_any(path)?;
    let Some(file) = as_member else { return Ok(issuer) };
    let shown = Membership::load(file).and_then(|membership| issuer.with_membership(membership));
    shown.map_err(|error| Failure::setup_text(format!("{}: {error}", file.display())))
}

fn explain(path: &Path, error: MembershipError) -> Failure {
    let path = path.display();
    match error {
        MembershipError::File { source, .. }
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            Failure::setup_text(format!(
                "{path} exists and is not overwritten; give another with --out"
            ))
        }
        MembershipError::NoDomain => Failure::setup_text(format!(
            "{path} is no domain's key, and no membership lies beside it; make a domain: rhumb domain create"
        )),
        MembershipError::TooMuch { .. } => Failure::setup_text(format!(
            "{path} was not admitted with the right to admit and all that it is to give; \
             its own domain can: rhumb domain admit --rights admit,join,.."
        )),
        MembershipError::Wider { limit, .. } => Failure::setup_text(format!(
            "{path} was itself admitted to less than that ({limit}): leave it out to give as much as it has, which rhumb domain inspect shows"
        )),
        error => Failure::setup(error),
    }
}

fn unreadable(path: &Path, error: MembershipError) -> Failure {
    let path = path.display();
    Failure::setup_text(match error {
        MembershipError::File { source, .. } => {
            format!("cannot read {path}: {source}; a domain makes it: rhumb domain admit")
        }
        error => format!("{path}: {error}; get it from the domain once more"),
    })
}

struct Report {
    membership: Membership,
    /// Where it was written, if it was made now.
    written_to: Option<PathBuf>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (membership, now_s) = (&self.membership, clock::now().unix_s());
        let path: Vec<String> =
            membership.certificates().iter().map(|it| it.issuer.to_string()).collect();
        let mut facts = json!({
            "domain": membership.domain().to_string(),
            "member": membership.member().to_string(),
            "rights": membership.rights().names().collect::<Vec<_>>(),
            "limits": words::limits_as_json(&membership.limits()),
            "issuers": path,
            "not_after_s": membership.not_after_s(),
            "holds": membership.check(&membership.member(), now_s).is_ok(),
        });
        if let Some(file) = &self.written_to {
            facts["file"] = json!(file);
        }
        facts.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now_s = clock::now().unix_s();
        for certificate in self.membership.certificates() {
            let Statement::Member { member, rights, limits } = certificate.statement else {
                continue;
            };
            let rights: Vec<_> = rights.names().collect();
            writeln!(f, "{} says:\n  {member} belongs to me", certificate.issuer)?;
            writeln!(f, "  and may {}, {}", rights.join(", "), until(certificate, now_s))?;
            let limits = words::limits_in_words(&limits, |name| name.to_string());
            if !limits.is_empty() {
                let limits = limits.join(", ");
                writeln!(
                    f,
                    "  together with all whom it admits, at each router and RIB: {limits}"
                )?;
            }
        }
        match &self.written_to {
            Some(file) => {
                let file = file.display();
                write!(
                    f,
                    "written to {file}; the member puts it beside NAME.key as NAME.membership"
                )
            }
            None => write!(f, "signed by each; the domain is {}", self.membership.domain()),
        }
    }
}

/// How long a certificate holds.
fn until(certificate: &Certificate, now_s: u64) -> String {
    let left = match certificate.not_before_s > now_s {
        true => format!("from {} UTC", date_and_time(certificate.not_before_s)),
        false => time_left(now_s, certificate.not_after_s),
    };
    format!("until {} UTC ({left})", date_and_time(certificate.not_after_s))
}

const SECONDS_A_DAY: u64 = 86_400;
