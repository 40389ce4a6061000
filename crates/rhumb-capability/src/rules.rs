//! What a verifier checks of a packet before any key is touched.
//! `docs/platypus.md`, section 7, steps 1 to 5.

use std::net::IpAddr;
use std::sync::Arc;

use crate::advance::{is_whole, original_len};
use crate::bits::Bits;
use crate::commonest;
use crate::header::{Fields, Layout, Place, delegation_bits};
use crate::lanes::{Load, Work};
use crate::outer::Outer;
use crate::packet_id::InTime;
use crate::{
    Account, Carriage, DropReason, Epoch, EpochKeys, Family, ReferenceSchemes, Revocations, Scheme,
    Suite, VerifierConfig, WindowClock, steer,
};

/// What a verifier was told.
pub(crate) struct Rules {
    addresses: Vec<(Family, Bits)>,
    refused_destinations: Vec<(Family, Bits)>,
    only_hosts: bool,
    /// By the index of each, whether it is taken.
    suites: [bool; Suite::ALL.len()],
    clock: WindowClock,
    reference_schemes: ReferenceSchemes,
    core: u16,
    cores: u16,
    port: u16,
    pub(crate) epochs: Epochs,
    pub(crate) revocations: Arc<Revocations>,
}

/// Keys of live epochs: two at most of each address, and of all, the
/// present epoch's and the one before or after.
#[derive(Default)]
pub(crate) struct Epochs {
    keys: Vec<EpochKeys>,
    /// Which address each is for; `None` for all.
    scopes: Vec<Option<(Family, Bits)>>,
}

/// A packet whose structure is right.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) outer: Outer,
    pub(crate) layout: Layout,
    pub(crate) fields: Fields,
    pub(crate) account: Account,
    pub(crate) work: Work,
    /// Whether there is anything here.
    pub(crate) is_work: bool,
    /// Whether it was revoked, which matters once the binding is found right.
    pub(crate) is_revoked: bool,
}

impl Opened {
    /// Written over, field by field: to return such values would mean to copy each several times.
    pub(crate) const NONE: Self = Self {
        outer: Outer::NONE,
        layout: Layout::NONE,
        fields: Fields::NONE,
        account: Account::NONE,
        work: Work::NONE,
        is_work: false,
        is_revoked: false,
    };

    /// What of the packet its MAC is made of.
    #[inline]
    pub(crate) fn load<'a>(&'a self, packet: &'a [u8]) -> Load<'a> {
        let header_len = usize::from(self.layout.header_len);
        let (header, payload) = packet[self.outer.header_at..self.outer.end].split_at(header_len);
        Load { work: &self.work, layout: &self.layout, header, payload }
    }
}

impl Rules {
    pub(crate) fn new(config: VerifierConfig) -> Self {
        let bits = |all: Vec<IpAddr>| all.into_iter().map(scope_of).collect();
        let VerifierConfig { addresses, refused_destinations, suites, .. } = config;
        Self {
            addresses: bits(addresses),
            refused_destinations: bits(refused_destinations),
            only_hosts: config.only_hosts,
            suites: Suite::ALL.map(|suite| suites.contains(&suite)),
            clock: config.clock,
            reference_schemes: config.reference_schemes,
            core: config.core,
            cores: config.cores,
            port: config.port,
            epochs: Epochs::default(),
            revocations: Arc::default(),
        }
    }

    /// Everything that can be told without a key.
    #[inline(always)]
    pub(crate) fn open(
        &self,
        bytes: &[u8],
        carriage: &Carriage,
        now_us: u64,
        in_time: InTime,
        opened: &mut Opened,
    ) -> Result<(), DropReason> {
        let Opened { outer, layout, fields, .. } = &mut *opened;
        if *carriage == Carriage::Ip && commonest::read(bytes, outer, layout, fields) {
            return self.check(bytes, commonest::PLACE, now_us, in_time, opened);
        }
        self.open_any(bytes, carriage, now_us, in_time, opened)
    }

    /// The same of packets of any kind.
    fn open_any(
        &self,
        bytes: &[u8],
        carriage: &Carriage,
        now_us: u64,
        in_time: InTime,
        opened: &mut Opened,
    ) -> Result<(), DropReason> {
        let place = self.read(bytes, carriage, opened)?;
        self.check(bytes, place, now_us, in_time, opened)
    }

    /// What follows once headers are read. There are two copies of it: in that for the commonest
    /// packets, what they have in common is known, and what was read is in registers, where it
    /// would be waited for if it were read back from memory.
    #[inline(always)]
    fn check(
        &self,
        bytes: &[u8],
        place: Place,
        now_us: u64,
        in_time: InTime,
        opened: &mut Opened,
    ) -> Result<(), DropReason> {
        let Opened { outer, layout, fields, account, work, is_revoked, .. } = opened;
        if !self.suites[layout.suite.index()] {
            return Err(DropReason::Suite);
        }
        // The header that comes back must say its length in 16 bits.
        if original_len(layout, is_whole(layout, fields)) > usize::from(u16::MAX) {
            return Err(DropReason::InnerLength);
        }
        let cores = self.cores;
        if cores > 1 && self.owner(layout, fields) != self.core {
            return Err(DropReason::WrongCore);
        }
        let waypoint = fields.waypoint;
        if waypoint != outer.destination || !self.addresses.contains(&(layout.family, waypoint)) {
            return Err(DropReason::WrongWaypoint);
        }
        *account = Account::of(fields.principal);
        let Place { levels, scheme, .. } = place;
        if levels > 0 || scheme != Scheme::CaveatChain {
            let header = &bytes[outer.header_at..outer.end];
            self.check_delegations(header, layout, fields, account)?;
        }
        let epoch = self.epochs.find((layout.family, waypoint), fields.epoch);
        let epoch = epoch.ok_or(DropReason::Epoch)?;
        let window = self.clock.select(fields.window_byte, now_us)?;
        in_time.check(fields.id)?;
        // Said only to who proves that it is the one who was revoked:
        // nobody is told anything about a forged packet.
        *is_revoked = !self.revocations.is_empty()
            && self.revocations.refuses(account.principal, account.ids(), now_us / 1_000_000);
        *work = Work { suite: layout.suite, family: layout.family, place, epoch, window };
        Ok(())
    }

    /// Reads any headers. Returns the place of the current capability.
    fn read(
        &self,
        bytes: &[u8],
        carriage: &Carriage,
        opened: &mut Opened,
    ) -> Result<Place, DropReason> {
        opened.outer = match *carriage {
            Carriage::Ip => Outer::parse(bytes, self.port)?,
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
        let header = &bytes[opened.outer.header_at..opened.outer.end];
        let place = opened.layout.read(header)?;
        if opened.layout.family != opened.outer.family {
            return Err(DropReason::Family);
        }
        opened.fields = Fields::read(header, opened.layout.family, place);
        Ok(place)
    }

    /// Whether both ends are hosts, and the next one may be sent to.
    #[inline]
    pub(crate) fn is_routable(&self, header: &[u8], layout: &Layout, fields: &Fields) -> bool {
        let family = layout.family;
        let may_be = |address: Bits| !self.only_hosts || address.is_host(family);
        if !may_be(fields.source) || !may_be(fields.destination) {
            return false;
        }
        let next = usize::from(layout.pointer) + 1;
        if next == usize::from(layout.count) {
            return !self.refused_destinations.contains(&(family, fields.destination));
        }
        let at = usize::from(layout.places[next].at);
        may_be(Bits::read(family, &header[at..]))
    }

    /// Whether a packet asks this waypoint, its last one, whether it is there: an ICMP echo request
    /// to the address by which it came.
    #[cold]
    pub(crate) fn is_echo(&self, payload: &[u8], layout: &Layout, fields: &Fields) -> bool {
        let (protocol, kind) = match layout.family {
            Family::V4 => (ICMP_V4, ECHO_REQUEST_V4),
            Family::V6 => (ICMP_V6, ECHO_REQUEST_V6),
        };
        let may_be_answered = !self.only_hosts || fields.source.is_host(layout.family);
        layout.pointer + 1 == layout.count
            && fields.destination == fields.waypoint
            && fields.source != fields.waypoint
            && may_be_answered
            && fields.protocol == protocol
            && payload.len() >= ECHO_HEAD
            && payload.starts_with(&[kind, 0])
    }

    /// The core that a packet belongs to.
    fn owner(&self, layout: &Layout, fields: &Fields) -> u16 {
        let [source, destination] =
            [fields.source, fields.destination].map(|bits| bits.address(layout.family));
        steer(source, destination, self.cores)
    }

    /// Scheme, nesting and destination; and whose account it will be.
    fn check_delegations(
        &self,
        header: &[u8],
        layout: &Layout,
        fields: &Fields,
        account: &mut Account,
    ) -> Result<(), DropReason> {
        let Place { at, levels, scheme, .. } = layout.current();
        let is_allowed = match scheme {
            Scheme::CaveatChain => true,
            Scheme::BitChain => self.reference_schemes != ReferenceSchemes::Refused,
            Scheme::Xor => self.reference_schemes == ReferenceSchemes::BitChainAndXor,
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
        Ok(())
    }
}

impl Epochs {
    /// All of them, the latest installed last.
    pub(crate) fn keys(&self) -> &[EpochKeys] {
        &self.keys
    }

    /// Adds an epoch of a waypoint's address, or of all, and
    /// removes the one before the last of the same.
    pub(crate) fn install(&mut self, waypoint: Option<IpAddr>, keys: EpochKeys) {
        self.retire(waypoint, keys.epoch());
        let scope = waypoint.map(scope_of);
        let mut of_scope = (0..self.scopes.len()).filter(|at| self.scopes[*at] == scope);
        if let (Some(oldest), Some(_)) = (of_scope.next(), of_scope.nth(LIVE_EPOCHS - 2)) {
            self.remove(oldest);
        }
        self.keys.push(keys);
        self.scopes.push(scope);
    }

    /// Removes an epoch that was installed for the same.
    pub(crate) fn retire(&mut self, waypoint: Option<IpAddr>, epoch: Epoch) {
        let scope = waypoint.map(scope_of);
        let mut live = self.keys.iter().zip(&self.scopes);
        if let Some(at) = live.position(|(keys, its)| keys.epoch() == epoch && *its == scope) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        self.keys.remove(at);
        self.scopes.remove(at);
    }

    /// Where the keys of an epoch are that serve an address.
    #[inline]
    fn find(&self, waypoint: (Family, Bits), epoch: Epoch) -> Option<usize> {
        let mut live = self.keys.iter().zip(&self.scopes);
        live.position(|(keys, scope)| {
            keys.epoch() == epoch && scope.is_none_or(|its| its == waypoint)
        })
    }
}

fn scope_of(address: IpAddr) -> (Family, Bits) {
    (Family::of(address), Bits::from(address))
}

/// The present epoch's keys, and those before or after it.
const LIVE_EPOCHS: usize = 2;
const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;
const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
/// Type, code, checksum, identifier and sequence.
const ECHO_HEAD: usize = 8;
/// The length of a prefix of one address; the paper's schemes are for IPv4.
const HOST_V4: u8 = 32;
