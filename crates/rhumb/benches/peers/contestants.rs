//! Who is measured, and how each is set up between client and server.
//!
//! Every turn starts a contestant afresh and ends it: no
//! other one's processes are about, not even idle.

mod nebula;
mod ours;
mod plain;
#[allow(dead_code, reason = "it takes part in the bench of ends")]
mod tun;
mod wireguard;
mod yggdrasil;
mod zenoh;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};

use rhumb_stream::Carrier;

use crate::Extent;
use crate::install::Tools;
use crate::load::{Datagrams, Ends, Load};
use crate::namespace::Namespace;
use crate::place::Place;
use crate::process::{PATIENCE, Process};

#[allow(unused_imports, reason = "for the bench of ends")]
pub(crate) use ours::{Ready, carriers, rhumb, serve};
pub(crate) use plain::{FORWARD, forward};

/// One way of getting messages through a router.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// What it is, and of which version.
    pub(crate) about: String,
    /// The largest message that fits the path's MTU in one piece.
    pub(crate) largest_payload: usize,
    /// Whether the router's kernel has to forward.
    pub(crate) needs_forwarding: bool,
    pub(crate) start: fn(&Ground) -> Result<Standing, String>,
}

/// What contestants stand on.
pub(crate) struct Ground {
    pub(crate) place: Place,
    /// For files of a turn.
    pub(crate) folder: PathBuf,
    pub(crate) tools: Tools,
    pub(crate) extent: Extent,
}

/// A contestant that runs.
pub(crate) struct Standing {
    pub(crate) load: Box<dyn Load>,
    /// The process that is the router; `None` when it is the kernel.
    pub(crate) router: Option<Process>,
    /// Where that process tells of its system calls, if it does.
    pub(crate) metrics: Option<SocketAddr>,
    /// All others.
    pub(crate) others: Vec<Process>,
    /// The addresses of client and server in the tunnel, if it is one for all programs.
    #[allow(dead_code, reason = "for the bench of ends")]
    pub(crate) tunnel: Option<[IpAddr; 2]>,
}

/// All there are.
pub(crate) fn all() -> [Contestant; 9] {
    [
        ours::contestant(),
        ours::over_tls(),
        plain::bare(),
        plain::linux(),
        wireguard::in_go(),
        wireguard::in_rust(),
        yggdrasil::contestant(),
        nebula::contestant(),
        zenoh::contestant(),
    ]
}

/// Those that give programs addresses, and carry whatever they send.
#[allow(dead_code, reason = "for the bench of ends")]
pub(crate) fn tunnels() -> [Contestant; 4] {
    [tun::contestant(), wireguard::in_go(), nebula::contestant(), yggdrasil::contestant()]
}

/// Sockets at client and server, as soon as their addresses are there.
fn datagrams(
    place: &Place,
    [client, server]: [IpAddr; 2],
    ends: Ends,
) -> Result<Datagrams, String> {
    let source = bind(&place.client, client)?;
    let sink = bind(&place.server, server)?;
    let to = SocketAddr::new(server, sink.local_address().port());
    Ok(Datagrams::new(Carrier::new(source), Carrier::new(sink), to, ends))
}

fn bind(namespace: &Namespace, ip: IpAddr) -> Result<UdpSocket, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match namespace.run(|| UdpSocket::bind((ip, 0).into(), Options::default()))? {
            Ok(socket) => return Ok(socket),
            Err(error) if Instant::now() > deadline => return Err(error.to_string()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The contestant that the others are held against.
pub(crate) const OURS: &str = "rhumb";
/// The same over TLS on TCP.
pub(crate) const OURS_OVER_TLS: &str = "rhumb-tls";
