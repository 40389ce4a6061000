//! What must never happen, watched on every wire and at every node.
//!
//! | what is watched | rule |
//! |---|---|
//! | messages at nodes | sent by the name they claim, to this name, unaltered, once, and not after it left |
//! | packet numbers of sealed datagrams | each once in one sender's lane, and about in order: no nonce is used twice |
//! | bytes to an address that has not proven itself | no more than came from there |
//! | all bytes | no name of a station, and no key that would tell one, in the clear |
//! | timers | a station is not woken again and again for nothing |
//! | all events | no more in a second than the messages sent account for |
//!
//! Whether an address is proven is known here by the truth, not by tokens: somebody who was sent
//! something there has answered. Keys are not seen here, so a lane is told by sender, address and
//! session index; an index that a restarted receiver gives out again begins anew, at zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rhumb_wire::datagram::RecordHeader;
use rhumb_wire::{Metadata, Name};

use crate::StationId;
use crate::network::{Flight, is_record};
use crate::random::{Random, mix};

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A node received what its source did not send to it, or not like this.
    NotSent {
        /// Where it arrived.
        at: StationId,
        /// The claimed source.
        from: Name,
    },
    /// A message arrived twice.
    DeliveredTwice {
        /// Where the second one arrived.
        at: StationId,
        /// Which message.
        number: u64,
    },
    /// A node that left received something.
    DeliveredAfterLeaving {
        /// Which node.
        at: StationId,
    },
    /// A packet number was used twice, or long after it should have been.
    NumberRepeated {
        /// Whose.
        sender: StationId,
        /// The lane's index at the receiver.
        index: u32,
        /// The packet number.
        number: u64,
    },
    /// More bytes went to an unproven address than came from there.
    Amplified {
        /// Who sent them.
        sender: StationId,
        /// Where to.
        to: SocketAddr,
        /// Bytes that came from there.
        received: u64,
        /// Bytes that went there.
        sent: u64,
    },
    /// A name or a public key went over a wire in the clear.
    NameInClear {
        /// Who sent it.
        sender: StationId,
        /// Whose it is.
        whose: StationId,
    },
    /// A table has more entries than its bound.
    TableOverflow {
        /// Whose.
        station: StationId,
        /// Which.
        table: &'static str,
        /// Entries.
        len: usize,
        /// The bound.
        bound: usize,
    },
    /// More happens in a second than anybody asked for: datagrams beget datagrams.
    Storm {
        /// Events in one virtual second.
        events: u64,
    },
    /// A station wants to be woken at once, again and again.
    NeverRests {
        /// Which.
        station: StationId,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A message as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The name that sent it.
    pub from: Name,
    /// The name it is for.
    pub to: Name,
    /// Bytes of its body.
    pub len: usize,
    /// When it was sent.
    pub sent_at: Duration,
    /// When it arrived.
    pub delivered_at: Option<Duration>,
}

/// What one address has from a station, and gave to it.
#[derive(Debug, Default)]
struct Balance {
    received: u64,
    sent: u64,
    /// The station began.
    initiated: bool,
    /// Something the station sent was received there.
    reached: bool,
    /// And somebody there answered.
    proven: bool,
}

/// The packet numbers of a lane. A switch seals its own PDUs before or after those that it forwards
/// in the same batch, so they leave only about in order.
#[derive(Debug)]
struct LaneSeen {
    recent: BTreeSet<u64>,
    /// All below this count as seen.
    floor: u64,
    receiver_incarnation: u32,
}

/// A process: a station in one of its incarnations.
pub(crate) type Process = (StationId, u32);

#[derive(Default)]
pub(crate) struct Witness {
    pub(crate) messages: Vec<Message>,
    lanes: BTreeMap<(Process, SocketAddr, u32), LaneSeen>,
    balances: BTreeMap<(Process, SocketAddr), Balance>,
    telltales: Telltales,
    digest: u64,
}

impl Witness {
    /// Names that must not be seen.
    pub(crate) fn keep_secret(&mut self, whose: StationId, name: Name, metadata: &Metadata) {
        self.telltales.add(whose, &name.0);
        // Certificates hold the point in another form; the coordinate after the sign is in both.
        let key = metadata.key.as_bytes();
        self.telltales.add(whose, &key[key.len() - 32..]);
    }

    /// The number and the body of a new message.
    pub(crate) fn write_message(&mut self, message: Message) -> (u64, Vec<u8>) {
        let number = self.messages.len() as u64;
        self.messages.push(message);
        (number, body(number, message.len))
    }

    /// A message that could not be handed to its node.
    pub(crate) fn take_back(&mut self, number: u64) {
        debug_assert_eq!(number + 1, self.messages.len() as u64);
        self.messages.pop();
    }

    /// Checks what arrived at `to`, and returns its number.
    pub(crate) fn receive(
        &mut self,
        at: StationId,
        to: Name,
        from: Name,
        bytes: &[u8],
        now: Duration,
    ) -> Result<u64, Violation> {
        let not_sent = Violation::NotSent { at, from };
        let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
        let sent = number.and_then(|n| Some((n, self.messages.get_mut(usize::try_from(n).ok()?)?)));
        let Some((number, message)) = sent else { return Err(not_sent) };
        if message.from != from || message.to != to || body(number, message.len) != bytes {
            return Err(not_sent);
        }
        if message.delivered_at.replace(now).is_some() {
            return Err(Violation::DeliveredTwice { at, number });
        }
        self.note(&[6, now.as_nanos() as u64, at.0 as u64, number]);
        Ok(number)
    }

    /// Checks a datagram as it leaves its sender.
    /// `receiver_incarnation` is that of whoever is at the address now.
    pub(crate) fn sent(
        &mut self,
        sender: Process,
        flight: &Flight,
        receiver_incarnation: u32,
        now: Duration,
    ) -> Result<(), Violation> {
        self.note_flight(flight, now);
        if let Some(whose) = self.telltales.seen_in(&flight.bytes) {
            return Err(Violation::NameInClear { sender: sender.0, whose });
        }
        if is_record(&flight.bytes) {
            self.check_number(sender, flight, receiver_incarnation)?;
        }
        let balance = self.balances.entry((sender, flight.to)).or_default();
        balance.initiated |= begins_handshake(&flight.bytes);
        balance.sent += flight.bytes.len() as u64;
        let &mut Balance { received, sent, initiated, proven, .. } = balance;
        if !initiated && !proven && sent > received {
            return Err(Violation::Amplified { sender: sender.0, to: flight.to, received, sent });
        }
        Ok(())
    }

    /// Notes that a datagram reached the socket of `receiver`; `sender` is
    /// the process that holds the address it claims.
    pub(crate) fn arrived(&mut self, receiver: Process, sender: Option<Process>, flight: &Flight) {
        let balance = self.balances.entry((receiver, flight.from)).or_default();
        balance.received += flight.bytes.len() as u64;
        balance.proven |= flight.genuine && balance.reached;
        if let Some(sender) = sender.filter(|_| flight.genuine) {
            self.balances.entry((sender, flight.to)).or_default().reached = true;
        }
    }

    /// A number that is the same for two runs only if the same happened at the same times.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn check_number(
        &mut self,
        sender: Process,
        flight: &Flight,
        receiver_incarnation: u32,
    ) -> Result<(), Violation> {
        let Ok(header) = RecordHeader::parse(&flight.bytes) else { return Ok(()) };
        let (index, number) = (header.index.as_u32(), header.counter.packet_number());
        let fresh = || LaneSeen { recent: BTreeSet::new(), floor: 0, receiver_incarnation };
        let lane = self.lanes.entry((sender, flight.to, index)).or_insert_with(fresh);
        if number == 0 && receiver_incarnation > lane.receiver_incarnation {
            *lane = fresh();
        }
        if number < lane.floor || !lane.recent.insert(number) {
            return Err(Violation::NumberRepeated { sender: sender.0, index, number });
        }
        if lane.recent.len() > DISORDER {
            lane.floor = lane.recent.pop_first().map_or(lane.floor, |lowest| lowest + 1);
        }
        Ok(())
    }

    fn note_flight(&mut self, flight: &Flight, now: Duration) {
        let kind = u64::from(flight.bytes.first().copied().unwrap_or(0) >> 4);
        let address = |address: SocketAddr| match address {
            SocketAddr::V4(v4) => u64::from(v4.ip().to_bits()) << 16 | u64::from(v4.port()),
            SocketAddr::V6(v6) => v6.ip().to_bits() as u64 ^ u64::from(v6.port()) << 48,
        };
        // The lengths of handshake datagrams depend on the randomness in them.
        let len = if is_record(&flight.bytes) { flight.bytes.len() as u64 } else { 0 };
        let (from, to) = (address(flight.from), address(flight.to));
        self.note(&[kind, now.as_nanos() as u64, from, to, len]);
    }

    fn note(&mut self, what: &[u64]) {
        for number in what {
            self.digest = mix(self.digest.rotate_left(5) ^ number);
        }
    }
}

/// The body of a message follows from its number and its
/// length, so that no other message can pass for it.
fn body(number: u64, len: usize) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    let mut filling = Random::new(number);
    while body.len() < len {
        body.extend_from_slice(&filling.bytes());
    }
    body.truncate(len.max(LEAST_BODY_LEN));
    body
}

/// Whether a datagram is the first of its sender's own
/// handshake: an initial, or a hello to a foreign stack.
fn begins_handshake(datagram: &[u8]) -> bool {
    datagram.first() == Some(&0x90)
        || (datagram.first() == Some(&22) && datagram.get(13) == Some(&1))
}

/// Byte strings that would give a name away, found in one pass over a datagram.
struct Telltales {
    /// Which pairs of bytes any of them begins with.
    beginnings: Box<[bool; 1 << 16]>,
    /// Eight bytes each: by chance they are seen once in 10^19 places.
    parts: BTreeMap<[u8; 8], StationId>,
}

impl Default for Telltales {
    fn default() -> Self {
        Self { beginnings: Box::new([false; 1 << 16]), parts: BTreeMap::new() }
    }
}

impl Telltales {
    /// Watches for the beginning and the middle of 32 bytes.
    fn add(&mut self, whose: StationId, secret: &[u8]) {
        for part in secret.chunks_exact(8).step_by(2) {
            let part: [u8; 8] = part.try_into().expect("invariant: chunks of eight");
            self.beginnings[usize::from(u16::from_be_bytes([part[0], part[1]]))] = true;
            self.parts.insert(part, whose);
        }
    }

    fn seen_in(&self, datagram: &[u8]) -> Option<StationId> {
        let suspicious =
            |part: &&[u8]| self.beginnings[usize::from(u16::from_be_bytes([part[0], part[1]]))];
        datagram.windows(8).filter(suspicious).find_map(|part| self.parts.get(part).copied())
    }
}

/// How many packet numbers may overtake another of their lane: what one batch brings about.
const DISORDER: usize = 512;
/// A body holds its message's number.
pub const LEAST_BODY_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use rhumb_wire::Role;

    const S: Process = (StationId(0), 1);
    const NOW: Duration = Duration::from_secs(1);

    fn flight(bytes: Vec<u8>) -> Flight {
        let from = "10.0.0.1:1".parse().unwrap();
        let to = "10.0.0.2:2".parse().unwrap();
        Flight { from, to, bytes, genuine: true }
    }

    fn record(index: u32, counter: u64) -> Flight {
        let mut bytes = (0x8000_0000 | index).to_be_bytes().to_vec();
        bytes.extend(counter.to_be_bytes());
        bytes.extend([0; 16]);
        flight(bytes)
    }

    /// A witness to whom the address of `flight` is proven.
    fn trusting() -> Witness {
        let mut witness = Witness::default();
        witness.balances.entry((S, flight(Vec::new()).to)).or_default().proven = true;
        witness
    }

    #[test]
    fn a_packet_number_that_is_used_twice_is_seen() {
        let mut witness = trusting();
        for (index, counter) in [(1, 0), (1, 2), (2, 0), (1, 1), (1, 5)] {
            assert_eq!(witness.sent(S, &record(index, counter), 1, NOW), Ok(()));
        }
        let repeated = Violation::NumberRepeated { sender: S.0, index: 1, number: 5 };
        assert_eq!(witness.sent(S, &record(1, 5), 1, NOW), Err(repeated));
        // Another process gave out the same index.
        assert_eq!(witness.sent(S, &record(2, 0), 2, NOW), Ok(()));
        assert!(witness.sent(S, &record(2, 0), 2, NOW).is_err());
        for number in 6..=5 + DISORDER as u64 {
            assert_eq!(witness.sent(S, &record(1, number), 2, NOW), Ok(()));
        }
        assert!(witness.sent(S, &record(1, 3), 2, NOW).is_err(), "too late to tell");
    }

    #[test]
    fn an_answer_larger_than_its_cause_is_seen_until_the_address_is_proven() {
        let mut witness = Witness::default();
        let answer = flight(vec![0xA0; 28]);
        let cause = |len| Flight { from: answer.to, to: answer.from, ..flight(vec![0x90; len]) };
        witness.arrived(S, None, &cause(27));
        assert!(witness.sent(S, &answer, 0, NOW).is_err());
        let mut witness = Witness::default();
        witness.arrived(S, None, &cause(28));
        assert_eq!(witness.sent(S, &answer, 0, NOW), Ok(()));
        // That it was received is not yet an answer.
        witness.arrived((StationId(1), 1), Some(S), &answer);
        assert!(witness.sent(S, &answer, 0, NOW).is_err());
        witness.arrived(S, None, &cause(1));
        assert_eq!(witness.sent(S, &flight(vec![22; 1000]), 0, NOW), Ok(()));
    }

    #[test]
    fn names_and_keys_are_seen_wherever_they_stand() {
        let identity = key::identity(Role::Node, 5, &mut Random::new(1));
        let mut witness = trusting();
        witness.keep_secret(StationId(3), identity.name(), identity.metadata());
        assert_eq!(witness.sent(S, &flight(vec![22; 500]), 0, NOW), Ok(()));
        let seen = Err(Violation::NameInClear { sender: S.0, whose: StationId(3) });
        let point = identity.metadata().key.as_bytes()[1..].to_vec();
        for secret in [identity.name().0.to_vec(), point] {
            for at in [0, 1, 77] {
                let mut bytes = vec![22; at];
                bytes.extend_from_slice(&secret);
                assert_eq!(witness.sent(S, &flight(bytes), 0, NOW), seen);
            }
        }
    }

    #[test]
    fn messages_are_believed_once_and_only_as_they_were_sent() {
        let mut witness = Witness::default();
        let (from, to) = (Name([1; 32]), Name([2; 32]));
        let message = Message { from, to, len: 100, sent_at: NOW, delivered_at: None };
        let (_, body) = witness.write_message(message);
        let at = StationId(1);
        let mut altered = body.clone();
        altered[99] ^= 1;
        let not_sent = |from| Err(Violation::NotSent { at, from });
        assert_eq!(witness.receive(at, to, from, &altered, NOW), not_sent(from));
        assert_eq!(witness.receive(at, to, to, &body, NOW), not_sent(to));
        assert_eq!(witness.receive(at, from, from, &body, NOW), not_sent(from));
        assert_eq!(witness.receive(at, to, from, b"short", NOW), not_sent(from));
        assert_eq!(witness.receive(at, to, from, &body, NOW), Ok(0));
        let twice = Err(Violation::DeliveredTwice { at, number: 0 });
        assert_eq!(witness.receive(at, to, from, &body, NOW), twice);
    }
}
