//! A waypoint's verifier, one per core: batches of packets in, verdicts out. This is the hot path.
//!
//! Flow, for eight packets at a time, each step for all of them before the next: 1. structure, waypoint, time, revocation;
//! 2. the binding's key; 3. the binding; 4. what it proved: not here before, whose account; 5. the packet moves on, in place.
//!
//! Invariant: nothing is allocated, and nothing is written that outlives the call but drop counts, before a binding has been
//! found right.

use std::net::IpAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::advance::{check_whole, is_whole, original_len, to_destination, to_waypoint};
use crate::bits::Bits;
use crate::header::{Fields, Layout, Place, delegation_bits};
use crate::lanes::{LANES, Lanes, Work};
use crate::outer::Outer;
use crate::prf::BLOCK;
use crate::replay::ReplayFilter;
use crate::{
    Account, Accounts, Advanced, BINDING_LEN, CapabilityError, DropCounts, DropReason, Epoch,
    EpochKeys, Family, PLATYPUS_PORT, Revocations, Scheme, Suite, WindowClock, steer,
};

/// Which schemes of the paper's Table 2 a waypoint takes. They are there for reference; their breaks are known.
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
    /// What one core forwards at most; the replay filter takes 43 to 85 bytes for each of them, as far as it is used.
    pub packets_per_s: u32,
    /// Principals, and lines of delegates, that are counted apart.
    pub accounts: usize,
    /// Of `cores`, which one this is: packets that [`steer`] gives to another are refused.
    pub core: u16,
    /// Verifiers that share the traffic, each with its own filter.
    pub cores: u16,
    /// The UDP port of Platypus.
    pub port: u16,
    /// Suites that are taken.
    pub suites: Vec<Suite>,
    /// Addresses that nothing is delivered to: those of this host, unless it is to be reached through itself. What comes
    /// from here passes no firewall for what comes from elsewhere.
    pub refused_destinations: Vec<IpAddr>,
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
            suites: Suite::ALL.to_vec(),
            refused_destinations: Vec::new(),
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
    config: VerifierConfig,
    /// Those of the configuration.
    addresses: Vec<(Family, Bits)>,
    refused_destinations: Vec<(Family, Bits)>,
    /// Two at most of each address, and of all: the present epoch's, and the one before or after.
    epochs: Vec<EpochKeys>,
    /// Which address each is for; `None` for all.
    scopes: Vec<Option<(Family, Bits)>>,
    revocations: Arc<Revocations>,
    filter: ReplayFilter,
    accounts: Accounts,
    drops: DropCounts,
    lanes: Lanes,
    /// The latest time told, so that a clock which steps back a little does not open the filter.
    latest_us: u64,
}

/// A packet whose structure is right.
#[derive(Clone, Copy)]
struct Opened {
    outer: Outer,
    layout: Layout,
    fields: Fields,
    account: Account,
    work: Work,
    /// Whether there is anything here.
    is_work: bool,
}

impl Opened {
    /// Written over, field by field: to return such values would mean to copy each several times.
    const NONE: Self = Self {
        outer: Outer::NONE,
        layout: Layout::NONE,
        fields: Fields::NONE,
        account: Account::NONE,
        work: Work::NONE,
        is_work: false,
    };
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
        let bits =
            |all: &[IpAddr]| all.iter().map(|it| (Family::of(*it), Bits::from(*it))).collect();
        Ok(Self {
            addresses: bits(&config.addresses),
            refused_destinations: bits(&config.refused_destinations),
            config,
            epochs: Vec::with_capacity(LIVE_EPOCHS),
            scopes: Vec::with_capacity(LIVE_EPOCHS),
            revocations: Arc::default(),
            filter,
            accounts,
            drops: DropCounts::default(),
            lanes: Lanes::new(),
            latest_us: 0,
        })
    }

    /// Takes capabilities of another epoch as well, and no longer those of the epoch before the last one, for all addresses.
    pub fn install_epoch(&mut self, keys: EpochKeys) {
        self.install(None, keys);
    }

    /// As [`Verifier::install_epoch`], for capabilities of one of the waypoint's addresses alone.
    pub fn install_epoch_for(&mut self, waypoint: IpAddr, keys: EpochKeys) {
        self.install(Some(waypoint), keys);
    }

    fn install(&mut self, scope: Option<IpAddr>, keys: EpochKeys) {
        let scope = scope.map(|address| (Family::of(address), Bits::from(address)));
        self.retire(scope, keys.epoch());
        let mut of_scope = (0..self.scopes.len()).filter(|at| self.scopes[*at] == scope);
        if let (Some(oldest), Some(_)) = (of_scope.next(), of_scope.nth(LIVE_EPOCHS - 2)) {
            self.epochs.remove(oldest);
            self.scopes.remove(oldest);
        }
        self.epochs.push(keys);
        self.scopes.push(scope);
    }

    /// Takes capabilities of an epoch no longer.
    pub fn retire_epoch(&mut self, epoch: Epoch) {
        self.retire(None, epoch);
    }

    /// As [`Verifier::retire_epoch`], of one that was installed for one address.
    pub fn retire_epoch_for(&mut self, waypoint: IpAddr, epoch: Epoch) {
        self.retire(Some((Family::of(waypoint), Bits::from(waypoint))), epoch);
    }

    fn retire(&mut self, scope: Option<(Family, Bits)>, epoch: Epoch) {
        let mut live = self.epochs.iter().zip(&self.scopes);
        if let Some(at) = live.position(|(keys, its)| keys.epoch() == epoch && *its == scope) {
            self.epochs.remove(at);
            self.scopes.remove(at);
        }
    }

    /// Epochs whose capabilities are taken, the latest installed last.
    pub fn live_epochs(&self) -> impl Iterator<Item = Epoch> {
        self.epochs.iter().map(EpochKeys::epoch)
    }

    /// What is revoked from now on. One set serves all cores.
    pub fn set_revocations(&mut self, revocations: Arc<Revocations>) {
        self.revocations = revocations;
    }

    /// Who sent how much.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// What was dropped.
    pub fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// Gives each packet its verdict, at `now_us`, microseconds of Unix time. What may pass is changed in place, and its
    /// `start` and `len` tell what to send; what is dropped stays as it was.
    ///
    /// A clock that goes back by up to five seconds is taken to stand still. If it is set back further, packets that were
    /// here before that can be repeated once.
    ///
    /// # Panics
    /// When a packet is not within the arena.
    pub fn verify_batch(&mut self, arena: &mut [u8], packets: &mut [Packet], now_us: u64) {
        let is_jitter = self.latest_us.saturating_sub(now_us) <= STANDS_STILL_US;
        let now_us = if is_jitter { now_us.max(self.latest_us) } else { now_us };
        self.latest_us = now_us;
        for group in packets.chunks_mut(LANES) {
            self.verify_group(arena, group, now_us);
        }
    }

    /// INSECURE, for measurements: forwards whatever is well-formed. No binding, no replay filter, no account.
    #[cfg(feature = "null-bindings")]
    pub fn forward_unverified(&mut self, arena: &mut [u8], packets: &mut [Packet], now_us: u64) {
        for packet in packets {
            let bytes = &arena[packet.start..packet.start + packet.len];
            let mut opened = Opened::NONE;
            match self.open(bytes, packet.carriage, now_us, &mut opened) {
                Ok(()) => advance(arena, packet, &opened),
                Err(reason) => self.drop_packet(packet, reason),
            }
        }
    }

    fn verify_group(&mut self, arena: &mut [u8], packets: &mut [Packet], now_us: u64) {
        let mut opened = [Opened::NONE; LANES];
        for ((lane, packet), opened) in packets.iter_mut().enumerate().zip(&mut opened) {
            let bytes = &arena[packet.start..packet.start + packet.len];
            match self.open(bytes, packet.carriage, now_us, opened) {
                Ok(()) => {
                    let header = &bytes[opened.outer.header_at..opened.outer.end];
                    self.lanes.load(lane, header, &opened.layout);
                    opened.is_work = true;
                }
                Err(reason) => self.drop_packet(packet, reason),
            }
        }
        let mut work: [Option<&Work>; LANES] = [None; LANES];
        let mut payloads: [&[u8]; LANES] = [&[]; LANES];
        for (lane, (packet, opened)) in packets.iter().zip(&opened).enumerate() {
            if opened.is_work {
                work[lane] = Some(&opened.work);
                let payload_at = opened.outer.header_at + usize::from(opened.layout.header_len);
                payloads[lane] = &arena[packet.start..][payload_at..opened.outer.end];
            }
        }
        let macs = self.lanes.macs(&self.epochs, &work, &payloads);
        for (opened, mac) in opened.iter().zip(&macs) {
            if opened.is_work {
                std::hint::black_box(self.filter.touch(opened.fields.id, fingerprint(mac)));
            }
        }
        for (lane, (packet, opened)) in packets.iter_mut().zip(&opened).enumerate() {
            if !opened.is_work {
                continue;
            }
            match self.admit(&arena[packet.start..], opened, &macs[lane]) {
                Ok(()) => advance(arena, packet, opened),
                Err(reason) => self.drop_packet(packet, reason),
            }
        }
    }

    /// Everything that can be told without a key.
    #[inline(always)]
    fn open(
        &self,
        bytes: &[u8],
        carriage: Carriage,
        now_us: u64,
        opened: &mut Opened,
    ) -> Result<(), DropReason> {
        opened.outer = match carriage {
            Carriage::Ip => Outer::parse(bytes, self.config.port)?,
            Carriage::Datagram { destination, hop_limit, traffic_class } => Outer {
                family: Family::of(destination),
                header_at: 0,
                end: bytes.len(),
                destination: destination.into(),
                hop_limit,
                traffic_class,
                flow_label: 0,
                is_udp: false,
            },
        };
        let outer = &opened.outer;
        let header = &bytes[outer.header_at..outer.end];
        opened.layout = Layout::parse(header)?;
        let layout = &opened.layout;
        if layout.family != outer.family {
            return Err(DropReason::Family);
        }
        if !self.config.suites.contains(&layout.suite) {
            return Err(DropReason::Suite);
        }
        opened.fields = Fields::read(header, layout);
        let fields = &opened.fields;
        // The header that comes back must say its length in 16 bits.
        if original_len(layout, is_whole(layout, fields)) > usize::from(u16::MAX) {
            return Err(DropReason::InnerLength);
        }
        let cores = self.config.cores;
        if cores > 1 && self.owner(layout, fields) != self.config.core {
            return Err(DropReason::WrongCore);
        }
        let waypoint = fields.waypoint;
        if waypoint != outer.destination || !self.addresses.contains(&(layout.family, waypoint)) {
            return Err(DropReason::WrongWaypoint);
        }
        opened.account = self.check_delegations(header, layout, fields)?;
        let account = &opened.account;
        let own = (layout.family, waypoint);
        let is_for = |scope: &Option<(Family, Bits)>| scope.is_none_or(|its| its == own);
        let mut live = self.epochs.iter().zip(&self.scopes);
        let epoch = live.position(|(keys, scope)| keys.epoch() == fields.epoch && is_for(scope));
        let epoch = epoch.ok_or(DropReason::Epoch)?;
        let window = self.config.clock.select(fields.window_byte, now_us)?;
        fields.id.check_age(now_us)?;
        if !self.revocations.is_empty()
            && self.revocations.refuses(account.principal, account.ids(), now_us / 1_000_000)
        {
            return Err(DropReason::Revoked);
        }
        let place = layout.current();
        opened.work = Work { suite: layout.suite, family: layout.family, place, epoch, window };
        Ok(())
    }

    /// The core that a packet belongs to.
    fn owner(&self, layout: &Layout, fields: &Fields) -> u16 {
        let [source, destination] =
            [fields.source, fields.destination].map(|bits| bits.address(layout.family));
        steer(source, destination, self.config.cores)
    }

    /// Scheme, nesting and destination; and whose account it will be.
    #[inline]
    fn check_delegations(
        &self,
        header: &[u8],
        layout: &Layout,
        fields: &Fields,
    ) -> Result<Account, DropReason> {
        let mut account = Account::of(fields.principal);
        let Place { at, levels, scheme } = layout.current();
        let is_allowed = match scheme {
            Scheme::CaveatChain => true,
            Scheme::BitChain => self.config.reference_schemes != ReferenceSchemes::Refused,
            Scheme::Xor => self.config.reference_schemes == ReferenceSchemes::BitChainAndXor,
        };
        if !is_allowed {
            return Err(DropReason::SchemeRefused);
        }
        let mut outside = (Bits::ZERO, 0);
        for level in 0..usize::from(levels) {
            let wire = &header[usize::from(at)..];
            let (prefix, len, id) = delegation_bits(wire, layout.family, level);
            if len < outside.1 || prefix.prefix(outside.1) != outside.0 {
                return Err(DropReason::NotNested);
            }
            if fields.destination.prefix(len) != prefix {
                return Err(DropReason::OutsidePrefix);
            }
            if scheme == Scheme::Xor && len == HOST_V4 {
                return Err(DropReason::SchemeRefused);
            }
            account.set_level(level, id);
            outside = (prefix, len);
        }
        Ok(account)
    }

    /// What is decided by the MAC and after it.
    #[inline]
    fn admit(
        &mut self,
        packet: &[u8],
        opened: &Opened,
        mac: &[u8; BLOCK],
    ) -> Result<(), DropReason> {
        let Opened { outer, layout, fields, account, .. } = opened;
        let binding_at = outer.header_at + layout.current().binding_at(layout.family);
        if !bool::from(packet[binding_at..binding_at + BINDING_LEN].ct_eq(&mac[..BINDING_LEN])) {
            return Err(DropReason::Binding);
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
        if !self.is_routable(header, layout, fields) {
            return Err(DropReason::Unroutable);
        }
        self.filter.take(fields.id, fingerprint(mac))?;
        self.accounts.add(account, original_len(layout, is_whole) as u64);
        Ok(())
    }

    /// Whether both ends are hosts, and the next one may be sent to.
    #[inline]
    fn is_routable(&self, header: &[u8], layout: &Layout, fields: &Fields) -> bool {
        let family = layout.family;
        if !fields.source.is_host(family) || !fields.destination.is_host(family) {
            return false;
        }
        let next = usize::from(layout.pointer) + 1;
        if next == usize::from(layout.count) {
            return !self.refused_destinations.contains(&(family, fields.destination));
        }
        let at = usize::from(layout.places[next].at);
        Bits::read(family, &header[at..]).is_host(family)
    }

    #[inline]
    fn drop_packet(&mut self, packet: &mut Packet, reason: DropReason) {
        self.drops.add(reason);
        packet.verdict = Verdict::Drop(reason);
    }
}

/// The half of a MAC that is on no wire.
#[inline]
fn fingerprint(mac: &[u8; BLOCK]) -> u64 {
    let [_, _, _, _, _, _, _, _, half @ ..] = *mac;
    u64::from_ne_bytes(half)
}

#[inline]
fn advance(arena: &mut [u8], packet: &mut Packet, opened: &Opened) {
    let Opened { outer, layout, fields, account, .. } = opened;
    let bytes = &mut arena[packet.start..packet.start + packet.len];
    let is_last = layout.pointer + 1 == layout.count;
    let (next, range) = if is_last {
        to_destination(bytes, outer, layout, fields)
    } else {
        let next = to_waypoint(bytes, outer, layout, packet.carriage == Carriage::Ip);
        (next, 0..outer.end)
    };
    (packet.start, packet.len) = (packet.start + range.start, range.len());
    let (hop_limit, traffic_class) = (outer.hop_limit - 1, outer.traffic_class);
    let advanced = Advanced { next, account: *account, hop_limit, traffic_class };
    packet.verdict = Verdict::Forward(advanced);
}

/// The present epoch's keys, and those before or after it.
const LIVE_EPOCHS: usize = 2;
/// Time servers step a clock back by less. Above what the replay filter remembers, so that it stays whole.
const STANDS_STILL_US: u64 = 5_000_000;
/// The length of a prefix of one address; the paper's schemes are for IPv4.
const HOST_V4: u8 = 32;
/// What one core is known to forward in this project.
const DEFAULT_PACKETS_PER_S: u32 = 1_000_000;
/// The filter of more would exceed 5 GB.
const MOST_PACKETS_PER_S: u32 = 100_000_000;
/// Customers of a large operator; 1 MB.
const DEFAULT_ACCOUNTS: usize = 16_384;
