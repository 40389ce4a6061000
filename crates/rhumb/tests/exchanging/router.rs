//! A small router: a BGP session of `rhumb_bgp` on a thread, at a port of
//! loopback, which proxies call. It outlives them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rhumb_bgp::policy::prefix::{address_of, parse_prefix};
use rhumb_bgp::wire::{AsPath, AsPathSegment, BgpRole, LargeCommunity, Origin, PathAttribute};
use rhumb_bgp::{
    Attributes, Config, ConnectionId, Family, NextHop, Session, Side, State, Transmit,
};

/// The AS of the exchange's route servers, which proxies speak for.
pub(crate) const EXCHANGE_AS: u32 = 64499;

/// A router that runs until dropped.
pub(crate) struct Router {
    pub(crate) address: SocketAddr,
    asn: u32,
    session: Arc<Mutex<Session>>,
    is_over: Arc<AtomicBool>,
}

impl Router {
    /// The router of AS 64500 and a number, with families of IPv4 and IPv6.
    pub(crate) fn start(number: u16) -> Self {
        let asn = 64500 + u32::from(number);
        let mut config = Config::new(asn, [10, 0, 0, 1 + number as u8].into(), EXCHANGE_AS);
        (config.passive, config.enforce_first_as) = (true, false);
        config.role = Some(BgpRole::RouteServerClient);
        // It has nothing before it is told to, and says at once that this was all.
        config.automatic_end_of_rib = true;
        config.timers.idle_hold = Duration::from_millis(100);
        config.timers.idle_hold_max = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut session = Session::new(config, number.into()).unwrap();
        session.start(Instant::now());
        let (session, is_over) = (Arc::new(Mutex::new(session)), Arc::default());
        let driver = Driver { session: Arc::clone(&session), listener, streams: Vec::new() };
        let over = Arc::clone(&is_over);
        std::thread::spawn(move || driver.run(&over));
        Self { address, asn, session, is_over }
    }

    /// Announces a prefix by way of these systems, with large communities.
    pub(crate) fn announce(&self, prefix: &str, tail: &[u32], large: &[(u32, u32, u32)]) {
        let attributes = attributes(self.asn, tail, large);
        let mut session = self.session.lock().unwrap();
        session.announce(parse_prefix(prefix).unwrap(), 0, &attributes, Instant::now()).unwrap();
    }

    pub(crate) fn withdraw(&self, prefix: &str) {
        let mut session = self.session.lock().unwrap();
        session.withdraw(parse_prefix(prefix).unwrap(), 0, Instant::now());
    }

    pub(crate) fn is_up(&self) -> bool {
        self.session.lock().unwrap().state() == State::Established
    }

    /// What it has from its proxy: paths by prefix.
    pub(crate) fn received(&self) -> BTreeMap<String, Vec<u32>> {
        let session = self.session.lock().unwrap();
        let routes = Family::ALL.into_iter().flat_map(|family| session.routes_in(family));
        let routes = routes.map(|(prefix, _, attributes)| {
            let text = format!("{}/{}", address_of(prefix), prefix.prefix_len());
            (text, attributes.as_path().asns().collect())
        });
        routes.collect()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A route of a member, by way of these systems.
pub(crate) fn attributes(asn: u32, tail: &[u32], large: &[(u32, u32, u32)]) -> Attributes {
    let segments = vec![AsPathSegment::AsSequence([&[asn], tail].concat())];
    let mut list =
        vec![PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(AsPath { segments })];
    if !large.is_empty() {
        let large = large.iter().map(|(a, b, c)| LargeCommunity::new(*a, *b, *c));
        list.push(PathAttribute::LargeCommunities(large.collect()));
    }
    Attributes::new(NextHop::V4([198, 51, 100, (asn % 250) as u8 + 1].into()), &list).unwrap()
}

struct Driver {
    session: Arc<Mutex<Session>>,
    listener: TcpListener,
    streams: Vec<(ConnectionId, TcpStream, Vec<u8>)>,
}

impl Driver {
    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            self.step();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn step(&mut self) {
        let now = Instant::now();
        let Self { session, listener, streams } = self;
        let mut session = session.lock().unwrap();
        while let Ok((stream, _)) = listener.accept() {
            if let Some(id) = session.connected(Side::Incoming, now) {
                stream.set_nonblocking(true).unwrap();
                streams.push((id, stream, Vec::new()));
            }
        }
        let mut buffer = [0; 65_536];
        streams.retain_mut(|(id, stream, _)| match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            Ok(0) | Err(_) => {
                session.disconnected(*id, now);
                false
            }
            Ok(read) => {
                session.handle_bytes(*id, &buffer[..read], now);
                true
            }
        });
        if session.poll_timeout().is_some_and(|at| at <= now) {
            session.handle_timeout(now);
        }
        while let Some(transmit) = session.poll_transmit(now) {
            match transmit {
                Transmit::Connect => session.connect_failed(now),
                Transmit::Send(to, bytes) => {
                    let stream = streams.iter_mut().find(|(id, ..)| *id == to);
                    stream.into_iter().for_each(|(.., unsent)| unsent.extend(&bytes));
                }
                Transmit::Close(closed) => {
                    streams.retain_mut(|(id, stream, unsent)| {
                        // What it says at its end is for people.
                        let _ = (*id == closed).then(|| stream.write(unsent));
                        *id != closed
                    });
                }
            }
        }
        for (_, stream, unsent) in streams {
            let written = stream.write(unsent).unwrap_or(0);
            unsent.drain(..written);
        }
        while session.poll_event().is_some() {}
    }
}
