//! Hellos from addresses that are proven, two in turns from each: every one begins a handshake
//! anew, and nobody goes on with it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::Endpoint;
use rhumb_trust::Identity;
use rhumb_wire::datagram::Datagram;
use rhumb_wire::{Batch, Role};

use super::{AtRate, PATIENCE, now};

/// Sockets at as many addresses, each with two hellos that the router has given it tokens for.
pub(crate) struct ProvenHellos {
    sockets: Vec<UdpSocket>,
    hellos: [Vec<u8>; 2],
    initials: Vec<[Vec<u8>; 2]>,
}

impl ProvenHellos {
    pub(crate) fn new(addresses: u16) -> Self {
        let bind = |number: u16| {
            let [high, low] = number.to_be_bytes();
            let socket = UdpSocket::bind((Ipv4Addr::new(127, 20 + high, low, 1), 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let sockets: Vec<UdpSocket> = (0..addresses).map(bind).collect();
        let initials = sockets.iter().map(|_| [Vec::new(), Vec::new()]).collect();
        Self { sockets, hellos: [hello(), hello()], initials }
    }

    /// Fetches tokens, which last ten seconds.
    pub(crate) fn prove(&mut self, router: SocketAddr) {
        let mut buffer = [0; 2048];
        for socket in &self.sockets {
            while socket.recv(&mut buffer).is_ok() {}
        }
        for which in 0..2 {
            for first in (0..self.sockets.len()).step_by(AT_ONCE) {
                let last = (first + AT_ONCE).min(self.sockets.len());
                self.prove_some(router, which, first..last);
            }
        }
    }

    fn prove_some(&mut self, router: SocketAddr, which: usize, some: std::ops::Range<usize>) {
        let hello = &self.hellos[which];
        let mut plain = Vec::new();
        Datagram::emit_initial(None, hello, &mut plain);
        for socket in &self.sockets[some.clone()] {
            socket.send_to(&plain, router).unwrap();
        }
        let mut buffer = [0; 2048];
        for at in some {
            let (begun, mut asked) = (Instant::now(), Instant::now());
            self.initials[at][which] = loop {
                if let Ok(len) = self.sockets[at].recv(&mut buffer)
                    && let Ok(Datagram::Retry { token, .. }) = Datagram::parse(&buffer[..len])
                {
                    let mut initial = Vec::new();
                    Datagram::emit_initial(Some(token), hello, &mut initial);
                    break initial;
                }
                assert!(begun.elapsed() < PATIENCE, "no token");
                if asked.elapsed() > Duration::from_millis(200) {
                    self.sockets[at].send_to(&plain, router).unwrap();
                    asked = Instant::now();
                }
                std::thread::sleep(Duration::from_micros(50));
            };
        }
    }

    /// Sends them at a rate, from one address after the other.
    pub(crate) fn start(self: &Arc<Self>, to: SocketAddr, per_s: u64) -> AtRate {
        let hellos = Arc::clone(self);
        AtRate::start(per_s, move |number| {
            let count = hellos.sockets.len();
            let (at, turn) = (number as usize % count, number as usize / count);
            let _ = hellos.sockets[at].send_to(&hellos.initials[at][turn % 2], to);
        })
    }
}

/// The first thing that an initiator says, without what wraps it.
fn hello() -> Vec<u8> {
    let now = now();
    let identity = Arc::new(Identity::generate(Role::Node, now.unix_s()).unwrap());
    let config = rhumb_link::Config::default();
    let mut endpoint = Endpoint::new(identity, config, [1; 32], now.instant).unwrap();
    let _ = endpoint.connect(SocketAddr::from(([127, 0, 0, 1], 1)), None, now.instant);
    let mut out = Batch::new();
    endpoint.poll_transmit(&mut out);
    let (_, initial) = out.iter().next().unwrap();
    match Datagram::parse(initial).unwrap() {
        Datagram::Initial { inner, .. } => inner.to_vec(),
        _ => panic!("an initiator begins with an initial"),
    }
}

/// Fewer than a socket's queue holds.
const AT_ONCE: usize = 50;
