//! Lists of waypoints, and how packets leave this host for the first one of each: from which
//! address, where to, in what, and with what stamp.
//!
//! Invariant: no list is empty, or mixes families of addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use rhumb_capability::{Encapsulation, Stamper};

use crate::failure::{Failure, Outcome};

/// Waypoints in their order, of each family that is to be stamped:
/// one list, or several, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Via {
    pub(crate) v4: Vec<Vec<IpAddr>>,
    pub(crate) v6: Vec<Vec<IpAddr>>,
}

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

impl Via {
    /// The lists of waypoints of a family.
    pub(crate) fn of(&self, is_v6: bool) -> &[Vec<IpAddr>] {
        if is_v6 { &self.v6 } else { &self.v4 }
    }

    /// Takes one more list, of one family, to be used when those before
    /// it do not work. Says what is wrong with it.
    pub(crate) fn take(&mut self, list: &[IpAddr]) -> Result<(), String> {
        let Some(first) = list.first() else { return Err("no waypoints".to_owned()) };
        if list.iter().any(|it| it.is_ipv4() != first.is_ipv4()) {
            return Err("a packet passes waypoints of one family of addresses".to_owned());
        }
        let mine = if first.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        if mine.iter().any(|before| before == list) {
            return Err(format!("the way by {} is given twice", text(list)));
        }
        if mine.len() == MOST_LANES {
            return Err(format!("more than {MOST_LANES} ways of one family of addresses"));
        }
        mine.push(list.to_vec());
        Ok(())
    }

    /// All waypoints.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.v4.iter().chain(&self.v6).flatten().copied()
    }
}

/// A list of waypoints, as `--via` takes it.
pub(super) fn text(list: &[IpAddr]) -> String {
    list.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

impl std::fmt::Display for Via {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |lists: &[Vec<IpAddr>]| {
            lists.iter().map(|list| text(list)).collect::<Vec<_>>().join(" or ")
        };
        match (self.v4.is_empty(), self.v6.is_empty()) {
            (false, false) => write!(f, "{} and {}", text(&self.v4), text(&self.v6)),
            (_, true) => f.write_str(&text(&self.v4)),
            (true, false) => f.write_str(&text(&self.v6)),
        }
    }
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

/// Each is asked twice in ten seconds at least.
const MOST_LANES: usize = 8;
