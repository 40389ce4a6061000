//! Properties for the fuzzer and for tests: whatever a neighbour sends, events and tables say the
//! same, and what was taken from it reaches the next neighbour unchanged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustbgpd_wire::{BgpRole, Prefix};

use crate::attributes::Attributes;
use crate::config::{Config, FamilyConfig, GracefulRestart};
use crate::event::Event;
use crate::family::Family;
use crate::session::{ConnectionId, Session, Side, State, Transmit};

/// Messages to a session. The first byte chooses how it is configured and whether the rest is raw;
/// otherwise each message follows without its marker: length of the body (two bytes), type, body.
pub fn bgp(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let choice = Choice(*choice);
    let mut couple = Couple::new(choice);
    let mut replayed = BTreeMap::new();
    for bytes in choice.messages(rest) {
        couple.hear(&bytes);
        couple.replay(&mut replayed);
    }
    for _ in 0..4 {
        if let Some(at) = couple.left.poll_timeout() {
            couple.now = couple.now.max(at);
            couple.left.handle_timeout(couple.now);
        }
        while couple.left.poll_transmit(couple.now).is_some() {}
        couple.replay(&mut replayed);
    }
    let table = |session: &Session| -> BTreeMap<(Prefix, u32), Attributes> {
        let of = |family| {
            session
                .routes_in(family)
                .map(|(prefix, path, attributes)| ((prefix, path), attributes.clone()))
        };
        Family::ALL.into_iter().flat_map(of).collect()
    };
    assert_eq!(replayed, table(&couple.left), "events and table say the same");
    hand_on(&replayed);
}

/// What was taken goes to another neighbour, and comes out as it went in.
fn hand_on(routes: &BTreeMap<(Prefix, u32), Attributes>) {
    let mut next = Couple::new(Choice(ADD_PATH));
    let now = next.now;
    let mut expected = BTreeMap::new();
    for ((prefix, path), attributes) in routes {
        let key = (*prefix, if matches!(prefix, Prefix::V4(_)) { *path } else { 0 });
        // Two routes to one prefix of IPv6 are one there: the last.
        expected.insert(key, attributes.clone());
        assert_eq!(next.left.announce(*prefix, *path, attributes, now), Ok(()));
    }
    next.pump();
    assert_eq!(next.right.state(), State::Established, "what is sent is sound");
    let too_long = next.left.counters().too_long;
    for ((prefix, path), attributes) in &expected {
        let there = next.right.route_in(*prefix, *path);
        assert!(
            there == Some(attributes) || (there.is_none() && too_long > 0),
            "{prefix:?}: {there:?}, {attributes:?}"
        );
    }
}

/// Which of the things that a session can do it does.
#[derive(Clone, Copy)]
struct Choice(u8);

const ADD_PATH: u8 = 1;
const GRACEFUL: u8 = 2;
const DISABLES: u8 = 4;
const CLIENT: u8 = 8;
const SERVER: u8 = 16;
const STANDARD_MESSAGES: u8 = 32;
const RAW: u8 = 128;

impl Choice {
    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    fn config(self, is_left: bool) -> Config {
        let (ours, theirs) = if is_left { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
        let mut config = Config::new(ours, [10, 0, 0, ours as u8].into(), theirs);
        config.passive = is_left;
        config.enforce_first_as = false;
        config.extended_messages = !self.has(STANDARD_MESSAGES);
        config.disable_broken_family = self.has(DISABLES);
        let paths = FamilyConfig {
            add_path_receive: self.has(ADD_PATH),
            add_path_send: self.has(ADD_PATH),
            max_prefixes: None,
        };
        config.set_family(Family::Ipv4, Some(paths));
        if self.has(GRACEFUL) {
            let time = Duration::from_secs(60);
            config.graceful_restart =
                Some(GracefulRestart { restart_time: time, stale_time: time, restarting: true });
        }
        config.role = match (self.has(CLIENT), self.has(SERVER)) {
            (true, false) => {
                Some(if is_left { BgpRole::RouteServerClient } else { BgpRole::RouteServer })
            }
            (false, true) => {
                Some(if is_left { BgpRole::RouteServer } else { BgpRole::RouteServerClient })
            }
            _ => None,
        };
        config
    }

    /// The messages in `rest`, whole.
    fn messages(self, mut rest: &[u8]) -> Vec<Vec<u8>> {
        if self.has(RAW) {
            return vec![rest.to_vec()];
        }
        let mut messages = Vec::new();
        while let [high, low, kind, tail @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
            let mut message = vec![0xff; 16];
            message.extend((length as u16).saturating_add(19).to_be_bytes());
            message.push(*kind);
            message.extend(&tail[..length]);
            messages.push(message);
            rest = &tail[length..];
        }
        messages
    }
}

/// Two sessions that are up.
struct Couple {
    left: Session,
    right: Session,
    ends: [ConnectionId; 2],
    now: Instant,
}

impl Couple {
    fn new(choice: Choice) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "some first instant; all others follow from it"
        )]
        let now = Instant::now();
        let session = |is_left| {
            Session::new(choice.config(is_left), 1).expect("invariant: the configuration is sound")
        };
        let (mut left, mut right) = (session(true), session(false));
        left.start(now);
        right.start(now);
        assert_eq!(right.poll_transmit(now), Some(Transmit::Connect));
        let ends = (left.connected(Side::Incoming, now), right.connected(Side::Outgoing, now));
        let (Some(one), Some(other)) = ends else { unreachable!("both wait for a connection") };
        let mut couple = Self { left, right, ends: [one, other], now };
        couple.pump();
        assert_eq!(
            (couple.left.state(), couple.right.state()),
            (State::Established, State::Established)
        );
        couple
    }

    fn pump(&mut self) {
        loop {
            let messages = [self.left.poll_transmit(self.now), self.right.poll_transmit(self.now)];
            if messages == [None, None] {
                return;
            }
            let [from_left, from_right] = messages;
            if let Some(Transmit::Send(_, bytes)) = from_left {
                self.right.handle_bytes(self.ends[1], &bytes, self.now);
            }
            if let Some(Transmit::Send(_, bytes)) = from_right {
                self.left.handle_bytes(self.ends[0], &bytes, self.now);
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.left.handle_bytes(self.ends[0], bytes, self.now);
        while self.left.poll_transmit(self.now).is_some() {}
    }

    fn replay(&mut self, table: &mut BTreeMap<(Prefix, u32), Attributes>) {
        while let Some(event) = self.left.poll_event() {
            match event {
                Event::Announced { prefix, path, attributes } => {
                    assert_ne!(
                        table.insert((prefix, path), attributes.clone()),
                        Some(attributes),
                        "nothing is said twice"
                    );
                }
                Event::Withdrawn { prefix, path } => {
                    assert!(table.remove(&(prefix, path)).is_some(), "what goes was there");
                }
                _ => {}
            }
        }
    }
}

const LEFT: u32 = 4_199_999_999;
const RIGHT: u32 = 4_199_999_998;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::Jitter;

    /// Messages of a real exchange, each with a few bytes changed.
    #[test]
    fn real_messages_with_errors_in_them_break_nothing() {
        let recording = include_bytes!("../tests/data/jinx-2015.mrt");
        let mut chance = Jitter::new(7);
        let mut draw = |below: usize| (chance.next() % below as u64) as usize;
        let mut rest = &recording[..];
        let mut cases = 0;
        while let Some(length) = rest
            .get(8..12)
            .map(|length| u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize)
        {
            let record = &rest[12..12 + length];
            rest = &rest[12 + length..];
            let Some(at) = record.windows(16).position(|window| window == [0xff; 16]) else {
                continue;
            };
            let body = &record[at + 19..];
            for _ in 0..8 {
                let mut data = vec![draw(128) as u8];
                for _ in 0..3 {
                    data.extend((body.len() as u16).to_be_bytes());
                    data.push(record[at + 18]);
                    data.extend(body);
                    let place = data.len() - 1 - draw(body.len());
                    data[place] ^= 1 << draw(8);
                }
                bgp(&data);
                cases += 1;
            }
        }
        assert!(cases > 1000, "{cases}");
    }
}
