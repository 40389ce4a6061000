//! `rhumb forward`: a port that somebody offers under a name, brought to this host: programs
//! connect to a local address, and nobody on the way reads or alters what they say.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rhumb_daemon::cli::ForwardArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::membership::{check_peer, joined};
use rhumb_daemon::output::{Form, bytes_text};
use rhumb_daemon::ports::datagrams::bring;
use rhumb_daemon::ports::{Carried, Seldom, carry, listen, reason, taken, until_ended};
use rhumb_node::{DatagramError, Node};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Runs the command.
pub(crate) fn run(
    arguments: &ForwardArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let (name, port) = (arguments.service.name, arguments.service.port);
    check_peer(settings, name)?;
    joined(settings, with_parent, Ok(()), |node| async move {
        let local = arguments.local.0;
        if arguments.udp {
            return carry_datagrams(&node, local, (name, port), form).await;
        }
        let (listener, local) = listen(local).await?;
        // Whoever is not there, or does not let us in, is known before a program relies on it.
        node.connect(name).await.map_err(Failure::setup)?;
        form.print(&Ready { own: node.name(), local, name, port });
        let way = Arc::new(Way { node: node.clone(), name, port, form, told: Seldom::default() });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((tcp, _)) if connections.len() < MAX_AT_ONCE => {
                        connections.spawn(Arc::clone(&way).carry(tcp));
                    }
                    // One more program has to wait for others to be done: it is turned away.
                    Ok(_) => {}
                    Err(error) => return Err(Failure::operation(error)),
                },
                Some(_) = connections.join_next() => {}
                ended = until_ended(&node) => return ended,
            }
        }
    })
}

async fn carry_datagrams(
    node: &Node,
    local: SocketAddr,
    (name, port): (Name, u16),
    form: Form,
) -> Outcome {
    let socket = UdpSocket::bind(local).await.map_err(|error| taken(local, &error))?;
    let local = socket.local_addr().map_err(Failure::setup)?;
    node.connect(name).await.map_err(Failure::setup)?;
    form.print(&Ready { own: node.name(), local, name, port });
    let told = Arc::new(Seldom::default());
    let tell = move |error: DatagramError| {
        if told.may_say(clock::now().instant) {
            form.print(&Ended { outcome: Err(error.to_string()) });
        }
    };
    tokio::select! {
        carried = bring(node.clone(), socket, (name, port), tell) => {
            carried.map_err(Failure::operation)
        }
        ended = until_ended(node) => ended,
    }
}

/// Where it leads.
struct Way {
    node: Node,
    name: Name,
    port: u16,
    form: Form,
    told: Seldom,
}

impl Way {
    async fn carry(self: Arc<Self>, tcp: TcpStream) {
        let outcome = match self.node.open(self.name, self.port).await {
            Ok(stream) => carry(stream, tcp).await.map_err(|error| reason(&error)),
            Err(error) => Err(error.to_string()),
        };
        if outcome.is_ok() || self.told.may_say(clock::now().instant) {
            self.form.print(&Ended { outcome });
        }
    }
}

struct Ready {
    own: Name,
    local: SocketAddr,
    name: Name,
    port: u16,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "forward",
            "name": self.own.to_string(),
            "local": self.local.to_string(),
            "to": self.name.to_string(),
            "port": self.port,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, name, port, .. } = self;
        write!(f, "ready: {local} leads to port {port} of {name}")
    }
}

/// A program's connection, as it ended.
struct Ended {
    outcome: Result<Carried, String>,
}

impl Serialize for Ended {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.outcome {
            Ok(Carried { received, sent }) => {
                json!({ "ended": true, "received": received, "sent": sent })
            }
            Err(reason) => json!({ "ended": true, "reason": reason }),
        }
        .serialize(serializer)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(Carried { received, sent }) => {
                write!(f, "done: {} received, {} sent", bytes_text(*received), bytes_text(*sent))
            }
            Err(reason) => write!(f, "ended: {reason}"),
        }
    }
}

/// Each has two file descriptors and 128 KB of buffers.
const MAX_AT_ONCE: usize = 400;
