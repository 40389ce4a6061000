//! What runs on this host and answers this user: each daemon's own status says what it lacks.

use std::io::ErrorKind;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::daemon::VERSION;
use rhumb_daemon::status;
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
    for (found, advice) in warnings(status) {
        findings.warn(&daemon, found, advice);
    }
    not_published(&daemon, status, findings);
}

/// What a status warns of.
fn warnings(status: &Value) -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    if let Some(warning) = status["membership"]["warning"].as_str() {
        let advice = "a node of a network asks its keeper by itself; of another domain, ask whoever admits there";
        all.push((format!("its membership: {warning}"), advice));
    }
    if let Some(clock) = status["clock"].as_str() {
        all.push((clock.to_owned(), "set this machine's clock, by a time service if there is one"));
    }
    for rib in status["ribs"].as_array().into_iter().flatten() {
        let at = rib["address"].as_str().unwrap_or("?");
        if rib["connected"] == false {
            let advice = "does it run, is its UDP port let in, is it the name it was given by?";
            all.push((format!("it has no session with its RIB at {at}"), advice));
        }
        if let Some(since_s) = rib["no_answer_since_s"].as_u64() {
            let advice = "is the RIB's machine alive, and its disk?";
            all.push((format!("its RIB at {at} answers nothing since {since_s} s"), advice));
        }
        if let Some(suspected) = rib["suspected_of"].as_str() {
            let advice = "ask whoever runs it, and take it out of `rib` if nobody can say why";
            all.push((format!("its RIB at {at} is suspected: {suspected}"), advice));
        }
    }
    all
}

fn not_published(daemon: &Look, status: &Value, findings: &mut Findings) {
    if status["role"] == "node" && status["joined"] == false {
        let advice = "it tries again by itself; its router is looked at below";
        findings.warn(daemon, "it is not joined to a router now", advice);
    } else if status["role"] == "node" && status["published"] == false {
        let advice = "its router's RIB does not answer: only names at the same router reach it";
        findings.warn(daemon, "its name is not published", advice);
    }
    let refused = status["refused_publications"].as_array().map_or(0, Vec::len);
    if refused > 0 {
        let found = format!("its RIB refused to publish {refused} names lately");
        findings.warn(
            daemon,
            found,
            "rhumb status has them with the reasons: refused publications",
        );
    }
}

/// Where nobody listens.
const NOBODY: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_status_warns_of_is_told_with_what_to_do() {
        let well = json!({"role": "router", "ribs": [{"address": "a", "connected": true}]});
        assert!(warnings(&well).is_empty());
        let ill = json!({
            "membership": {"warning": "it is over: ask the domain for another"},
            "clock": "this machine's clock is behind",
            "ribs": [
                {"address": "b", "connected": false},
                {"address": "c", "connected": true, "no_answer_since_s": 9},
                {"address": "d", "connected": true, "suspected_of": "forgery"},
            ],
        });
        let told: Vec<String> = warnings(&ill).into_iter().map(|(found, _)| found).collect();
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(told[2].ends_with("RIB at b") && told[3].ends_with("since 9 s"), "{told:?}");
    }

    #[test]
    fn a_daemon_is_found_by_its_port() {
        let running = Running(vec![json!({"role": "rib", "address": "[::]:7461"})]);
        assert_eq!((running.at(7461), running.at(461)), (Some("rib"), None));
    }
}
