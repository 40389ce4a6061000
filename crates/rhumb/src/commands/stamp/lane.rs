//! How packets leave this host for the first waypoint of each list ([`Via`]): from which address,
//! where to, in what, and with what stamp.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use rhumb_capability::{Encapsulation, Stamper};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_waypoint::via::{Via, text};

/// One list of waypoints of one family, and all that takes to send packets there.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) via: Vec<IpAddr>,
    /// How packets leave; `None` without a route.
    pub(super) leaves: Option<Leaves>,
    /// `None` without a key.
    stamper: Option<Stamper>,
}

/// The lanes of IPv4, and those of IPv6, the preferred one first.
pub(super) type Lanes = [Vec<Lane>; 2];

/// What a lane has of a departure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaves {
    source: IpAddr,
    pub(super) to: IpAddr,
    pub(super) is_udp: bool,
}

/// How packets of one family leave this host: from which address, where to, and in what.
#[derive(Debug)]
pub(crate) struct Departure {
    source: IpAddr,
    /// The first waypoint, or where a translator has it.
    to: IpAddr,
    udp: Option<Carriage>,
}

/// A port of this host that packets leave from in UDP. They are sent by the raw socket, which keeps
/// their hop limit and class and tells what became of each; the socket here keeps the port from
/// others, and by it the kernel learns what the path takes. Nobody reads what it receives:
/// waypoints answer to the original source.
#[derive(Debug)]
struct Carriage {
    _socket: UdpSocket,
    source_port: u16,
    to: SocketAddr,
}

impl Lane {
    /// What stamps, if there are keys and a route.
    pub(super) fn stamper(&self) -> Option<&Stamper> {
        self.stamper.as_ref()
    }

    /// Where this host sends from.
    pub(super) fn source(&self) -> Option<IpAddr> {
        self.leaves.map(|it| it.source)
    }

    /// Its last waypoint.
    pub(super) fn last(&self) -> IpAddr {
        *self.via.last().expect("invariant: Via has no empty list")
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(&self.via))
    }
}

impl Departure {
    /// From `source` to `to`; in UDP where its address and port are given.
    pub(crate) fn new(source: IpAddr, to: IpAddr, udp: Option<SocketAddr>) -> Outcome<Self> {
        let udp = udp.map(|to| Carriage::open(source, to)).transpose()?;
        Ok(Self { source, to, udp })
    }

    /// Where this host sends from.
    pub(crate) fn source(&self) -> IpAddr {
        self.source
    }

    /// Where they go in UDP, if they do.
    pub(crate) fn udp(&self) -> Option<SocketAddr> {
        self.udp.as_ref().map(|udp| udp.to)
    }

    /// What stamped packets are put into.
    pub(super) fn encapsulation(&self) -> Encapsulation {
        let source = Some(self.source);
        match &self.udp {
            None => Encapsulation::Ip { source },
            Some(udp) => Encapsulation::Udp {
                source,
                source_port: udp.source_port,
                destination: Some(self.to),
                port: udp.to.port(),
            },
        }
    }
}

impl Carriage {
    fn open(source: IpAddr, to: SocketAddr) -> Outcome<Self> {
        let open = || {
            let socket = UdpSocket::bind((source, 0))?;
            socket.connect(to)?;
            let source_port = socket.local_addr()?.port();
            Ok(Self { _socket: socket, source_port, to })
        };
        open().map_err(|error: io::Error| {
            Failure::setup_text(format!("no UDP from {source} to {to}: {error}"))
        })
    }
}

/// The lanes of each family, with what stamps for them.
pub(super) fn lanes_of(
    via: &Via,
    departures: &[Vec<Option<Departure>>; 2],
    stamper: impl Fn(&[IpAddr], &Departure) -> Option<Stamper>,
) -> Lanes {
    [false, true].map(|is_v6| {
        let departures = &departures[usize::from(is_v6)];
        let lane = |(via, departure): (&Vec<IpAddr>, &Option<Departure>)| {
            let departure = departure.as_ref();
            Lane {
                via: via.clone(),
                leaves: departure.map(|it| Leaves {
                    source: it.source,
                    to: it.to,
                    is_udp: it.udp.is_some(),
                }),
                stamper: departure.and_then(|it| stamper(via, it)),
            }
        };
        via.of(is_v6).iter().zip(departures).map(lane).collect()
    })
}
