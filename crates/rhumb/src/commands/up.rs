//! `rhumb up`: one node for the programs of a host: what the file offers and brings here, and a
//! proxy; other commands of the same user use it, too. It needs no file: then it is a proxy alone,
//! under a name that is made at the first start.

mod requests;

use std::fmt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::config::UpSettings;
use rhumb_daemon::daemon;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::names::{self, book};
use rhumb_daemon::node_status::answer_status;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::door::Door;
use rhumb_daemon::ports::{listen, offer, proxy, until_ended};
use rhumb_daemon::running::Counter;
use rhumb_node::Node;
use rhumb_wire::{Name, Role};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

/// Runs the command.
pub(crate) fn run(mut settings: UpSettings, with_parent: bool, form: Form) -> Outcome {
    let path = match &settings.node.key {
        Some(path) => path.clone(),
        None => key_of_this_host()?,
    };
    settings.node.key = Some(path.clone());
    let identity = key::load(&path, Role::Node)?;
    let ad_certs = offer::ad_certs(&settings.ad_certs, &settings.node, identity.name())?;
    for offered in &settings.serve {
        offer::check_own(offered, identity.name(), &ad_certs)?;
    }
    let belonging = Belonging::of(identity, Some(&path));
    let shown = belonging.clone();
    // Its signals and its parent are looked after beside it.
    let control = daemon::take_control(Some(&settings.admin), "up", false)?;
    let settings = &settings;
    joined_as(belonging, &settings.node, with_parent, Ok(()), |node| async move {
        let (router, admin) = (node.router().await, control.admin());
        let answering = answer_status(control, node.clone(), shown, |_| {})?;
        let refusals = offer::tell_refusals(node.refusals(), form);
        let mut parts = begin(&node, settings, form).await?;
        let mut helpers = JoinSet::new();
        helpers.spawn(answering);
        helpers.spawn(refusals);
        let _served = offer::serve_capsules(&node, ad_certs).await?;
        form.print(&Ready { own: node.name(), router, admin });
        loop {
            tokio::select! {
                ended = until_ended(&node) => return ended,
                Some(part) = parts.join_next() => part.map_err(Failure::operation)??,
            }
        }
    })
}

/// Begins what the file asks for. What is wrong with any of it is said before anything is used.
async fn begin(node: &Node, settings: &UpSettings, form: Form) -> Outcome<JoinSet<Outcome>> {
    let mut doors = Vec::new();
    for brought in &settings.forward {
        let door = Door::open(brought.local, brought.udp).await?;
        doors.push((door, (brought.service.name, brought.service.port)));
    }
    let proxy = match settings.proxy {
        Some(local) => Some(listen(local).await?),
        None => None,
    };
    let mut parts = JoinSet::new();
    for (door, service) in doors {
        parts.spawn(door.lead(node.clone(), service, form));
    }
    for offered in &settings.serve {
        parts.spawn(offer::offer(node, offered.clone(), None, form).await?.carry());
    }
    if settings.commands {
        parts.spawn(requests::answer(node.clone(), Counter::open()?, form));
    }
    if let Some(listening) = proxy {
        parts.spawn(proxy::lead(node.clone(), settings.node.clone(), listening, form));
    }
    Ok(parts)
}

/// The key of this user's node on this host, made at the first start beside the book of names.
fn key_of_this_host() -> Outcome<PathBuf> {
    let folder = book::folder().ok_or_else(|| {
        Failure::setup_text("no place for this node's key: give --key FILE, or set HOME")
    })?;
    let path = folder.join("node.key");
    if !path.exists() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| Failure::setup_text(format!("{}: {error}", folder.display())))?;
        let identity = key::make(Role::Node, None)?;
        key::save(&path, &identity, None)?;
        names::enter_key(None, identity.name(), &path);
    }
    Ok(path)
}

struct Ready {
    own: Name,
    router: Option<Name>,
    admin: Option<Admin>,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "node",
            "name": self.own.to_string(),
            "router": self.router.map(|name| name.to_string()),
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ready: this host is {}", self.own)?;
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb status --admin {admin})"),
            None => Ok(()),
        }
    }
}
