//! Two sessions against each other in virtual time, over
//! connections that a test can hold back, cut and read.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test's world may fail, and begins at some instant"
)]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::{Duration, Instant};

use rhumb_bgp::wire::{
    AsPath, AsPathSegment, Ipv4Prefix, Ipv6Prefix, Origin, PathAttribute, Prefix,
};
use rhumb_bgp::{Attributes, Config, ConnectionId, Event, NextHop, Session, Side, Transmit};

/// Two neighbours: end 0 is AS 64500, end 1 is AS 64501.
pub(crate) struct Pair {
    pub(crate) sessions: [Session; 2],
    /// What each said since it was last asked.
    pub(crate) events: [Vec<Event>; 2],
    pub(crate) now: Instant,
    /// Attempts to connect succeed at once.
    pub(crate) connects: bool,
    /// Attempts that wait for the test.
    pub(crate) attempts: [bool; 2],
    /// Nothing that this end sends arrives.
    pub(crate) mute: [bool; 2],
    /// All messages that this end has sent.
    pub(crate) sent: [Vec<Vec<u8>>; 2],
    links: Vec<Link>,
}

struct Link {
    opener: usize,
    /// The connection as each end names it; nothing once that end has it no more.
    ends: [Option<ConnectionId>; 2],
}

impl Pair {
    pub(crate) fn new(change: impl FnOnce(&mut Config, &mut Config)) -> Self {
        let mut left = Config::new(64500, [10, 0, 0, 1].into(), 64501);
        let mut right = Config::new(64501, [10, 0, 0, 2].into(), 64500);
        change(&mut left, &mut right);
        Self {
            sessions: [Session::new(left, 1).unwrap(), Session::new(right, 2).unwrap()],
            events: [Vec::new(), Vec::new()],
            now: Instant::now(),
            connects: true,
            attempts: [false, false],
            mute: [false, false],
            sent: [Vec::new(), Vec::new()],
            links: Vec::new(),
        }
    }

    /// Both are up; end 0 has connected.
    pub(crate) fn established(change: impl FnOnce(&mut Config, &mut Config)) -> Self {
        let mut pair = Self::new(|left, right| {
            right.passive = true;
            change(left, right);
        });
        pair.start();
        assert!(
            pair.events.iter().all(|events| matches!(events.first(), Some(Event::Up(_)))),
            "{:?}",
            pair.events
        );
        pair
    }

    pub(crate) fn start(&mut self) {
        let now = self.now;
        self.sessions.iter_mut().for_each(|session| session.start(now));
        self.pump();
    }

    /// What one end said since it was last asked.
    pub(crate) fn take(&mut self, end: usize) -> Vec<Event> {
        std::mem::take(&mut self.events[end])
    }

    /// An attempt that waits succeeds. The connection's
    /// number at both ends, as far as they take it.
    pub(crate) fn connect(&mut self, end: usize) -> [Option<ConnectionId>; 2] {
        self.attempts[end] = false;
        let mut ends = [None, None];
        ends[end] = self.sessions[end].connected(Side::Outgoing, self.now);
        if ends[end].is_some() {
            ends[1 - end] = self.sessions[1 - end].connected(Side::Incoming, self.now);
            if ends[1 - end].is_none() {
                self.sessions[end].disconnected(ends[end].unwrap(), self.now);
                ends[end] = None;
            }
            self.links.push(Link { opener: end, ends });
        }
        ends
    }

    /// An attempt that waits fails.
    pub(crate) fn refuse(&mut self, end: usize) {
        self.attempts[end] = false;
        self.sessions[end].connect_failed(self.now);
    }

    /// All connections break; each end hears of it.
    pub(crate) fn cut(&mut self) {
        for link in std::mem::take(&mut self.links) {
            for (session, connection) in self.sessions.iter_mut().zip(link.ends) {
                if let Some(connection) = connection {
                    session.disconnected(connection, self.now);
                }
            }
        }
        self.pump();
    }

    /// This end hears these bytes on its first connection, as if the other had sent them.
    pub(crate) fn hear(&mut self, end: usize, bytes: &[u8]) {
        let connection = self.links.iter().find_map(|link| link.ends[end]).unwrap();
        self.sessions[end].handle_bytes(connection, bytes, self.now);
        self.pump();
    }

    /// The same, and nothing else happens.
    pub(crate) fn hear_without_pump(&mut self, end: usize, bytes: &[u8], now: Instant) {
        let connection = self.links.iter().find_map(|link| link.ends[end]).unwrap();
        self.sessions[end].handle_bytes(connection, bytes, now);
    }

    /// How many connections there are that each end has opened.
    pub(crate) fn connections_by(&self) -> [usize; 2] {
        [0, 1].map(|end| {
            self.links
                .iter()
                .filter(|link| link.opener == end && link.ends.iter().all(Option::is_some))
                .count()
        })
    }

    /// At most so many messages of one end arrive.
    pub(crate) fn deliver(&mut self, end: usize, messages: usize) {
        for _ in 0..messages {
            let Some(transmit) = self.sessions[end].poll_transmit(self.now) else { return };
            self.carry(end, transmit);
        }
    }

    /// Until there is nothing to do at this instant.
    pub(crate) fn pump(&mut self) {
        loop {
            let mut is_quiet = true;
            for end in 0..2 {
                while let Some(transmit) = self.sessions[end].poll_transmit(self.now) {
                    is_quiet = false;
                    self.carry(end, transmit);
                }
                while let Some(event) = self.sessions[end].poll_event() {
                    self.events[end].push(event);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Time passes; every timer fires at its time.
    pub(crate) fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.pump();
            let next = self.sessions.iter().filter_map(Session::poll_timeout).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = next.max(self.now);
            for session in &mut self.sessions {
                if session.poll_timeout().is_some_and(|at| at <= self.now) {
                    session.handle_timeout(self.now);
                }
            }
        }
        self.now = until;
        self.pump();
    }

    fn carry(&mut self, end: usize, transmit: Transmit) {
        match transmit {
            Transmit::Connect => {
                self.attempts[end] = true;
                if self.connects {
                    self.connect(end);
                }
            }
            Transmit::Send(connection, bytes) => {
                self.sent[end].push(bytes.to_vec());
                let link = self.links.iter().find(|link| link.ends[end] == Some(connection));
                let other = link.and_then(|link| link.ends[1 - end]).filter(|_| !self.mute[end]);
                if let Some(other) = other {
                    // In two pieces: a message need not come as a whole.
                    let (head, tail) = bytes.split_at(bytes.len() / 2);
                    self.sessions[1 - end].handle_bytes(other, head, self.now);
                    self.sessions[1 - end].handle_bytes(other, tail, self.now);
                }
            }
            Transmit::Close(connection) => {
                let link = self.links.iter_mut().find(|link| link.ends[end] == Some(connection));
                let other = link.and_then(|link| {
                    link.ends[end] = None;
                    link.ends[1 - end].take()
                });
                if let Some(other) = other {
                    self.sessions[1 - end].disconnected(other, self.now);
                }
            }
        }
    }
}

/// An IPv4 prefix out of `10.0.0.0/8`: a /24 by number.
pub(crate) fn v4(number: u16) -> Prefix {
    let [high, low] = number.to_be_bytes();
    Prefix::V4(Ipv4Prefix::new([10, high, low, 0].into(), 24))
}

/// An IPv6 prefix: a /48 by number.
pub(crate) fn v6(number: u16) -> Prefix {
    Prefix::V6(Ipv6Prefix::new([0x2001, 0xdb8, number, 0, 0, 0, 0, 0].into(), 48))
}

/// Attributes of a route of IPv4 with this path.
pub(crate) fn via_v4(path: &[u32]) -> Attributes {
    Attributes::new(NextHop::V4([192, 0, 2, 1].into()), &basic(path)).unwrap()
}

/// Attributes of a route of IPv6 with this path.
pub(crate) fn via_v6(path: &[u32]) -> Attributes {
    Attributes::new(NextHop::V6("2001:db8::1".parse().unwrap(), None), &basic(path)).unwrap()
}

/// Origin and path.
pub(crate) fn basic(path: &[u32]) -> Vec<PathAttribute> {
    let segments = vec![AsPathSegment::AsSequence(path.to_vec())];
    vec![PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(AsPath { segments })]
}
