//! A session over real sockets on loopback, and the daemon of somebody else beside it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's world may fail, and has a clock"
)]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rhumb_bgp::config::GracefulRestart;
use rhumb_bgp::wire::{
    AsPath, AsPathSegment, NotificationCode, NotificationMessage, Origin, PathAttribute, Prefix,
};
use rhumb_bgp::{
    Attributes, Config, ConnectionId, Event, Family, FamilyConfig, NextHop, Session, Side, Transmit,
};
use rhumb_io::set_tcp_md5_secret;
use socket2::{Domain, Socket, Type};

/// Our side: one session, and the sockets that it asks for.
pub(crate) struct Peer {
    pub(crate) session: Session,
    /// All that the session said.
    pub(crate) events: Vec<Event>,
    listener: TcpListener,
    remote: SocketAddr,
    secret: Vec<u8>,
    streams: Vec<Stream>,
}

struct Stream {
    id: ConnectionId,
    stream: TcpStream,
    unsent: Vec<u8>,
    /// Closed by us once everything is written.
    is_ending: bool,
}

impl Peer {
    /// The neighbour is, or will be, at `remote`. An empty secret: segments are not signed.
    pub(crate) fn new(
        config: Config,
        listener: TcpListener,
        remote: SocketAddr,
        secret: &[u8],
    ) -> Self {
        listener.set_nonblocking(true).unwrap();
        if !secret.is_empty() {
            set_tcp_md5_secret(listener.as_fd(), remote.ip(), secret).unwrap();
        }
        let mut session = Session::new(config, 1).unwrap();
        session.start(Instant::now());
        Self {
            session,
            events: Vec::new(),
            listener,
            remote,
            secret: secret.to_vec(),
            streams: Vec::new(),
        }
    }

    /// Drives the session until something holds.
    #[track_caller]
    pub(crate) fn run_until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds(self) {
            let last: Vec<_> = self.events.iter().rev().take(5).collect();
            assert!(
                Instant::now() < deadline,
                "{what}: not within {DEADLINE:?}; last events: {last:#?}"
            );
            self.step();
        }
    }

    /// Drives the session for a time.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.step();
        }
    }

    /// Drives the session until the neighbour's answer holds, and gives the answer.
    #[track_caller]
    pub(crate) fn run_until_answer(
        &mut self,
        mut ask: impl FnMut() -> String,
        holds: impl Fn(&str) -> bool,
    ) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            self.run_for(Duration::from_millis(50));
            let answer = ask();
            if holds(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{answer}");
        }
    }

    /// Drives the session until it is up and both families have come as a whole.
    #[track_caller]
    pub(crate) fn run_until_up(&mut self) {
        self.run_until_event("up", |event| matches!(event, Event::Up(_)));
        for family in Family::ALL {
            self.run_until_event("all routes", |event| *event == Event::EndOfRib(family));
        }
    }

    /// Drives the session until a route has come; gives its path.
    #[track_caller]
    pub(crate) fn run_until_route(&mut self, wanted: &str) -> Vec<u32> {
        let wanted = prefix(wanted);
        self.run_until("a route", |peer| peer.session.route_in(wanted, 0).is_some());
        self.session.route_in(wanted, 0).unwrap().as_path().asns().collect()
    }

    /// Drives the session until a route is gone.
    #[track_caller]
    pub(crate) fn run_until_gone(&mut self, wanted: &str) {
        let wanted = prefix(wanted);
        self.run_until("a route is gone", |peer| peer.session.route_in(wanted, 0).is_none());
    }

    /// The neighbour, killed, is back: of its two routes the one of IPv4 was there all the time,
    /// and the one of IPv6, which it does not have any more, went after it had said all.
    #[track_caller]
    pub(crate) fn expect_after_restart(&mut self) {
        self.run_until_gone("2001:db8:200::/48");
        let said_all = self.events.iter().position(|it| *it == Event::EndOfRib(Family::Ipv6));
        let six = Event::Withdrawn { prefix: prefix("2001:db8:200::/48"), path: 0 };
        let withdrawn = self.events.iter().position(|event| *event == six);
        assert!(said_all.is_some() && withdrawn.is_some(), "{:#?}", self.events);
        let is_withdrawal = |event: &&Event| matches!(event, Event::Withdrawn { .. });
        assert_eq!(self.events.iter().filter(is_withdrawal).count(), 1, "{:#?}", self.events);
        for (family, count) in [(Family::Ipv4, 1), (Family::Ipv6, 0)] {
            assert_eq!(
                (self.session.count_in(family), self.session.count_stale(family)),
                (count, 0)
            );
        }
    }

    #[track_caller]
    pub(crate) fn run_until_event(&mut self, what: &str, is_it: impl Fn(&Event) -> bool) {
        self.run_until(what, |peer| peer.events.iter().any(&is_it));
    }

    /// Forgets what was said so far.
    pub(crate) fn forget(&mut self) {
        self.events.clear();
    }

    pub(crate) fn announce(&mut self, prefix: Prefix, path: u32, attributes: &Attributes) {
        self.session.announce(prefix, path, attributes, Instant::now()).unwrap();
    }

    pub(crate) fn withdraw(&mut self, prefix: Prefix, path: u32) {
        assert!(self.session.withdraw(prefix, path, Instant::now()));
    }

    fn step(&mut self) {
        let now = Instant::now();
        let mut is_idle = self.accept(now);
        // What has come counts before silence does.
        is_idle &= self.read(now);
        if self.session.poll_timeout().is_some_and(|at| at <= now) {
            self.session.handle_timeout(now);
        }
        is_idle &= self.write(now);
        while let Some(event) = self.session.poll_event() {
            self.events.push(event);
        }
        if is_idle {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn accept(&mut self, now: Instant) -> bool {
        let Ok((stream, _)) = self.listener.accept() else { return true };
        if let Some(id) = self.session.connected(Side::Incoming, now) {
            self.add(id, stream);
        }
        false
    }

    fn add(&mut self, id: ConnectionId, stream: TcpStream) {
        stream.set_nonblocking(true).unwrap();
        self.streams.push(Stream { id, stream, unsent: Vec::new(), is_ending: false });
    }

    fn read(&mut self, now: Instant) -> bool {
        let mut is_idle = true;
        let mut buffer = [0; 65_536];
        let Self { session, streams, .. } = self;
        streams.retain_mut(|stream| match stream.stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            Ok(0) | Err(_) => {
                session.disconnected(stream.id, now);
                false
            }
            Ok(read) => {
                is_idle = false;
                session.handle_bytes(stream.id, &buffer[..read], now);
                true
            }
        });
        is_idle
    }

    fn write(&mut self, now: Instant) -> bool {
        let mut is_idle = true;
        while self.streams.iter().all(|stream| stream.unsent.len() < MAX_UNSENT) {
            let Some(transmit) = self.session.poll_transmit(now) else { break };
            is_idle = false;
            match transmit {
                Transmit::Connect => self.connect(now),
                Transmit::Send(id, bytes) => {
                    if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
                        stream.unsent.extend_from_slice(&bytes);
                    }
                }
                Transmit::Close(id) => {
                    self.streams
                        .iter_mut()
                        .filter(|stream| stream.id == id)
                        .for_each(|stream| stream.is_ending = true);
                }
            }
        }
        self.streams.retain_mut(|stream| {
            let written = stream.stream.write(&stream.unsent).unwrap_or(0);
            stream.unsent.drain(..written);
            !(stream.is_ending && stream.unsent.is_empty())
        });
        is_idle
    }

    fn connect(&mut self, now: Instant) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let local = SocketAddr::new(self.listener.local_addr().unwrap().ip(), 0);
        socket.bind(&local.into()).unwrap();
        if !self.secret.is_empty() {
            set_tcp_md5_secret(socket.as_fd(), self.remote.ip(), &self.secret).unwrap();
        }
        match socket.connect_timeout(&self.remote.into(), CONNECT_TIME) {
            Ok(()) => {
                if let Some(id) = self.session.connected(Side::Outgoing, now) {
                    self.add(id, socket.into());
                }
            }
            Err(_) => self.session.connect_failed(now),
        }
    }
}

/// A process that ends with the test.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// Nothing if there is no such program: the test says so and ends.
    pub(crate) fn start(test: &str, command: &mut Command) -> Option<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                println!("skipped: {test}: {}: {error}", command.get_program().to_string_lossy());
                None
            }
        }
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program says on its output.
pub(crate) fn output(command: &mut Command) -> String {
    let Output { stdout, .. } =
        command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Our listener, and where the neighbour will be: addresses of loopback that nobody else uses now.
pub(crate) fn endpoints() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 1), 0)).unwrap();
    let theirs = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap().local_addr().unwrap();
    (listener, theirs)
}

/// Attributes of a route: by way of these systems, to this next hop, with more attributes.
pub(crate) fn attributes(next_hop: IpAddr, path: &[u32], more: &[PathAttribute]) -> Attributes {
    let next_hop = match next_hop {
        IpAddr::V4(address) => NextHop::V4(address),
        IpAddr::V6(address) => NextHop::V6(address, None),
    };
    let segments = vec![AsPathSegment::AsSequence(path.to_vec())];
    let mut list =
        vec![PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(AsPath { segments })];
    list.extend_from_slice(more);
    Attributes::new(next_hop, &list).unwrap()
}

/// A configuration of AS 64500 for AS 64501 that does not wait for long.
pub(crate) fn config() -> Config {
    let mut config = Config::new(64500, [10, 0, 0, 1].into(), 64501);
    config.timers.connect_retry = Duration::from_secs(1);
    config.timers.idle_hold = Duration::from_secs(1);
    config
}

/// With the shortest hold time that there is.
pub(crate) fn quick(config: &mut Config) {
    config.timers.hold = Duration::from_secs(3);
}

/// Routes of a neighbour that restarts stay for a minute.
pub(crate) fn graceful(config: &mut Config) {
    let time = Duration::from_secs(60);
    config.graceful_restart =
        Some(GracefulRestart { restart_time: time, stale_time: time, restarting: false });
}

/// Whether the hold timer has expired.
pub(crate) fn is_expiry(said: &NotificationMessage) -> bool {
    said.code == NotificationCode::HoldTimerExpired
}

/// Waits for an answer that holds, while nobody drives our side.
#[track_caller]
pub(crate) fn wait_for_answer(mut ask: impl FnMut() -> String, holds: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let answer = ask();
        if holds(&answer) {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A route server's two routes, one of each family, neither with its number in the path.
pub(crate) fn announce_both(peer: &mut Peer) {
    let more = [PathAttribute::Med(7), PathAttribute::Communities(vec![64_510 << 16 | 1])];
    let four = attributes("192.0.2.10".parse().unwrap(), &[64510, 4_200_000_000], &more);
    let six = attributes("2001:db8::10".parse().unwrap(), &[64510], &[]);
    peer.announce(prefix("10.1.0.0/24"), 0, &four);
    peer.announce(prefix("2001:db8:100::/48"), 0, &six);
}

/// Several paths to a prefix, both ways.
pub(crate) fn several_paths(config: &mut Config) {
    let both = FamilyConfig { add_path_receive: true, add_path_send: true, max_prefixes: None };
    config.set_family(Family::Ipv4, Some(both));
}

/// Announces three paths to 10.1.0.0/24, by way of 64511, 64512 and 64513.
pub(crate) fn announce_three_paths(peer: &mut Peer) {
    for path in 1..=3 {
        let route = attributes("192.0.2.10".parse().unwrap(), &[64500, 64510 + path], &[]);
        peer.announce(prefix("10.1.0.0/24"), path, &route);
    }
}

/// Takes both back.
pub(crate) fn withdraw_both(peer: &mut Peer) {
    peer.withdraw(prefix("10.1.0.0/24"), 0);
    peer.withdraw(prefix("2001:db8:100::/48"), 0);
}

/// A prefix as people write it.
pub(crate) fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    let length = length.parse().unwrap();
    match address.parse().unwrap() {
        IpAddr::V4(address) => Prefix::V4(rhumb_bgp::wire::Ipv4Prefix::new(address, length)),
        IpAddr::V6(address) => Prefix::V6(rhumb_bgp::wire::Ipv6Prefix::new(address, length)),
    }
}

/// For what happens soon, on however slow a machine.
const DEADLINE: Duration = Duration::from_secs(60);
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// As much as a slow neighbour may have before it.
const MAX_UNSENT: usize = 1 << 16;
