//! The table of addresses and names, and what becomes of each packet.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use rhumb_end::{Admits, Halves};
use rhumb_wire::Name;
use rhumb_wire::payload::Half;
use serde::Serialize;

use super::flows::Flows;
use super::icmp::{self, Trouble};
use super::packet::Packet;
use super::runs::{self, Arriving, Part, PartTrouble, Piece};
use super::sites::{Sites, Way};
use super::{DropReason, Drops, LEAST_MTU};

/// Where a packet of this host's goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outgoing {
    /// To this name.
    To(Name),
    /// To a name with this address, which nobody has told.
    Unknown(Ipv6Addr),
    /// Into a network that nobody has said to have behind him: its sender is to be told.
    Nowhere,
    /// Nowhere; it was counted.
    Dropped,
}

/// How a packet travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// As one datagram, as it stands.
    Whole,
    /// As two.
    Halves([Vec<u8>; 2]),
    /// Not at all; this is for its sender, if there is anything to say.
    TooBig(Option<Vec<u8>>),
}

/// What this host gets of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrived<'a> {
    /// A packet.
    Packet(Cow<'a, [u8]>),
    /// A piece of a run of segments.
    Piece(Piece<'a>),
}

/// Packets and bytes. A part of a run counts as a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
}

/// Everything that is known of addresses, and counted.
#[derive(Debug)]
pub struct Overlay {
    own: Ipv6Addr,
    allows: Admits,
    known: HashMap<Ipv6Addr, Known>,
    sites: Sites,
    /// Names that this host has sent to, which are let answer.
    asked: HashSet<Name>,
    has_new_senders: bool,
    flows: Flows,
    drops: Drops,
    sent: Counted,
    received: Counted,
    /// Messages about trouble that may be made at once.
    allowance: u32,
    refilled_at: Instant,
}

/// A name whose address is known.
#[derive(Debug)]
struct Known {
    name: Name,
    /// It was given, and not merely seen: it stays.
    is_given: bool,
    /// This host has sent something to it.
    is_sent_to: bool,
    used_at: Instant,
    halves: Halves,
    arriving: Arriving,
    /// The number of the next run that goes to it.
    next_run: u16,
}

impl Overlay {
    /// For the node called `own`. Who is allowed may begin to send packets to this host.
    pub fn new(own: Name, allows: Admits, now: Instant) -> Self {
        let given: Vec<Name> = match &allows {
            Admits::Everybody => Vec::new(),
            Admits::Chosen { names, .. } => names.iter().copied().collect(),
        };
        let mut overlay = Self {
            own: own.address(),
            allows,
            known: HashMap::new(),
            sites: Sites::default(),
            asked: HashSet::new(),
            has_new_senders: false,
            flows: Flows::new(now),
            drops: Drops::default(),
            sent: Counted::default(),
            received: Counted::default(),
            allowance: MESSAGES_A_SECOND,
            refilled_at: now,
        };
        for name in given {
            overlay.know(name, now);
        }
        overlay
    }

    /// Has networks lie behind names, and behind this host.
    #[must_use]
    pub fn with_sites(mut self, sites: Sites, now: Instant) -> Self {
        for (_, name) in sites.accepted() {
            self.learn(*name, true, now);
        }
        Self { sites, ..self }
    }

    /// What lies behind names, and behind this host.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// A name says what lies behind it: see [`Sites::hear`].
    pub fn hear(&mut self, name: Name, networks: Vec<IpNet>) -> Vec<IpNet> {
        self.sites.hear(name, networks)
    }

    /// This node's address.
    pub fn address(&self) -> Ipv6Addr {
        self.own
    }

    /// Takes a name as the one that its address means, in place of one that was merely seen.
    /// Says whether it is: another one that was given stays.
    pub fn know(&mut self, name: Name, now: Instant) -> bool {
        self.learn(name, true, now)
    }

    /// Takes a name that somebody found for its address, or asked the address of, unless another
    /// one is there. Whom this host has never sent anything gives way before others.
    pub fn found(&mut self, name: Name, now: Instant) -> bool {
        self.learn(name, false, now)
    }

    /// The first name of an address is the one: a second one cannot take it over by being seen.
    fn learn(&mut self, name: Name, is_given: bool, now: Instant) -> bool {
        let address = name.address();
        if let Some(known) = self.known.get_mut(&address) {
            if known.name != name && is_given && !known.is_given {
                known.name = name;
                (known.halves, known.arriving) = (Halves::new(HALVES), Arriving::default());
            }
            known.is_given |= is_given;
            known.used_at = now;
            return known.name == name;
        }
        if !is_given && self.known.len() >= MOST_KNOWN {
            let seen = self.known.iter().filter(|(_, it)| !it.is_given);
            let oldest = seen.min_by_key(|(_, it)| (it.is_sent_to, it.used_at));
            let oldest = oldest.map(|(address, _)| *address);
            let Some(oldest) = oldest else { return false };
            self.known.remove(&oldest);
        }
        let (halves, arriving) = (Halves::new(HALVES), Arriving::default());
        let is_sent_to = false;
        self.known.insert(
            address,
            Known { name, is_given, is_sent_to, used_at: now, halves, arriving, next_run: 0 },
        );
        true
    }

    /// Where a packet of this host's goes.
    pub fn outgoing(&mut self, packet: &[u8], now: Instant) -> Outgoing {
        let Some(packet) = Packet::parse(packet) else {
            return self.drop_outgoing(DropReason::Malformed);
        };
        let destination = match (self.sites.way(&packet.destination), packet.destination) {
            (Way::To(name), _) => name.address(),
            (Way::Nowhere, _) => return Outgoing::Nowhere,
            (Way::Elsewhere, IpAddr::V6(destination)) => destination,
            (Way::Elsewhere, IpAddr::V4(_)) => return self.drop_outgoing(DropReason::NoName),
        };
        if destination.octets()[0] != self.own.octets()[0] || destination == self.own {
            return self.drop_outgoing(DropReason::NoName);
        }
        if packet.source != self.own && !self.sites.is_own(&packet.source) {
            return self.drop_outgoing(DropReason::NotOurs);
        }
        let Some(known) = self.known.get_mut(&destination) else {
            return Outgoing::Unknown(destination);
        };
        (known.is_sent_to, known.used_at) = (true, now);
        let name = known.name;
        if !self.allows(&name) {
            if self.asked.len() >= MOST_KNOWN && !self.asked.contains(&name) {
                self.asked.clear();
            }
            self.has_new_senders |= self.asked.insert(name);
            if let Some(flow) = packet.sent() {
                self.flows.sent(flow, now);
            }
        }
        Outgoing::To(name)
    }

    fn drop_outgoing(&mut self, reason: DropReason) -> Outgoing {
        self.drops.count(reason, 1);
        Outgoing::Dropped
    }

    /// How a packet travels to `to`, whose connection carries datagrams of `longest` bytes.
    pub fn cut(&mut self, packet: &[u8], to: Name, longest: usize, now: Instant) -> Cut {
        if packet.len() <= longest {
            return Cut::Whole;
        }
        if packet.len() > LEAST_MTU.max(longest) || longest < LEAST_MTU / 2 + HALF_HEAD {
            self.drops.count(DropReason::TooBig, 1);
            let fits = u32::try_from(LEAST_MTU.max(longest)).unwrap_or(u32::MAX);
            return Cut::TooBig(self.message(packet, Trouble::TooBig(fits), now));
        }
        let Some(known) = self.known.get_mut(&to.address()) else { return Cut::TooBig(None) };
        let (number, [first, second]) = known.halves.split(packet);
        let [high, low] = number.to_be_bytes();
        Cut::Halves([first, second].map(|half| {
            let mut datagram = Vec::with_capacity(half.len() + 2);
            datagram.extend_from_slice(&[half[0], high, low]);
            datagram.extend_from_slice(&half[1..]);
            datagram
        }))
    }

    /// The number of the next run of segments that goes to `to`.
    pub fn number_run(&mut self, to: Name) -> u16 {
        let Some(known) = self.known.get_mut(&to.address()) else { return 0 };
        let number = known.next_run;
        known.next_run = number.wrapping_add(1);
        number
    }

    /// A packet of this host's that goes nowhere, for this reason: what its sender is told.
    pub fn unreachable(
        &mut self,
        packet: &[u8],
        reason: DropReason,
        now: Instant,
    ) -> Option<Vec<u8>> {
        self.drops.count(reason, 1);
        self.message(packet, Trouble::Unreachable, now)
    }

    fn message(&mut self, packet: &[u8], trouble: Trouble, now: Instant) -> Option<Vec<u8>> {
        let about = Packet::parse(packet).filter(|it| !it.may_be_error())?;
        let passed = now.saturating_duration_since(self.refilled_at);
        if passed >= Duration::from_secs(1) {
            (self.allowance, self.refilled_at) = (MESSAGES_A_SECOND, now);
        }
        self.allowance = self.allowance.checked_sub(1)?;
        let from = match about.source {
            IpAddr::V6(_) => IpAddr::V6(self.own),
            // As if it came from there: this host has no other address that it would believe.
            IpAddr::V4(_) => about.destination,
        };
        Some(icmp::message(from, packet, about.source, trouble))
    }

    /// What this host gets of datagrams that `from` sent, as [`Overlay::incoming`] has it, is
    /// appended: a part of a run of segments may have others go on that waited for it. Who the
    /// sender is, is looked at once for all of them.
    pub fn take<'a>(
        &mut self,
        (from, as_member): (Name, bool),
        datagrams: impl IntoIterator<Item = &'a [u8]>,
        now: Instant,
        arrived: &mut Vec<Arrived<'a>>,
    ) {
        let sender = (from, as_member || self.allows(&from));
        let admitted = self.admit_sender(sender, now);
        let of_sender = self.known.get_mut(&from.address()).filter(|it| it.name == from);
        let mut arriving = of_sender.map(|it| std::mem::take(&mut it.arriving));
        for datagram in datagrams {
            let outcome = match (admitted, &mut arriving) {
                (Err(reason), _) => Err(reason),
                (Ok(()), Some(arriving)) if runs::is_part(datagram) => {
                    self.admit_part((sender, arriving), datagram, now, arrived)
                }
                (Ok(()), _) => self.admit(sender, datagram, now).map(|packet| {
                    arrived.extend(
                        packet.inspect(|it| self.received.add(it.len())).map(Arrived::Packet),
                    );
                }),
            };
            if let Err(reason) = outcome {
                self.drops.count(reason, 1);
            }
        }
        if let (Some(arriving), Some(known)) = (arriving, self.known.get_mut(&from.address())) {
            known.arriving = arriving;
        }
    }

    /// Appends what a part lets go on, as far as that may come here.
    fn admit_part<'a>(
        &mut self,
        (sender, arriving): ((Name, bool), &mut Arriving),
        datagram: &'a [u8],
        now: Instant,
        arrived: &mut Vec<Arrived<'a>>,
    ) -> Result<(), DropReason> {
        let part = Part::parse(datagram).ok_or(DropReason::Malformed)?;
        let (first, mut kept) = (arrived.len(), arrived.len());
        let taken = arriving.part(part, now, arrived);
        for at in first..arrived.len() {
            let Arrived::Piece(piece) = &arrived[at] else { continue };
            match self.admit_packet(sender, &Packet::of(piece.head()), now) {
                Ok(()) => {
                    self.received.add(piece.head().bytes().len() + piece.len());
                    arrived.swap(kept, at);
                    kept += 1;
                }
                Err(reason) => self.drops.count(reason, 1),
            }
        }
        arrived.truncate(kept);
        taken.map_err(|trouble| match trouble {
            PartTrouble::Malformed => DropReason::Malformed,
            PartTrouble::GaveWay => DropReason::PartGaveWay,
        })
    }

    /// What this host gets of a datagram that `from` sent, which its connection has proven, as a
    /// member of one of the domains that are allowed or not.
    pub fn incoming<'a>(
        &mut self,
        (from, as_member): (Name, bool),
        datagram: &'a [u8],
        now: Instant,
    ) -> Option<Cow<'a, [u8]>> {
        let sender = (from, as_member || self.allows(&from));
        let admitted = self.admit_sender(sender, now);
        match admitted.and_then(|()| self.admit(sender, datagram, now)) {
            Ok(packet) => packet.inspect(|packet| self.received.add(packet.len())),
            Err(reason) => {
                self.drops.count(reason, 1);
                None
            }
        }
    }

    /// What a datagram of a sender that may send here brings.
    fn admit<'a>(
        &mut self,
        (from, is_allowed): (Name, bool),
        datagram: &'a [u8],
        now: Instant,
    ) -> Result<Option<Cow<'a, [u8]>>, DropReason> {
        let whole = match datagram {
            [0 | 1, high, low, bytes @ ..] if !bytes.is_empty() => {
                let half = Half { is_second: datagram[0] == 1, bytes };
                let number = u16::from_be_bytes([*high, *low]);
                let known = self.known.get_mut(&from.address()).ok_or(DropReason::Malformed)?;
                match known.halves.join(from, from, number, half, now) {
                    Ok(None) => return Ok(None),
                    Ok(Some(whole)) => Cow::Owned(whole),
                    Err(_) => return Err(DropReason::HalfGaveWay),
                }
            }
            whole => Cow::Borrowed(whole),
        };
        let packet = Packet::parse(&whole).ok_or(DropReason::Malformed)?;
        self.admit_packet((from, is_allowed), &packet, now)?;
        Ok(Some(whole))
    }

    /// Whether a name may send here at all, and has the address that it needs.
    fn admit_sender(
        &mut self,
        (from, is_allowed): (Name, bool),
        now: Instant,
    ) -> Result<(), DropReason> {
        if !is_allowed && !self.asked.contains(&from) {
            return Err(DropReason::NotAllowed);
        }
        self.learn(from, false, now).then_some(()).ok_or(DropReason::AddressTaken)
    }

    /// Whether a packet of a name may come here.
    fn admit_packet(
        &mut self,
        (from, is_allowed): (Name, bool),
        packet: &Packet<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        if packet.source != from.address() && !self.sites.is_behind(&from, &packet.source) {
            return Err(DropReason::Spoofed);
        }
        if packet.destination != self.own && !self.sites.is_own(&packet.destination) {
            return Err(DropReason::NotForUs);
        }
        if !is_allowed && !packet.answered().is_some_and(|it| self.flows.has(&it, now)) {
            return Err(DropReason::NotAllowed);
        }
        Ok(())
    }

    fn allows(&self, name: &Name) -> bool {
        match &self.allows {
            Admits::Everybody => true,
            Admits::Chosen { names, .. } => names.contains(name),
        }
    }

    /// The names that may send datagrams here: those allowed, and those that are let answer.
    pub fn senders(&self) -> Admits {
        match &self.allows {
            Admits::Everybody => Admits::Everybody,
            Admits::Chosen { names, domains } => Admits::Chosen {
                names: names.union(&self.asked).copied().collect(),
                domains: domains.clone(),
            },
        }
    }

    /// As [`Overlay::senders`], if they are others than when this was asked last.
    pub fn poll_senders(&mut self) -> Option<Admits> {
        std::mem::take(&mut self.has_new_senders).then(|| self.senders())
    }

    /// So many packets of this host's were handed on.
    pub fn count_sent(&mut self, packets: usize, bytes: usize) {
        self.sent.packets += packets as u64;
        self.sent.bytes += bytes as u64;
    }

    /// Packets were dropped by whoever has the device and the connections.
    pub fn count_dropped(&mut self, reason: DropReason, times: u64) {
        self.drops.count(reason, times);
    }

    /// What was dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// What this host has sent, and what it got.
    pub fn traffic(&self) -> [Counted; 2] {
        [self.sent, self.received]
    }

    /// How many names' addresses are known.
    pub fn known(&self) -> usize {
        self.known.len()
    }
}

impl Counted {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Names that are merely seen: a peer of each is some hundred bytes, and 10 KB while it sends
/// halves without their others.
const MOST_KNOWN: usize = 4096;
/// Halves that may wait for their others, for each name: those of one flight.
const HALVES: usize = 16;
/// Which half it is, and a number.
const HALF_HEAD: usize = 3;
/// What hosts send at most of their own (RFC 4443, 2.4 f), and enough to stop a scan.
const MESSAGES_A_SECOND: u32 = 100;
