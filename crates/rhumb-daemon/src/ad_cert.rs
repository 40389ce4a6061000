//! AdCerts from files, for a server to use and for people to read.

use std::path::Path;

use rhumb_trust::{AdCert, AdCertError, check_window};
use rhumb_wire::Name;
use serde_json::{Value, json};

use crate::clock::{date_and_time, time_left};
use crate::failure::{Failure, Outcome};

/// The AdCert in `path`, signed as it says.
pub fn load(path: &Path) -> Outcome<AdCert> {
    AdCert::load(path).map_err(|error| {
        let path = path.display();
        Failure::setup_text(match error {
            AdCertError::File { source, .. } => {
                format!("cannot read {path}: {source}; a name's owner makes it: rhumb certify")
            }
            AdCertError::Malformed { line: 1 } => {
                format!("{path} is no AdCert; a name's owner makes one: rhumb certify")
            }
            error => format!("{path}: {error}; get it from the name's owner once more"),
        })
    })
}

/// The AdCert in `path`, which must let `server` answer now.
pub fn load_for(path: &Path, server: Name, now_s: u64) -> Outcome<AdCert> {
    let ad_cert = load(path)?;
    ad_cert.check(server, now_s).map_err(|error| {
        let path = path.display();
        Failure::setup_text(match error {
            AdCertError::OtherServer { .. } => format!(
                "{path}: {error}; give that server's key with --key, or let the owner run: \
                 rhumb certify --server {server}"
            ),
            error => format!(
                "{path}: {error}; check this machine's clock, or let the owner run: rhumb certify --server {server}"
            ),
        })
    })?;
    Ok(ad_cert)
}

/// What it says, for programs.
pub fn facts(ad_cert: &AdCert, now_s: u64) -> Value {
    let certificate = ad_cert.certificate();
    json!({
        "adcert": ad_cert.owner().to_string(),
        "role": ad_cert.metadata().role.as_str(),
        "attributes": ad_cert.metadata().attributes(),
        "server": ad_cert.server().to_string(),
        "one_of_several": certificate.statement.is_one_of_several(),
        "sequence": certificate.sequence,
        "not_before_s": certificate.not_before_s,
        "not_after_s": certificate.not_after_s,
        "holds": check_window(certificate, now_s).is_ok(),
    })
}

/// What it says, for people.
pub fn words(ad_cert: &AdCert, now_s: u64) -> String {
    let certificate = ad_cert.certificate();
    let label = ad_cert.metadata().attributes().get(rhumb_trust::LABEL);
    let label = label.map_or(String::new(), |label| format!(" ({})", label.escape_debug()));
    let standing = match check_window(certificate, now_s) {
        Ok(()) => time_left(now_s, certificate.not_after_s),
        Err(error) => error.to_string(),
    };
    let (how, in_force) = match certificate.statement.is_one_of_several() {
        true => (", as one of several", "others that are one of several are in force beside it"),
        false => ("", "of several the newest is in force"),
    };
    format!(
        "{} {}{label} says:\n  server {} may answer for me{how}\n  from {} until {} UTC ({standing})\n\
         signed by it; {in_force}, this is number {}",
        ad_cert.metadata().role.as_str(),
        ad_cert.owner(),
        ad_cert.server(),
        date_and_time(certificate.not_before_s),
        date_and_time(certificate.not_after_s),
        certificate.sequence,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::{Identity, Window};
    use rhumb_wire::Role;

    #[test]
    fn an_adcert_reads_well() {
        let owner = Identity::generate(Role::Capsule, 1).unwrap();
        let server = Name([7; 32]);
        let window = Window { not_before_s: 86_400, not_after_s: 3 * 86_400 };
        let ad_cert = AdCert::sign(&owner, server, 9, window).unwrap();
        let text = words(&ad_cert, 2 * 86_400);
        assert!(text.starts_with(&format!("capsule {} says:\n  server {server} ", owner.name())));
        assert!(
            text.contains("from 1970-01-02 00:00:00 until 1970-01-04 00:00:00 UTC (24 h left)")
        );
        assert!(words(&ad_cert, 4 * 86_400).contains("(expired 86400 s ago)"));
        assert_eq!(facts(&ad_cert, 86_400)["holds"], true);
        assert_eq!(facts(&ad_cert, 0)["holds"], false);
    }
}
