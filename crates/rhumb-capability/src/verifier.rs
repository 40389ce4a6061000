//! A waypoint's verifier, one per core: batches of packets in, verdicts out. This is the hot path.
//!
//! Flow, for sixteen packets at a time, each step for all of them before the
//! next: 1. structure, waypoint, time, revocation;
//! 2. the binding's key; 3. the binding; 4. what it proved: not here before, whose
//!    account; 5. the packet moves on, in place.
//!
//! Invariant: nothing is allocated, and nothing is written that outlives the call but drop counts,
//! before a binding has been found right.

use std::net::IpAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::accounts::Run;
use crate::advance::{check_whole, is_whole, original_len, to_destination, to_waypoint};
use crate::lanes::{Lanes, Load};
use crate::packet_id::InTime;
use crate::prf::BLOCK;
use crate::replay::ReplayFilter;
use crate::rules::{Opened, Rules};
use crate::side_by_side::{LANES, Row};
use crate::{
    Accounts, Advanced, BINDING_LEN, CapabilityError, DropCounts, DropReason, Epoch, EpochKeys,
    Family, Next, PLATYPUS_PORT, Revocations, Suite, WindowClock,
};

/// Which schemes of the paper's Table 2 a waypoint takes. They are
/// there for reference; their breaks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReferenceSchemes {
    /// None: what everybody should have.
    #[default]
    Refused,
    /// Chaining delegation.
    BitChain,
    /// Chaining and XOR delegation, the latter never for a single address.
    BitChainAndXor,
}

/// How a verifier works. Start from [`VerifierConfig::new`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VerifierConfig {
    /// The waypoint's own addresses.
    pub addresses: Vec<IpAddr>,
    /// How time is divided.
    pub clock: WindowClock,
    /// Which of the paper's schemes are taken.
    pub reference_schemes: ReferenceSchemes,
    /// What one core forwards at most; the replay filter takes 67 to 136
    /// bytes for each of them, as far as it is used.
    pub packets_per_s: u32,
    /// Principals, and lines of delegates, that are counted apart.
    pub accounts: usize,
    /// Of `cores`, which one this is: packets that
    /// [`steer`](crate::steer) gives to another are refused.
    pub core: u16,
    /// Verifiers that share the traffic, each with its own filter.
    pub cores: u16,
    /// The UDP port of Platypus.
    pub port: u16,
    /// When it starts, in microseconds of Unix time. What another one could have taken before is
    /// refused: all that is dated before this and the 500 ms by which a packet may be ahead. 0 for
    /// one that nothing was before.
    pub start_us: u64,
    /// Suites that are taken.
    pub suites: Vec<Suite>,
    /// Addresses that nothing is delivered to: those of this host, unless it is to be reached
    /// through itself. What comes from here passes no firewall for what comes from elsewhere.
    pub refused_destinations: Vec<IpAddr>,
    /// Whether sources, destinations and next waypoints must be possible hosts. Not so where
    /// addresses stand for something else, and nothing is sent to them.
    pub only_hosts: bool,
}

impl VerifierConfig {
    /// The defaults, for a waypoint of these addresses.
    pub fn new(addresses: Vec<IpAddr>) -> Self {
        Self {
            addresses,
            clock: WindowClock::default(),
            reference_schemes: ReferenceSchemes::Refused,
            packets_per_s: DEFAULT_PACKETS_PER_S,
            accounts: DEFAULT_ACCOUNTS,
            core: 0,
            cores: 1,
            port: PLATYPUS_PORT,
            start_us: 0,
            suites: Suite::ALL.to_vec(),
            refused_destinations: Vec::new(),
            only_hosts: true,
        }
    }
}

/// How a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carriage {
    /// As an IP packet, from its header on: IP protocol 253, or UDP to the port of Platypus.
    Ip,
    /// As what a UDP socket receives, from the Platypus header on; the system tells the rest.
    Datagram {
        /// The address that it was sent to.
        destination: IpAddr,
        /// Its TTL or hop limit.
        hop_limit: u8,
        /// Its TOS or traffic class.
        traffic_class: u8,
    },
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody has looked yet.
    Pending,
    /// It was changed in place and can be sent.
    Forward(Advanced),
    /// It was not changed.
    Drop(DropReason),
}

/// A packet in an arena: where it is, how it came, what became of it.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Its first byte in the arena; moved when headers are removed.
    pub start: usize,
    /// Its bytes.
    pub len: usize,
    /// How it came.
    pub carriage: Carriage,
    /// What became of it.
    pub verdict: Verdict,
}

impl Packet {
    /// A packet of `len` bytes at `start` of the arena.
    pub fn new(start: usize, len: usize, carriage: Carriage) -> Self {
        Self { start, len, carriage, verdict: Verdict::Pending }
    }
}

/// The verifier of one core of a waypoint.
pub struct Verifier {
    rules: Rules,
    filter: ReplayFilter,
    accounts: Accounts,
    drops: DropCounts,
    lanes: Lanes,
    /// Two, in turns: while memory for the one is on its way, the other is worked on.
    groups: [Group; 2],
    /// The latest time told, so that a clock which steps back a little does not open the filter.
    latest_us: u64,
    /// See [`VerifierConfig::start_us`].
    start_us: u64,
}

impl Verifier {
    /// A verifier without keys: it drops everything until [`Verifier::install_epoch`].
    ///
    /// # Errors
    /// When there is no address, or no such core.
    pub fn new(config: VerifierConfig) -> Result<Self, CapabilityError> {
        if config.addresses.is_empty() {
            return Err(CapabilityError::BadParameter("the number of addresses"));
        }
        if config.core >= config.cores {
            return Err(CapabilityError::BadParameter("the core"));
        }
        if config.packets_per_s > MOST_PACKETS_PER_S {
            let limit = u64::from(MOST_PACKETS_PER_S);
            return Err(CapabilityError::TooLarge { what: "the packets per second", limit });
        }
        let (filter, accounts) =
            (ReplayFilter::new(config.packets_per_s), Accounts::with_limit(config.accounts));
        let start_us = config.start_us;
        Ok(Self {
            rules: Rules::new(config),
            filter,
            accounts,
            drops: DropCounts::default(),
            lanes: Lanes::new(),
            groups: [Group::EMPTY; 2],
            latest_us: start_us,
            start_us,
        })
    }

    /// Takes capabilities of another epoch as well, and no longer those of the epoch before the
    /// last one, for all addresses.
    pub fn install_epoch(&mut self, keys: EpochKeys) {
        self.rules.epochs.install(None, keys);
    }

    /// As [`Verifier::install_epoch`], for capabilities of one of the waypoint's addresses alone.
    pub fn install_epoch_for(&mut self, waypoint: IpAddr, keys: EpochKeys) {
        self.rules.epochs.install(Some(waypoint), keys);
    }

    /// Takes capabilities of an epoch no longer.
    pub fn retire_epoch(&mut self, epoch: Epoch) {
        self.rules.epochs.retire(None, epoch);
    }

    /// As [`Verifier::retire_epoch`], of one that was installed for one address.
    pub fn retire_epoch_for(&mut self, waypoint: IpAddr, epoch: Epoch) {
        self.rules.epochs.retire(Some(waypoint), epoch);
    }

    /// Epochs whose capabilities are taken, the latest installed last.
    pub fn live_epochs(&self) -> impl Iterator<Item = Epoch> {
        self.rules.epochs.keys().iter().map(EpochKeys::epoch)
    }

    /// What is revoked from now on. One set serves all cores.
    pub fn set_revocations(&mut self, revocations: Arc<Revocations>) {
        self.rules.revocations = revocations;
    }

    /// Who sent how much.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// What was dropped.
    pub fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// Gives each packet its verdict, at `now_us`, microseconds of Unix
    /// time. What may pass is changed in place, and its `start` and `len`
    /// tell what to send; what is dropped stays as it was.
    ///
    /// A clock that goes back by up to five seconds is taken to stand still. If it is
    /// set back further, or at all between two verifiers of one waypoint, packets that
    /// were here before that can be repeated once.
    ///
    /// # Panics
    /// When a packet is not within the arena.
    pub fn verify_batch(&mut self, arena: &mut [u8], packets: &mut [Packet], now_us: u64) {
        let is_jitter = self.latest_us.saturating_sub(now_us) <= STANDS_STILL_US;
        let now_us = if is_jitter { now_us.max(self.latest_us) } else { now_us };
        self.latest_us = now_us;
        if !is_jitter {
            // Or nothing would pass until the clock is again where it was at the start.
            self.start_us = 0;
        }
        let mut before: Option<&mut [Packet]> = None;
        let mut group = 0;
        for packets in packets.chunks_mut(LANES) {
            self.prove(group, arena, packets, now_us);
            group = 1 - group;
            if let Some(before) = before.replace(packets) {
                self.finish(group, arena, before);
            }
        }
        if let Some(last) = before {
            self.finish(1 - group, arena, last);
        }
    }

    /// INSECURE, for measurements: forwards whatever is
    /// well-formed. No binding, no replay filter, no account.
    #[cfg(feature = "null-bindings")]
    pub fn forward_unverified(&mut self, arena: &mut [u8], packets: &mut [Packet], now_us: u64) {
        for packet in packets {
            let bytes = &arena[packet.start..packet.start + packet.len];
            let mut opened = Opened::NONE;
            let in_time = InTime::at(now_us, self.start_us);
            match self.rules.open(bytes, &packet.carriage, now_us, in_time, &mut opened) {
                Ok(()) => advance(arena, packet, &opened),
                Err(reason) => drop_packet(&mut self.drops, packet, reason),
            }
        }
    }

    /// Steps 1 to 3 for packets that become one of the groups.
    fn prove(&mut self, group: usize, arena: &[u8], packets: &mut [Packet], now_us: u64) {
        let in_time = InTime::at(now_us, self.start_us);
        let Self { rules, filter, drops, lanes, groups, .. } = self;
        let Group { opened, macs } = &mut groups[group];
        for (packet, opened) in packets.iter_mut().zip(&mut *opened) {
            let bytes = &arena[packet.start..packet.start + packet.len];
            let verdict = rules.open(bytes, &packet.carriage, now_us, in_time, opened);
            opened.is_work = verdict.is_ok();
            if let Err(reason) = verdict {
                drop_packet(drops, packet, reason);
            }
        }
        let mut loads: [Option<Load<'_>>; LANES] = [None; LANES];
        for (load, (packet, opened)) in loads.iter_mut().zip(packets.iter().zip(&*opened)) {
            if opened.is_work {
                *load = Some(opened.load(&arena[packet.start..]));
            }
        }
        *macs = lanes.macs(rules.epochs.keys(), &loads);
        for (load, (opened, mac)) in loads.iter().zip(opened.iter().zip(&macs.0)) {
            if load.is_some() {
                filter.prefetch(opened.fields.id, opened.fields.principal, fingerprint(mac));
            }
        }
    }

    /// The other steps, for one of the groups.
    fn finish(&mut self, group: usize, arena: &mut [u8], packets: &mut [Packet]) {
        let Self { rules, filter, accounts, drops, groups, .. } = self;
        let Group { opened, macs } = &groups[group];
        let mut run = Run::EMPTY;
        for (packet, (opened, mac)) in packets.iter_mut().zip(opened.iter().zip(&macs.0)) {
            if !opened.is_work {
                continue;
            }
            match admit(rules, &arena[packet.start..], opened, mac, filter) {
                Ok(bytes) => {
                    run.add(accounts, &opened.account, bytes);
                    advance(arena, packet, opened);
                }
                Err(reason) => drop_packet(drops, packet, reason),
            }
        }
        accounts.add(&run);
    }
}

/// Packets that are worked on together, and what was found of them.
struct Group {
    opened: [Opened; LANES],
    macs: Row,
}

impl Group {
    const EMPTY: Self = Self { opened: [Opened::NONE; LANES], macs: Row::ZERO };
}

/// What is decided by the MAC and after it. Returns the bytes to be billed.
#[inline(always)]
fn admit(
    rules: &Rules,
    packet: &[u8],
    opened: &Opened,
    mac: &[u8; BLOCK],
    filter: &mut ReplayFilter,
) -> Result<u64, DropReason> {
    let Opened { outer, layout, fields, .. } = opened;
    let binding_at = outer.header_at + layout.current().binding_at();
    let (binding, whole) = (packet[binding_at..].first_chunk(), "invariant: it was parsed");
    // As numbers: slices are compared byte by byte.
    let binding = u64::from_ne_bytes(*binding.expect(whole));
    let [right, _] = halves(mac);
    if !bool::from(binding.ct_eq(&right)) {
        return Err(DropReason::Binding);
    }
    if opened.is_revoked {
        return Err(DropReason::Revoked);
    }
    if outer.hop_limit <= 1 {
        return Err(DropReason::TtlExpired);
    }
    let is_whole = is_whole(layout, fields);
    if is_whole && layout.pointer + 1 == layout.count {
        let payload_at = outer.header_at + usize::from(layout.header_len);
        check_whole(&packet[payload_at..outer.end], fields)?;
    }
    let header = &packet[outer.header_at..outer.end];
    if !rules.is_routable(header, layout, fields) {
        if !rules.is_echo(&header[usize::from(layout.header_len)..], layout, fields) {
            return Err(DropReason::Unroutable);
        }
        // Answered once.
        filter.take(fields.id, fields.principal, fingerprint(mac))?;
        return Err(DropReason::Echo);
    }
    filter.take(fields.id, fields.principal, fingerprint(mac))?;
    Ok(original_len(layout, is_whole) as u64)
}

#[inline]
fn drop_packet(drops: &mut DropCounts, packet: &mut Packet, reason: DropReason) {
    drops.add(reason);
    packet.verdict = Verdict::Drop(reason);
}

/// The half of a MAC that is on no wire.
#[inline]
fn fingerprint(mac: &[u8; BLOCK]) -> u64 {
    let [_, half] = halves(mac);
    half
}

#[inline]
fn halves(mac: &[u8; BLOCK]) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *mac;
    [[a, b, c, d, e, f, g, h], rest].map(u64::from_ne_bytes)
}

// A binding is one of the halves.
const _: () = assert!(2 * BINDING_LEN == BLOCK);

#[inline(always)]
fn advance(arena: &mut [u8], packet: &mut Packet, opened: &Opened) {
    let Opened { outer, layout, fields, account, .. } = opened;
    let bytes = &mut arena[packet.start..packet.start + packet.len];
    let (hop_limit, traffic_class) = (outer.hop_limit - 1, outer.traffic_class);
    let forward =
        |next| Verdict::Forward(Advanced { next, account: *account, hop_limit, traffic_class });
    if layout.pointer + 1 < layout.count {
        let next = to_waypoint(bytes, outer, layout, packet.carriage == Carriage::Ip);
        packet.len = outer.end;
        packet.verdict = forward(Next::Waypoint(next.address(layout.family)));
        return;
    }
    let range = to_destination(bytes, outer, layout, fields);
    (packet.start, packet.len) = (packet.start + range.start, range.len());
    // Once for each family, so that the verdict is written where it
    // belongs and not put together elsewhere first.
    packet.verdict = match layout.family {
        Family::V4 => forward(Next::Destination(IpAddr::V4(fields.destination.octets_v4().into()))),
        Family::V6 => forward(Next::Destination(IpAddr::V6(fields.destination.octets_v6().into()))),
    };
}

/// Time servers step a clock back by less. Above what the
/// replay filter remembers, so that it stays whole.
const STANDS_STILL_US: u64 = 5_000_000;
/// What one core is known to forward in this project.
const DEFAULT_PACKETS_PER_S: u32 = 1_000_000;
/// More than one core can receive; its filter takes 2 GB.
const MOST_PACKETS_PER_S: u32 = 20_000_000;
/// Customers of a large operator; 1 MB.
const DEFAULT_ACCOUNTS: usize = 16_384;
