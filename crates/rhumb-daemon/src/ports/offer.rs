//! Ports of a node, offered to others in the place of programs of its host (`rhumb serve`). What
//! goes to one is encrypted from the other end to here.
//!
//! Nobody may use one who was not named; who is connected, and who was turned away, is told.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::places::Places;
use super::{Carried, Seldom, carry, datagrams, reason, until_ended};
use crate::ad_cert;
use crate::admin::Admin;
use crate::clock;
use crate::config::{NodeSettings, OfferedPort};
use crate::failure::{Failure, Outcome};
use crate::output::{Form, bytes_text};
use rhumb_node::{
    BUSY, Listener, Node, PORT_CLOSED, Refusal, SERVICE_FAILED, Service, Stream, Wanted,
};
use rhumb_trust::AdCert;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A port that is offered.
#[derive(Debug)]
pub enum Offer {
    /// Of streams.
    Streams {
        /// Whose port it is.
        node: Node,
        /// The port.
        listener: Listener,
        /// Where it leads.
        program: Program,
    },
    /// Of datagrams.
    Datagrams {
        /// Whose port it is.
        node: Node,
        /// The port, and where it leads.
        offered: datagrams::Offered,
        /// How news is told.
        form: Form,
    },
}

/// Offers a port, and says so.
pub async fn offer(
    node: &Node,
    offered: OfferedPort,
    admin: Option<Admin>,
    form: Form,
) -> Outcome<Offer> {
    let OfferedPort { only, port, udp, to, allow } = offered;
    let admits = allow.admits();
    let name = only.unwrap_or(node.name());
    let ready = Ready { name, port, udp, to, router: node.router().await, admin };
    let node = node.clone();
    let offer = match udp {
        true => {
            let port = node.bind(port, admits).map_err(Failure::setup)?;
            Offer::Datagrams { node, offered: datagrams::Offered { port, only, to }, form }
        }
        false => {
            let listener = node.listen(port, admits).map_err(Failure::setup)?;
            Offer::Streams { node, listener, program: Program { only, to, form } }
        }
    };
    form.print(&ready);
    Ok(offer)
}

impl Offer {
    /// Carries until the node has ended.
    pub async fn carry(self) -> Outcome {
        match self {
            Self::Streams { node, listener, program } => {
                carry_streams(listener, Arc::new(program)).await;
                until_ended(&node).await
            }
            Self::Datagrams { node, offered, form } => {
                offered.carry(move |peer| form.print(&News::Connected { peer })).await;
                until_ended(&node).await
            }
        }
    }
}

async fn carry_streams(mut listener: Listener, program: Arc<Program>) {
    let mut connections = JoinSet::new();
    let mut places = Places::new(MAX_AT_ONCE);
    while let Some(stream) = listener.accept().await {
        // Those that are done.
        while connections.try_join_next().is_some() {}
        let Some(place) = places.take(stream.peer()) else {
            stream.reset(BUSY);
            continue;
        };
        let serving = Arc::clone(&program).serve(stream);
        connections.spawn(async move {
            let _place = place;
            serving.await;
        });
    }
}

/// Refuses a port that is offered by a name alone which this node cannot speak for.
pub fn check_own(offered: &OfferedPort, own: Name, ad_certs: &[AdCert]) -> Outcome {
    match offered.only {
        Some(name) if name != own && ad_certs.iter().all(|it| it.owner() != name) => {
            Err(Failure::setup_text(format!(
                "{name} is not this node's name; give its key with --key, or an AdCert of it with --ad-cert"
            )))
        }
        _ => Ok(()),
    }
}

/// Reads AdCerts that are for this server.
pub fn ad_certs(paths: &[PathBuf], settings: &NodeSettings, server: Name) -> Outcome<Vec<AdCert>> {
    if !paths.is_empty() && settings.key.is_none() {
        return Err(Failure::setup_text(
            "an AdCert is for the name of one server; give that server's key with --key",
        ));
    }
    let now_s = clock::now().unix_s();
    paths.iter().map(|path| ad_cert::load_for(path, server, now_s)).collect()
}

/// Answers for the capsules until what it returns is dropped.
pub async fn serve_capsules(node: &Node, ad_certs: Vec<AdCert>) -> Outcome<Vec<Service>> {
    let mut served = Vec::new();
    for ad_cert in ad_certs {
        served.push(node.serve(ad_cert).await.map_err(Failure::setup)?);
    }
    Ok(served)
}

/// The program that is offered.
#[derive(Debug)]
pub struct Program {
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

/// Tells who was turned away, a few a minute.
pub async fn tell_refusals(mut refusals: Receiver<Refusal>, form: Form) {
    let seldom = Seldom::default();
    while let Some(Refusal { from, wanted, .. }) = refusals.recv().await {
        if let Wanted::Connection { port } = wanted
            && seldom.may_say(clock::now().instant)
        {
            form.print(&News::Refused { peer: from, port });
        }
    }
}

/// What is offered, for people.
#[derive(Debug)]
pub struct Ready {
    /// Under which name.
    pub name: Name,
    /// Its port.
    pub port: u16,
    /// Whether that is one of datagrams.
    pub udp: bool,
    /// Where the program listens.
    pub to: SocketAddr,
    /// The router that the node has joined.
    pub router: Option<Name>,
    /// Where the node tells how it is.
    pub admin: Option<Admin>,
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

/// Each has two file descriptors and 128 KB of buffers.
const MAX_AT_ONCE: usize = 400;
/// A program on this host, or near it, answers at once or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
