//! `rhumb capability inspect`: what a file says, without its secrets.

use std::path::Path;

use rhumb_capability::{Credential, file};
use rhumb_daemon::clock::{self, date_and_time, time_left};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::secret_file;
use rhumb_keyserver::principal::{PrincipalFile, parse_master_head, parse_principals};
use rhumb_keyserver::tsig::TsigKey;
use serde_json::json;

use super::Report;

/// Runs the command.
pub(super) fn run(path: &Path, form: Form) -> Outcome {
    let text = secret_file::read(path, "rhumb capability mint NUMBER")?;
    let bad = |fault: &dyn std::fmt::Display| {
        Failure::setup_text(format!("file {}: {fault}", path.display()))
    };
    let kind = text.split_whitespace().next().unwrap_or_default();
    let report = match kind {
        "rhumb-capability" => capability(&file::decode(&text).map_err(|error| bad(&error))?),
        "rhumb-principal" => principal(&PrincipalFile::parse(&text).map_err(|fault| bad(&fault))?),
        "rhumb-principals" => {
            let principals = parse_principals(&text).map_err(|fault| bad(&fault))?;
            let mut numbers: Vec<u32> = principals.keys().map(|principal| principal.0).collect();
            numbers.sort_unstable();
            let listed: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            Report {
                text: format!("book of {} principals: {}", numbers.len(), listed.join(" ")),
                object: json!({"kind": "principals", "principals": numbers}),
            }
        }
        "rhumb-master" => {
            let (waypoint, epoch) = parse_master_head(&text).map_err(|fault| bad(&fault))?;
            Report {
                text: format!("master of waypoint {waypoint}, epoch {}", epoch.0),
                object: json!({"kind": "master", "waypoint": waypoint, "epoch": epoch.0}),
            }
        }
        _ => match TsigKey::parse(&text) {
            Ok(key) => Report {
                text: format!("signer {}", key.name()),
                object: json!({"kind": "signer", "name": key.name().to_string()}),
            },
            Err(_) => {
                return Err(bad(
                    &"it is no capability, principal, book of principals, master or signer",
                ));
            }
        },
    };
    form.print(&report);
    Ok(())
}

fn capability(credential: &Credential) -> Report {
    let capability = credential.capability();
    let now_s = clock::now().unix_s();
    let until_s = credential.not_after_s();
    let mut text = format!(
        "capability of principal {} at waypoint {}\n  suite {}, scheme {}, window {}, epoch {}",
        capability.principal,
        capability.waypoint,
        capability.suite,
        capability.scheme,
        capability.window.0,
        capability.epoch.0
    );
    text += "\n  ";
    text += if capability.suite.covers_payload() { PAYLOAD_IS_COVERED } else { PAYLOAD_IS_OPEN };
    for (level, delegation) in capability.delegations.iter().enumerate() {
        text += &format!("\n  level {}: to {delegation}", level + 1);
    }
    if capability.delegations.is_empty() {
        text += "\n  not restricted";
    }
    text += &format!("\n  until {}, {}", date_and_time(until_s), time_left(now_s, until_s));
    let delegations: Vec<serde_json::Value> = capability
        .delegations
        .iter()
        .map(|level| json!({"prefix": level.prefix.to_string(), "id": level.id.as_u32()}))
        .collect();
    Report {
        text,
        object: json!({
            "kind": "capability",
            "principal": capability.principal.0,
            "waypoint": capability.waypoint,
            "suite": capability.suite.name(),
            "covers_payload": capability.suite.covers_payload(),
            "scheme": capability.scheme.name(),
            "window": capability.window.0,
            "epoch": capability.epoch.0,
            "delegations": delegations,
            "not_after_s": until_s,
            "is_over": now_s > until_s,
        }),
    }
}

fn principal(file: &PrincipalFile) -> Report {
    let mut text = format!("principal {} of {}", file.principal(), file.zone().text());
    let mut waypoints = Vec::new();
    for known in file.waypoints() {
        let window_s = 1u32 << known.clock.bits();
        text += &format!("\n  waypoint {}: windows of {window_s} s", known.address);
        waypoints.push(json!({
            "address": known.address,
            "window_s": window_s,
            "grace_ms": known.grace_ms,
            "skew_ms": known.skew_ms,
        }));
    }
    Report {
        text,
        object: json!({
            "kind": "principal",
            "principal": file.principal().0,
            "zone": file.zone().text(),
            "waypoints": waypoints,
        }),
    }
}

/// What a binding says of the payload: section 3 of `docs/platypus.md`.
const PAYLOAD_IS_COVERED: &str = "bindings cover header and payload";
const PAYLOAD_IS_OPEN: &str = "warning: bindings cover the header only, so whoever is on the way can replace the payload; \
     use it for what proves itself (TLS, SSH, WireGuard), and packet-polyval for the rest";
