//! `rhumb inspect`: what an AdCert says, in words. The
//! signature is checked; whether it holds now is said.

use std::fmt;
use std::path::Path;

use rhumb_daemon::ad_cert;
use rhumb_daemon::clock;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::output::Form;
use rhumb_trust::AdCert;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(path: &Path, form: Form) -> Outcome {
    form.print(&Report(ad_cert::load(path)?));
    Ok(())
}

struct Report(AdCert);

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ad_cert::facts(&self.0, clock::now().unix_s()).serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ad_cert::words(&self.0, clock::now().unix_s()))
    }
}
