//! `rhumb network create`: keys, rules and the first member of a network, in one folder.

use std::fmt;

use rhumb_daemon::cli::NetworkCreateArguments;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::network::{Created, Joined, Making, Part};
use rhumb_daemon::output::Form;
use serde::Serialize;
use serde_json::json;

pub(super) fn run(arguments: &NetworkCreateArguments, form: Form) -> Outcome {
    let making = Making {
        label: arguments.label.clone(),
        host: arguments.address.clone().into(),
        port: arguments.port,
        own: arguments.own.clone(),
        is_lan: false,
    };
    let (created, joined) = making.make()?;
    form.print(&Report { created, joined });
    Ok(())
}

struct Report {
    created: Created,
    joined: Joined,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { created, joined } = self;
        json!({
            "network": created.folder.label().as_str(),
            "domain": created.domain.to_string(),
            "folder": created.folder.path(),
            "host": created.host.to_string(),
            "router_port": created.port(Part::Router),
            "rib_port": created.port(Part::Rib),
            "keeper_port": created.port(Part::Keeper),
            "label": joined.label.as_str(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, joined } = self;
        let label = created.folder.label();
        let (folder, host) = (created.folder.path().display(), &created.host);
        writeln!(f, "network {label}: this host is its keeper, and its member {}", joined.label)?;
        writeln!(f, "keys and settings are in {folder}; keep a copy of that folder")?;
        let [router, rib, keeper] =
            [Part::Router, Part::Rib, Part::Keeper].map(|part| created.port(part));
        writeln!(
            f,
            "members reach {host} by UDP {router} and {rib}, and TCP {router} and {keeper}: let these in\n"
        )?;
        write!(
            f,
            "next:\n  rhumb network run {label}                 # here, for as long as there is a network\n  \
             rhumb network invite {label} --as alice   # prints a code; there: rhumb join CODE"
        )
    }
}
