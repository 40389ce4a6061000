//! `rhumb certify`: the owner of a name lets a server answer for it. The key stays where it is; the
//! file that is made goes to the server, and is no secret.

use std::fmt;
use std::path::{Path, PathBuf};

use rhumb_daemon::ad_cert;
use rhumb_daemon::cli::CertifyArguments;
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_trust::{AdCert, AdCertError, Window};
use rhumb_wire::Role;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(arguments: &CertifyArguments, form: Form) -> Outcome {
    let owner = match key::role_of(&arguments.key) {
        // A group: whoever answers for its name is at the root of its tree.
        Some(Role::Domain) => key::load(&arguments.key, Role::Domain)?,
        _ => key::load(&arguments.key, Role::Capsule)?,
    };
    let now = clock::now();
    let window = Window::starting(now.unix_s(), u64::from(arguments.days) * SECONDS_A_DAY);
    let sign = match arguments.several {
        true => AdCert::sign_one_of_several,
        false => AdCert::sign,
    };
    let made = sign(&owner, arguments.server, now.unix_ms, window)
        .map_err(|error| explain(&arguments.out, error))?;
    made.save(&arguments.out).map_err(|error| explain(&arguments.out, error))?;
    form.print(&Report { made, path: arguments.out.clone() });
    Ok(())
}

fn explain(path: &Path, error: AdCertError) -> Failure {
    match error {
        AdCertError::File { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            Failure::setup_text(format!(
                "{} exists and is not overwritten; give another with --out",
                path.display()
            ))
        }
        AdCertError::NoServer => Failure::setup_text(
            "a name cannot be its own server; give the name of the node that is to answer with --server",
        ),
        error => Failure::setup(error),
    }
}

struct Report {
    made: AdCert,
    path: PathBuf,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut facts = ad_cert::facts(&self.made, clock::now().unix_s());
        facts["file"] = serde_json::json!(self.path);
        facts.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", ad_cert::words(&self.made, clock::now().unix_s()))?;
        let path = self.path.display();
        write!(f, "written to {path}; the server runs: rhumb receive --key ITS_KEY --serve {path}")
    }
}

const SECONDS_A_DAY: u64 = 86_400;
