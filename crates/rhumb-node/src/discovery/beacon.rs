//! A router's side of discovery: hears queries on the discovery
//! port and answers from the router's own socket.
//!
//! 1. [`Beacon::new`] opens a socket per address family that the router's socket serves, shared
//!    with other routers of this host.
//! 2. [`Beacon::turn`] looks at the links again from time to time, waits, and answers what came.
//!
//! Invariant: nothing that comes in ends a beacon; only a socket that is of no further use does.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::time::{Duration, Instant};

use rhumb_io::fd::AsFd;
use rhumb_io::poll::{Interest, poll};
use rhumb_io::udp::{UdpSocket, is_over};
use rhumb_io::{IoError, PacketIo, Wake};
use rhumb_wire::discovery::{DISCOVERY_GROUP, DISCOVERY_PORT, Discovery};
use socket2::{Domain, Protocol, Socket, Type};

use super::Links;
use super::responder::{BeaconCounters, BeaconDrop, Responder};

/// Answers queries in a router's name.
#[derive(Debug)]
pub struct Beacon {
    listeners: Vec<StdSocket>,
    /// The router's socket.
    router: StdSocket,
    router_address: SocketAddr,
    links: Links,
    links_read_at: Option<Instant>,
    responder: Responder,
    counters: BeaconCounters,
}

impl Beacon {
    /// A beacon for the router that serves on `router`.
    ///
    /// # Errors
    /// When the discovery port cannot be bound: another program has it, and does not share it.
    pub fn new(router: &UdpSocket) -> Result<Self, IoError> {
        let router_address = router.local_address();
        let mut listeners = Vec::new();
        if router_address.is_ipv6() {
            listeners.push(listen(Ipv6Addr::UNSPECIFIED.into())?);
        }
        if router_address.is_ipv4() || router_address.ip().is_unspecified() {
            listeners.push(listen(Ipv4Addr::UNSPECIFIED.into())?);
        }
        let address = router_address;
        let router = AsFd::as_fd(router).try_clone_to_owned();
        Ok(Self {
            listeners,
            router: router.map_err(|source| IoError::Socket { address, source })?.into(),
            router_address,
            links: Links::default(),
            links_read_at: None,
            responder: Responder::new(Instant::now()),
            counters: BeaconCounters::default(),
        })
    }

    /// Answers what waits, or what comes first. Returns after a few seconds at
    /// the latest, and at once when `wake` is woken.
    ///
    /// # Errors
    /// When a socket is of no further use.
    pub fn turn(&mut self, wake: &Wake) -> io::Result<()> {
        let now = Instant::now();
        if self.links_read_at.is_none_or(|at| now >= at + READ_LINKS_EVERY) {
            self.read_links();
            self.links_read_at = Some(now);
        }
        let wake_up = Interest::Readable(wake.as_fd());
        match &self.listeners[..] {
            [first, second] => {
                poll(&[wake_up, readable(first), readable(second)], Some(READ_LINKS_EVERY))?;
            }
            one => {
                let first = one.first().expect("invariant: every address is of some family");
                poll(&[wake_up, readable(first)], Some(READ_LINKS_EVERY))?;
            }
        }
        wake.take();
        for at in 0..self.listeners.len() {
            self.answer_all(at)?;
        }
        Ok(())
    }

    /// What it has done so far.
    pub fn counters(&self) -> BeaconCounters {
        self.counters
    }

    /// Interfaces come and go; the multicast group is joined on those that are there.
    fn read_links(&mut self) {
        // When the system does not tell, what was true ten seconds ago will do.
        if let Ok(links) = Links::read(self.router_address.ip()) {
            self.links = links;
        }
        if !self.router_address.is_ipv6() {
            return;
        }
        for interface in self.links.interfaces() {
            // It is a member already, or the interface has just gone.
            let _ = self.listeners[0].join_multicast_v6(&DISCOVERY_GROUP, *interface);
        }
    }

    fn answer_all(&mut self, at: usize) -> io::Result<()> {
        // One byte more than a query, so that a longer datagram is not taken for one.
        let mut datagram = [0; Discovery::QUERY_LEN + 1];
        for _ in 0..MAX_DATAGRAMS_A_TURN {
            match self.listeners[at].recv_from(&mut datagram) {
                Ok((len, from)) => match self.answer(&from, &datagram[..len]) {
                    Ok(()) => self.counters.answered += 1,
                    Err(reason) => self.counters.count_drop(reason),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_final(&error) => return Err(error),
                // About an earlier answer, or a signal.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn answer(&mut self, from: &SocketAddr, datagram: &[u8]) -> Result<(), BeaconDrop> {
        let answer = self.responder.answer(from, datagram, &self.links, Instant::now())?;
        let to = match from.ip() {
            IpAddr::V4(ip) if self.router_address.is_ipv6() => {
                SocketAddr::from((ip.to_ipv6_mapped(), from.port()))
            }
            _ => *from,
        };
        self.router.send_to(answer, to).map(drop).map_err(|_| BeaconDrop::Unsent)
    }
}

fn readable(socket: &StdSocket) -> Interest<'_> {
    Interest::Readable(AsFd::as_fd(socket))
}

/// A socket on the discovery port that gets broadcasts and
/// multicasts together with those of other routers.
fn listen(ip: IpAddr) -> Result<StdSocket, IoError> {
    let address = SocketAddr::new(ip, DISCOVERY_PORT);
    let open = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if ip.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        // Elsewhere it takes this for all of them to get a copy; on
        // Linux it would shut out those of other users.
        #[cfg(all(unix, not(target_os = "linux")))]
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    open().map_err(|source| IoError::Bind { address, source })
}

/// Whether an error means that the socket is of no further use.
fn is_final(error: &io::Error) -> bool {
    is_over(error)
}

/// A network that comes up is served this much later.
const READ_LINKS_EVERY: Duration = Duration::from_secs(5);
/// So that a flood on one socket does not starve the other.
const MAX_DATAGRAMS_A_TURN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_io::udp::Options;
    use rhumb_wire::discovery::Nonce;

    fn router(address: &str) -> UdpSocket {
        UdpSocket::bind(address.parse().expect("an address"), Options::default()).expect("bind")
    }

    #[test]
    fn several_routers_of_a_host_hear_queries_each() {
        let (first, second) = (router("127.0.0.1:0"), router("127.0.0.1:0"));
        let one = Beacon::new(&first).expect("a beacon");
        let other = Beacon::new(&second).expect("a second one");
        assert_eq!((one.listeners.len(), other.listeners.len()), (1, 1));
    }

    #[test]
    fn what_comes_over_loopback_is_not_from_a_neighbour() {
        let socket = router("127.0.0.1:0");
        let mut beacon = Beacon::new(&socket).expect("a beacon");
        let asker = StdSocket::bind("127.0.0.1:0").expect("a socket");
        let mut query = Vec::new();
        Discovery::Query(Nonce([1; 8])).emit(&mut query);
        // Not over the port, which is shared with beacons of other tests.
        for datagram in [&query[..], &query[1..]] {
            let from = asker.local_addr().expect("an address");
            let _ =
                beacon.answer(&from, datagram).map_err(|reason| beacon.counters.count_drop(reason));
        }
        assert_eq!(beacon.counters().dropped(BeaconDrop::OffLink), 1);
        assert_eq!(beacon.counters().dropped(BeaconDrop::Malformed), 1);
        assert_eq!(beacon.counters().answered, 0);
        let wake = Wake::new().expect("a wake");
        wake.wake();
        beacon.turn(&wake).expect("a turn");
    }
}
