//! Properties for the fuzzer and for tests: whatever arrives in whatever order, nothing panics,
//! nobody gains bytes, and no record opens that was not sealed.
//!
//! Structure-aware, because random bytes stop at the first check: input bytes choose operations,
//! and real datagrams of a pair of endpoints are what gets altered.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rhumb_trust::Identity;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex};
use rhumb_wire::{Batch, Role};

use crate::hello::{self, Hello};
use crate::keys::ExportedKeys;
use crate::lane::{ReceiveLane, SendLane};
use crate::{Cipher, Config, EPOCH_LIFETIME, Endpoint, LinkError, WatchPeers};

/// Sequences of operations on two endpoints and some strangers' addresses.
///
/// # Panics
/// When a property does not hold.
pub fn endpoint(data: &[u8]) {
    let mut world = World::new().expect("two identities make two endpoints");
    let mut input = data.iter().copied();
    while let Some(operation) = input.next() {
        let mut next = || input.next().unwrap_or(0);
        match operation % 8 {
            0 => world.connect(next()),
            1 => world.deliver_next(),
            2 => world.deliver_altered(next(), next(), next()),
            3 => world.deliver_from_stranger(next(), next(), next()),
            4 => {
                let count = usize::from(next());
                let bytes: Vec<u8> = input.by_ref().take(count).collect();
                world.deliver_made_up(operation, &bytes);
            }
            5 => world.wait(Duration::from_millis(u64::from(next()) * 40)),
            6 => world.lose_next(),
            _ => world.send_and_close(next()),
        }
    }
    for _ in 0..100 {
        world.deliver_next();
    }
    world.wait(Duration::from_secs(60));
}

/// A foreign peer's hello: the first hello that is written from it is one.
///
/// # Panics
/// When a property does not hold.
pub fn hello(data: &[u8]) {
    let Ok(hello) = Hello::parse(data) else { return };
    for first in hello.firsts() {
        let datagram = hello::first_record(&first);
        let first = Hello::parse(&datagram).expect("it is a hello");
        assert_eq!((first.version, first.random()), (hello.version, hello.random()));
        assert!(first.cookie().is_none() && hello::is_first(&datagram));
    }
    let _ = (hello.suite(&[0x1301]), hello.has_share_of(&[23]));
}

/// One lane: sealed records, altered or not, in any order and epoch.
///
/// # Panics
/// When a property does not hold.
pub fn record(data: &[u8]) {
    let start = *START;
    let keys = ExportedKeys::new(&[7; 88]).expect("an export has 88 bytes");
    let [secret, ..] = keys.lane_secrets(true).0;
    let [same, ..] = keys.lane_secrets(false).1;
    let index = SessionIndex::new(9).expect("a small index");
    let mut sender = SendLane::new(Cipher::Aes256Gcm, secret, index, start);
    let mut receiver = ReceiveLane::new(Cipher::Aes256Gcm, same, start);
    let mut now = start;
    let mut sealed: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut opened = 0;
    for operation in data.chunks(4) {
        let byte = |at: usize| operation.get(at).copied().unwrap_or(0);
        match byte(0) % 4 {
            0 => {
                let mut buffer = vec![byte(1); RECORD_OVERHEAD + usize::from(byte(2))];
                sender.seal(RecordKind::Pdu, &mut buffer, now).expect("far from exhausted");
                sealed.push((buffer, false));
            }
            1 => now += EPOCH_LIFETIME,
            choice => {
                let Some(place) = usize::from(byte(1)).checked_rem(sealed.len()) else { continue };
                let (original, was_opened) = &mut sealed[place];
                let mut bytes = original.clone();
                let at = usize::from(byte(2)) % bytes.len();
                // The receiver's index is read by whoever
                // finds the lane, and sealed as clear bytes.
                let altered = choice == 3 && byte(3) != 0;
                if altered {
                    bytes[at] ^= byte(3);
                }
                let Ok(header) = RecordHeader::parse(&bytes) else { continue };
                let result = receiver.open(header, &mut bytes, now);
                assert!(!(altered && result.is_ok()), "an altered record was opened");
                assert!(!(*was_opened && result.is_ok()), "a record was opened twice");
                if result.is_ok() {
                    *was_opened = true;
                    opened += 1;
                }
            }
        }
    }
    assert!(opened <= sealed.len());
}

struct World {
    now: Instant,
    hosts: [Endpoint; 2],
    in_flight: VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// What honest hosts have sent so far, for altering and replaying.
    seen: Vec<Vec<u8>>,
    /// Bytes from, and to, each stranger.
    strangers: [(usize, usize); STRANGERS],
}

impl World {
    fn new() -> Result<Self, LinkError> {
        let now = *START;
        let endpoint = |host: usize| {
            let watch_peers = if host == 0 { WatchPeers::Everybody } else { WatchPeers::Nobody };
            let config = Config { watch_peers, ..Config::default() };
            Endpoint::new(Arc::clone(&IDENTITIES[host]), config, [host as u8; 32], now)
        };
        Ok(Self {
            now,
            hosts: [endpoint(0)?, endpoint(1)?],
            in_flight: VecDeque::new(),
            seen: Vec::new(),
            strangers: [(0, 0); STRANGERS],
        })
    }

    fn connect(&mut self, from: u8) {
        let from = usize::from(from) % 2;
        self.hosts[from].connect(address(1 - from), None, self.now);
        self.collect(from);
    }

    fn deliver_next(&mut self) {
        if let Some((from, to, bytes)) = self.in_flight.pop_front() {
            self.deliver(from, to, &bytes);
        }
    }

    fn lose_next(&mut self) {
        self.in_flight.pop_front();
    }

    /// The next datagram arrives with a byte changed, and perhaps once more.
    fn deliver_altered(&mut self, at: u8, change: u8, twice: u8) {
        let Some((from, to, mut bytes)) = self.in_flight.pop_front() else { return };
        if twice % 2 == 1 {
            self.in_flight.push_back((from, to, bytes.clone()));
        }
        // Mostly headers, where the decisions are made.
        let place = usize::from(at) % bytes.len();
        bytes[place] ^= change;
        self.deliver(from, to, &bytes);
    }

    /// A stranger repeats, altered or not, what an honest host once sent.
    fn deliver_from_stranger(&mut self, which: u8, at: u8, change: u8) {
        let Some(place) = usize::from(which).checked_rem(self.seen.len()) else { return };
        let mut bytes = self.seen[place].clone();
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= change;
        let stranger = usize::from(which) % STRANGERS;
        self.strangers[stranger].0 += bytes.len();
        self.deliver(address(2 + stranger), address(usize::from(at as u8 % 2)), &bytes);
    }

    /// Made-up bytes come as from an honest host or a stranger.
    fn deliver_made_up(&mut self, operation: u8, bytes: &[u8]) {
        let from = usize::from(operation >> 3) % (2 + STRANGERS);
        if from >= 2 {
            self.strangers[from - 2].0 += bytes.len();
        }
        let to = usize::from(operation >> 7);
        if from != to {
            self.deliver(address(from), address(to), bytes);
        }
    }

    fn send_and_close(&mut self, choice: u8) {
        let host = usize::from(choice) % 2;
        let session = self.hosts[host].sessions().map(|(id, _)| id).next();
        let Some(session) = session else { return };
        let mut buffer = vec![0; RECORD_OVERHEAD + usize::from(choice)];
        if let Ok(to) = self.hosts[host].seal(session, &mut buffer, self.now) {
            self.in_flight.push_back((address(host), to, buffer));
        }
        if choice > 250 {
            self.hosts[host].close(session, self.now);
            self.collect(host);
        }
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        for host in 0..2 {
            let mut looks = 0;
            while let Some(at) = self.hosts[host].poll_timeout().filter(|at| *at <= end) {
                looks += 1;
                assert!(looks < MAX_LOOKS, "an endpoint that is never done");
                self.now = self.now.max(at);
                self.hosts[host].handle_timeout(self.now);
                self.collect(host);
            }
        }
        self.now = end;
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let Some(host) = (0..2).find(|host| address(*host) == to) else { return };
        let mut copy = bytes.to_vec();
        let result = match Datagram::parse(bytes) {
            Ok(Datagram::Record(_)) => {
                self.hosts[host].open(from, &mut copy, self.now).map(|opened| {
                    assert!(opened.plaintext.end <= copy.len());
                })
            }
            Ok(datagram) => self.hosts[host].handle_handshake(from, datagram, self.now),
            Err(_) => return,
        };
        let counted: u64 = self.hosts[host].drops().iter().map(|(_, count)| count).sum();
        assert!(result.is_ok() || counted > 0, "a drop that is not counted");
        self.collect(host);
    }

    /// Takes what a host sends; what goes to strangers is weighed.
    fn collect(&mut self, host: usize) {
        let mut batch = Batch::new();
        self.hosts[host].poll_transmit(&mut batch);
        while self.hosts[host].poll_event().is_some() {}
        // A stranger who passed on a challenge and its answer is
        // where the peer is, as far as anybody can tell.
        let reached: Vec<_> = self.hosts[host].sessions().map(|(_, peer)| peer.address).collect();
        for (to, bytes) in batch.iter() {
            if reached.contains(&to) {
                self.in_flight.push_back((address(host), to, bytes.to_vec()));
            } else if let Some(stranger) = (0..STRANGERS).find(|which| address(2 + which) == to) {
                let (received, sent) = &mut self.strangers[stranger];
                *sent += bytes.len();
                assert!(*sent <= *received, "{sent} bytes to a stranger for {received}");
            } else {
                self.in_flight.push_back((address(host), to, bytes.to_vec()));
            }
            self.seen.push(bytes.to_vec());
        }
    }
}

/// 0 and 1 are the endpoints; strangers follow.
fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number as u8 + 1], 4000))
}

const STRANGERS: usize = 3;
/// More than a minute's timers of a few exchanges and a session can be.
const MAX_LOOKS: usize = 2000;

static IDENTITIES: LazyLock<[Arc<Identity>; 2]> = LazyLock::new(|| {
    [1, 2].map(|created_s| {
        Arc::new(Identity::generate(Role::Node, created_s).expect("the library makes keys"))
    })
});

#[expect(clippy::disallowed_methods, reason = "a virtual clock begins somewhere")]
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn no_sequence_breaks_an_endpoint(data in prop::collection::vec(any::<u8>(), 0..400)) {
            endpoint(&data);
        }

        #[test]
        fn no_sequence_breaks_a_lane(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            record(&data);
        }
    }

    #[test]
    fn the_operations_reach_a_session() {
        let mut world = World::new().unwrap();
        world.connect(0);
        for _ in 0..50 {
            world.deliver_next();
        }
        assert_eq!(world.hosts[0].sessions().count() + world.hosts[1].sessions().count(), 2);
    }
}
