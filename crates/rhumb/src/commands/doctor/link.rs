//! The host of a network of this LAN: where it is now, as `rhumb up` finds it, whatever address it
//! had when it was met last. What is found is not written down: that is for `rhumb up`.

use std::sync::Arc;

use rhumb_daemon::failure::Failure;
use rhumb_daemon::network::Joined;
use rhumb_daemon::network::neighbours::look_for;
use rhumb_trust::Identity;

use super::findings::{Findings, Look};

/// Looks for it, and has what comes later go to where it is.
pub(super) fn look(joined: &mut Joined, identity: &Arc<Identity>, findings: &mut Findings) {
    let looked = Look::of("link", joined.folder.label());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.map_err(Failure::operation);
    let found = found.and_then(|runtime| runtime.block_on(look_for(identity, joined)));
    let before = &joined.host;
    match found {
        Ok(Some(host)) if host == *before => {
            findings.ok(&looked, format_args!("the network's host is at {host}, as it was"));
        }
        Ok(Some(host)) => {
            findings.ok(
                &looked,
                format_args!(
                    "the network's host is at {host} now, and no longer at {before}: `rhumb up` goes by that, and writes it down"
                ),
            );
            joined.host = host;
        }
        Ok(None) => findings.problem(
            &looked,
            format_args!(
                "the network's host is not at {before}, where it was last, and does not answer on the links of this host"
            ),
            &format!(
                "start `rhumb up` there; if it runs, something keeps broadcasts and multicasts to UDP 7462 from passing, or TCP {}: a Wi-Fi for guests, stations that are kept apart, a firewall",
                joined.keeper.1
            ),
        ),
        Err(failure) => findings.not_tried(&looked, failure),
    }
}
