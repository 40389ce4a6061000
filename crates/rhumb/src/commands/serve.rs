//! `rhumb serve`: a program that listens on TCP, offered as a port of this node's name, or of one
//! that it serves. What goes to it is encrypted from the other end to here.
//!
//! Nobody may use it who was not named; who is connected, and who was turned away, is told.

use std::collections::HashSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::ad_cert;
use rhumb_daemon::admin::Admin;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::ServeArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::daemon::{self, Control, Metric, Snapshot};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::output::{Form, bytes_text};
use rhumb_daemon::ports::datagrams::Offered;
use rhumb_daemon::ports::{Carried, Seldom, carry, reason, until_ended};
use rhumb_node::{Admits, BUSY, Node, PORT_CLOSED, Refusal, SERVICE_FAILED, Stream, Wanted};
use rhumb_trust::AdCert;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Runs the command.
pub(crate) fn run(
    arguments: &ServeArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let admits = admits(arguments)?;
    let identity = key::load_or_ephemeral(settings.key.as_deref())?;
    let ad_certs = ad_certs(arguments, settings, identity.name())?;
    let port = arguments.service.port;
    let to = arguments.to.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    if let Some(name) = arguments.service.name
        && name != identity.name()
        && ad_certs.iter().all(|it| it.owner() != name)
    {
        return Err(Failure::setup_text(format!(
            "{name} is not this node's name; give its key with --key, or an AdCert of it with --ad-cert"
        )));
    }
    let belonging = Belonging::of(identity, settings.key.as_deref());
    let shown = belonging.clone();
    // Its signals and its parent are looked after beside it.
    let control = arguments.admin.as_ref();
    let control =
        control.map(|admin| daemon::take_control(Some(admin), "serve", false)).transpose()?;
    joined_as(belonging, settings, with_parent, Ok(()), |node| async move {
        let mut helpers = JoinSet::new();
        let admin = control.as_ref().and_then(Control::admin);
        if let Some(control) = control {
            let woken = Arc::new(Notify::new());
            daemon::notify_by(control.wake().clone(), Arc::clone(&woken))?;
            helpers.spawn(answer_status(control, woken, node.clone(), shown));
        }
        let mut served = Vec::new();
        for ad_cert in ad_certs {
            served.push(node.serve(ad_cert).await.map_err(Failure::setup)?);
        }
        helpers.spawn(tell_refusals(node.refusals(), form));
        let (only, udp) = (arguments.service.name, arguments.udp);
        let name = only.unwrap_or(node.name());
        let ready = Ready { name, port, udp, to, router: node.router().await, admin };
        if udp {
            let offered =
                Offered { port: node.bind(port, admits).map_err(Failure::setup)?, only, to };
            form.print(&ready);
            offered.carry(|peer| form.print(&News::Connected { peer })).await;
            return until_ended(&node).await;
        }
        let mut listener = node.listen(port, admits).map_err(Failure::setup)?;
        form.print(&ready);
        let program = Arc::new(Program { only, to, form });
        let mut connections = JoinSet::new();
        while let Some(stream) = listener.accept().await {
            // Those that are done.
            while connections.try_join_next().is_some() {}
            if connections.len() >= MAX_AT_ONCE {
                stream.reset(BUSY);
                continue;
            }
            connections.spawn(Arc::clone(&program).serve(stream));
        }
        until_ended(&node).await
    })
}

/// Who may use it: somebody has to be named.
fn admits(arguments: &ServeArguments) -> Outcome<Admits> {
    let names: HashSet<Name> = arguments.allow.iter().copied().collect();
    match (arguments.allow_all, names.is_empty()) {
        (true, _) => Ok(Admits::Everybody),
        (false, false) => Ok(Admits::Names(names)),
        (false, true) => Err(Failure::setup_text(
            "nobody could use it: give the names that may with --allow NAME, or --allow-all",
        )),
    }
}

fn ad_certs(
    arguments: &ServeArguments,
    settings: &NodeSettings,
    server: Name,
) -> Outcome<Vec<AdCert>> {
    if !arguments.ad_cert.is_empty() && settings.key.is_none() {
        return Err(Failure::setup_text(
            "an AdCert is for the name of one server; give that server's key with --key",
        ));
    }
    let now_s = clock::now().unix_s();
    arguments.ad_cert.iter().map(|path| ad_cert::load_for(path, server, now_s)).collect()
}

/// The program that is offered.
struct Program {
    only: Option<Name>,
    to: SocketAddr,
    form: Form,
}

impl Program {
    async fn serve(self: Arc<Self>, stream: Stream) {
        let (peer, local) = (stream.peer(), stream.local());
        if self.only.is_some_and(|only| only != local) {
            stream.reset(PORT_CLOSED);
            return;
        }
        let connected = timeout(CONNECT_WITHIN, TcpStream::connect(self.to)).await;
        let tcp = match connected {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(error)) => {
                tracing::warn!(to = %self.to, %error, "the program cannot be reached");
                stream.reset(SERVICE_FAILED);
                return;
            }
            Err(_) => {
                tracing::warn!(to = %self.to, "the program does not answer");
                stream.reset(SERVICE_FAILED);
                return;
            }
        };
        self.form.print(&News::Connected { peer });
        let outcome = carry(stream, tcp).await.map_err(|error| reason(&error));
        self.form.print(&News::Ended { peer, outcome });
    }
}

/// Answers `rhumb status` until the node is closed.
async fn answer_status(control: Control, woken: Arc<Notify>, node: Node, belonging: Belonging) {
    let started = clock::now().instant;
    loop {
        woken.notified().await;
        let Ok(status) = node.status().await else { return };
        let uptime = clock::now().instant - started;
        control.answer(|| {
            let mut told = json!(status);
            told["role"] = json!("node");
            told["uptime_s"] = json!(uptime.as_secs());
            let metrics = vec![
                DROPPED_PDUS.by_reason(status.drops.iter()),
                DROPPED.by_reason(status.ends.iter()),
                CONNECTIONS.is(status.connections.len()),
            ];
            let mut snapshot = Snapshot { status: told, metrics };
            belonging.report(&mut snapshot);
            snapshot
        });
    }
}

/// Tells who was turned away, a few a minute.
async fn tell_refusals(mut refusals: Receiver<Refusal>, form: Form) {
    let seldom = Seldom::default();
    while let Some(Refusal { from, wanted, .. }) = refusals.recv().await {
        if let Wanted::Connection { port } = wanted
            && seldom.may_say(clock::now().instant)
        {
            form.print(&News::Refused { peer: from, port });
        }
    }
}

struct Ready {
    name: Name,
    port: u16,
    udp: bool,
    to: SocketAddr,
    router: Option<Name>,
    admin: Option<Admin>,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "service",
            "name": self.name.to_string(),
            "port": self.port,
            "udp": self.udp,
            "to": self.to.to_string(),
            "router": self.router.map(|name| name.to_string()),
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port, to, .. } = self;
        let udp = if self.udp { "--udp " } else { "" };
        write!(f, "ready: others reach {to} with `rhumb forward {udp}PORT {name}:{port}`")?;
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb status --admin {admin})"),
            None => Ok(()),
        }
    }
}

/// What happens to who connects.
enum News {
    Connected { peer: Name },
    Ended { peer: Name, outcome: Result<Carried, String> },
    Refused { peer: Name, port: Option<u16> },
}

impl Serialize for News {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Connected { peer } => json!({ "connected": peer.to_string() }),
            Self::Ended { peer, outcome: Ok(carried) } => json!({
                "ended": peer.to_string(), "received": carried.received, "sent": carried.sent,
            }),
            Self::Ended { peer, outcome: Err(reason) } => {
                json!({ "ended": peer.to_string(), "reason": reason })
            }
            Self::Refused { peer, port } => json!({ "refused": peer.to_string(), "port": port }),
        }
        .serialize(serializer)
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { peer } => write!(f, "{peer} connected"),
            Self::Ended { peer, outcome: Ok(Carried { received, sent }) } => write!(
                f,
                "{peer} is done: {} received, {} sent",
                bytes_text(*received),
                bytes_text(*sent)
            ),
            Self::Ended { peer, outcome: Err(reason) } => write!(f, "{peer} ended: {reason}"),
            Self::Refused { peer, port: Some(port) } => {
                write!(f, "refused {peer}, who wanted port {port}")
            }
            Self::Refused { peer, port: None } => {
                write!(f, "refused {peer}, who may use nothing here; --allow would let it")
            }
        }
    }
}

const DROPPED_PDUS: Metric =
    Metric::counter("rhumb_node_dropped_pdus_total", "PDUs that the node dropped, by reason.");
const DROPPED: Metric = Metric::counter(
    "rhumb_end_dropped_payloads_total",
    "Payloads for connections that were dropped, by reason.",
);
const CONNECTIONS: Metric =
    Metric::gauge("rhumb_end_connections", "Connections with other names, now.");
/// Each has two file descriptors and 128 KB of buffers.
const MAX_AT_ONCE: usize = 400;
/// A program on this host, or near it, answers at once or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
