//! `rhumb network run`: all that a host does for a network, in the foreground. At its keeper's host
//! RIB, router and keeper have to start; this host's own node is started beside them, and tried
//! again if it cannot. At a host that has joined as a router it is the router.

use std::fmt;
use std::sync::Arc;

use rhumb_daemon::cli::NetworkRunArguments;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::network::running::{Parts, Passed};
use rhumb_daemon::network::{
    Created, DEFAULT_PORT, Folder, Joined, Openness, Part as Kind, Rank, renewal,
};
use rhumb_daemon::output::Form;
use rhumb_daemon::supervisor;
use rhumb_trust::invitation::Host;
use rhumb_wire::{PublishedLabel, Role};
use serde::Serialize;
use serde_json::json;

pub(super) fn run(
    arguments: &NetworkRunArguments,
    passed: &Passed<'_>,
    with_parent: bool,
    form: Form,
) -> Outcome {
    if let Some(joined) = joined_as_router(arguments.network.as_ref())? {
        return carry(&joined, arguments, passed, (with_parent, form));
    }
    if arguments.address.is_some() || arguments.port.is_some() {
        return Err(Failure::setup_text(
            "--address and --port are for routers that have joined; a network's own are said when it is created",
        ));
    }
    let created = super::kept_here(arguments.network.as_ref())?;
    let is_member = Joined::find(&created.folder)?.is_some();
    let node = (is_member && !arguments.no_node).then(Vec::new);
    let parts = Parts::of_keeper(&created, passed, Openness::Invited, node)?;
    let ready = |has_node| Ready::of_all(&created, has_node);
    let for_ever = std::future::pending::<Outcome>();
    let say = |has_node| supervisor::say_ready(form, &ready(has_node));
    parts.run(with_parent, for_ever, say).map(drop)
}

/// Runs the router that this host has joined as, and sees to it that it stays a member.
fn carry(
    joined: &Joined,
    arguments: &NetworkRunArguments,
    passed: &Passed<'_>,
    (with_parent, form): (bool, Form),
) -> Outcome {
    let identity = key::load(&joined.key(), Role::Router)?;
    renewal::renew_before(&identity, joined)?;
    let port = arguments.port.unwrap_or(DEFAULT_PORT);
    let parts = Parts::of_router(joined, passed, arguments.address.as_ref(), port)?;
    let network = joined.folder.label().clone();
    let host = arguments.address.as_ref().map(Host::to_string);
    let ready = Carries { network, host, port };
    // What the router's sessions are is for the router to know: the keeper is asked by the clock.
    let membership = renewal::renew(identity, joined.clone(), Arc::default());
    let membership = async { Err::<(), _>(membership.await) };
    let say = |_| supervisor::say_ready(form, &ready);
    parts.run(with_parent, membership, say).map(drop)
}

/// The network that this host has joined as a router, if it is that which is meant.
fn joined_as_router(label: Option<&PublishedLabel>) -> Outcome<Option<Joined>> {
    let mut all = match label {
        Some(label) => Joined::find(&Folder::of(label)?)?.into_iter().collect(),
        None => Joined::all()?,
    };
    all.retain(|joined| joined.rank == Rank::Router);
    Ok(if all.len() == 1 { all.pop() } else { None })
}

/// The line that says that others can use the network.
pub(super) struct Ready {
    network: PublishedLabel,
    role: &'static str,
    host: String,
    ports: [u16; 3],
    has_node: bool,
}

impl Ready {
    pub(super) fn of_keeper(created: &Created) -> Self {
        Self { role: "keeper", ..Self::of_all(created, false) }
    }

    fn of_all(created: &Created, has_node: bool) -> Self {
        Self {
            network: created.folder.label().clone(),
            role: "network",
            host: created.host.to_string(),
            ports: [Kind::Router, Kind::Rib, Kind::Keeper].map(|part| created.port(part)),
            has_node,
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [router, rib, keeper] = self.ports;
        json!({
            "ready": true,
            "role": self.role,
            "network": self.network.as_str(),
            "host": self.host,
            "router_port": router,
            "rib_port": rib,
            "keeper_port": keeper,
            "node": self.has_node,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, host, .. } = self;
        let [router, rib, keeper] = self.ports;
        write!(
            f,
            "network {network} is there: router, RIB and keeper at {host}, UDP {router} and {rib}, TCP {router} and {keeper}"
        )?;
        if self.has_node {
            write!(f, "; this host is in it")?;
        }
        write!(f, "\nlet somebody join: rhumb network invite {network} --as LABEL")
    }
}

/// The line of a router that has joined.
struct Carries {
    network: PublishedLabel,
    host: Option<String>,
    port: u16,
}

impl Serialize for Carries {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "network",
            "network": self.network.as_str(),
            "host": self.host,
            "router_port": self.port,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Carries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this host carries for {}, by UDP and TCP {}", self.network, self.port)
    }
}
