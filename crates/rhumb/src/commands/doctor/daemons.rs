//! What runs on this host and answers this user: each daemon's own status says what it lacks.

use std::io::ErrorKind;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::daemon::VERSION;
use rhumb_daemon::status;
use rhumb_daemon::warnings::{self, Warning};
use serde_json::Value;

use super::findings::{Findings, Look};
use super::subjects::Subject;

/// The daemons that answered.
pub(super) struct Running(Vec<Value>);

impl Running {
    /// The node that runs with this subject's key.
    pub(super) fn node_of(&self, subject: &Subject) -> Option<&Value> {
        let name = subject.identity.as_ref()?.name().to_string();
        self.0.iter().find(|status| status["role"] == "node" && status["name"] == *name)
    }

    /// Whether one runs with this subject's key.
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.node_of(subject).is_some()
    }

    /// Who of them is at this port.
    pub(super) fn at(&self, port: u16) -> Option<&str> {
        let is_there = |status: &&Value| {
            let address = status["address"].as_str().unwrap_or_default();
            address.rsplit_once(':').is_some_and(|(_, its)| its == port.to_string())
        };
        self.0.iter().find(is_there).and_then(|status| status["role"].as_str())
    }
}

/// Asks each daemon how it is.
pub(super) fn look(file: &ConfigFile, findings: &mut Findings) -> Running {
    let mut admins = Admin::all();
    if let Ok(Some(named)) = file.any_admin()
        && named != Admin::Usual
        && !admins.contains(&named)
    {
        admins.push(named);
    }
    if admins.is_empty() {
        findings.ok(&Look::at("daemons"), "none answers this user; none is needed for this");
    }
    let mut running = Vec::new();
    for admin in admins {
        match status::fetch(&admin) {
            Ok(status) => {
                tell(&status, findings);
                running.push(status);
            }
            Err(error) if NOBODY.contains(&error.kind()) => {
                findings.not_tried(&Look::of("daemon", &admin), "the file names it, and none runs");
            }
            Err(error) => findings.warn(
                &Look::of("daemon", &admin),
                status::not_answered(&admin, &error),
                "one that hangs is started again; one of another user answers that user and root",
            ),
        }
    }
    Running(running)
}

fn tell(status: &Value, findings: &mut Findings) {
    let text = |key: &str| status[key].as_str().unwrap_or("?");
    let daemon = Look::of("daemon", text("role"));
    let up_s = status["uptime_s"].as_u64().unwrap_or(0);
    let version = status["version"].as_str();
    let found = format!("{} at {}, up for {up_s} s", text("name"), text("address"));
    match version {
        Some(version) if version == VERSION => findings.ok(&daemon, found),
        other => findings.warn(
            &daemon,
            format_args!(
                "{found}, is of version {}, and this is {VERSION}",
                other.unwrap_or("unknown, an earlier one")
            ),
            "start it again, so that it runs what is installed",
        ),
    }
    for Warning { found, advice } in warnings::of(status) {
        findings.warn(&daemon, found, advice);
    }
}

/// Where nobody listens.
const NOBODY: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_daemon_is_found_by_its_port() {
        let running = Running(vec![json!({"role": "rib", "address": "[::]:7461"})]);
        assert_eq!((running.at(7461), running.at(461)), (Some("rib"), None));
    }
}
