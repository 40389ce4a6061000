//! The border of a trust domain: which peers are foreign, and the
//! capabilities that are demanded of them for transit.
//!
//! A router here is a waypoint of Platypus (`rhumb-capability`): its address is the first half of
//! its name, and so are those of source and destination. A stamped PDU is a Platypus header, and
//! the PDU behind it. What is checked here, before the verifier looks at it, is that the header
//! speaks of the PDU that it came with.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use foldhash::quality::RandomState;
use rhumb_capability::{
    CapabilityError, Carriage, DropCounts, DropReason, HeaderView, Packet, Verifier, VerifierConfig,
};
use rhumb_wire::Name;
use rhumb_wire::nack::{CapabilityFault, Reason};

use crate::jobs::RETRY_WHEN_BUSY_MS;

/// What a router demands of foreign peers.
pub struct Border {
    peers: HashSet<Name, RandomState>,
    /// Everybody is foreign who is no member of the router's domain.
    is_domains: bool,
    carriage: Carriage,
    verifier: Verifier,
    /// What is not as it has to be, and that the verifier was not asked about.
    refused: DropCounts,
}

impl Border {
    /// The border of the router of this name: what comes from `peers` for others has to be stamped.
    /// Of `config`, the addresses and the cores are set here. It takes nothing until its verifier
    /// has a key ([`Border::verifier_mut`]).
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn new(
        router: &Name,
        peers: impl IntoIterator<Item = Name>,
        mut config: VerifierConfig,
    ) -> Result<Self, CapabilityError> {
        let destination = short_address(router);
        config.addresses = vec![destination];
        (config.core, config.cores) = (0, 1);
        // One name in 200 begins like a group's address, or one of a link.
        config.only_hosts = false;
        Ok(Self {
            peers: peers.into_iter().collect(),
            is_domains: false,
            carriage: Carriage::Datagram { destination, hop_limit: HOP_LIMIT, traffic_class: 0 },
            verifier: Verifier::new(config)?,
            refused: DropCounts::default(),
        })
    }

    /// The same, of its domain: foreign is, too, whoever shows no membership of that. Of a router
    /// without a domain, that is everybody.
    #[must_use]
    pub fn of_domain(mut self) -> Self {
        self.is_domains = true;
        self
    }

    /// What verifies: accounts, and counts of what it dropped.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// The same, to be given keys and revocations.
    pub fn verifier_mut(&mut self) -> &mut Verifier {
        &mut self.verifier
    }

    /// PDUs whose capability was refused, each reason with its count.
    pub fn drops(&self) -> DropCounts {
        let mut drops = self.refused.clone();
        drops.merge(self.verifier.drops());
        drops
    }

    /// Whether something is demanded of a peer, who is outside of the router's domain or not.
    pub(crate) fn is_foreign(&self, peer: &Name, is_outside: impl FnOnce() -> bool) -> bool {
        self.peers.contains(peer) || self.is_domains && is_outside()
    }

    /// Whether who is a member of the router's domain makes a difference.
    pub(crate) fn is_of_domain(&self) -> bool {
        self.is_domains
    }

    /// A stamped PDU as the verifier is asked about it.
    pub(crate) fn packet(&self, start: usize, len: usize) -> Packet {
        Packet::new(start, len, self.carriage)
    }

    /// Whether a header speaks of a PDU of these names, and of nothing else.
    pub(crate) fn check(
        &mut self,
        header: &HeaderView<'_>,
        names: &[u8; 64],
    ) -> Result<(), DropReason> {
        let (source, destination) = short_addresses(names);
        let is_about_it = header.source() == source
            && header.destination() == destination
            && header.protocol() == PDU_PROTOCOL;
        let fault = match (header.count(), is_about_it) {
            (1, true) => return Ok(()),
            (1, false) => DropReason::InnerMismatch,
            // It comes from a neighbour: nobody else can have a use for another.
            _ => DropReason::Count,
        };
        self.refused.add(fault);
        Err(fault)
    }
}

/// What a router is called in capabilities: the first half of its name, as an
/// IPv6 address. Of two names that begin alike somebody would have to try 2^64
/// keys to find any, and 2^128 for a given one.
pub fn short_address(name: &Name) -> IpAddr {
    let (half, _) = name.0.split_at(16);
    let octets: [u8; 16] = half.try_into().expect("invariant: a name has 32 bytes");
    Ipv6Addr::from(octets).into()
}

/// Source and destination of a PDU as they stand in its stamp.
pub(crate) fn short_addresses(names: &[u8; 64]) -> (IpAddr, IpAddr) {
    let (source, destination) = crate::flows::split_names(names);
    (short_address(&source), short_address(&destination))
}

/// What the source of a PDU is told when its capability is
/// refused for `reason`; nothing about a repetition.
pub(crate) fn told(reason: DropReason) -> Option<Reason> {
    let fault = match reason {
        DropReason::Replay => return None,
        DropReason::ReplayFull => return Some(Reason::Overloaded(RETRY_WHEN_BUSY_MS)),
        DropReason::Epoch
        | DropReason::WindowExpired
        | DropReason::WindowEarly
        | DropReason::Stale
        | DropReason::Early => CapabilityFault::Time,
        DropReason::Revoked => CapabilityFault::Revoked,
        _ => CapabilityFault::Refused,
    };
    Some(Reason::Capability(fault))
}

/// Whether what was opened begins as a Platypus header, whose first
/// four bits are its version; those of a PDU are 2.
pub(crate) fn is_stamped(opened: &[u8]) -> bool {
    opened.first().is_some_and(|first| first >> 4 == 1)
}

/// The protocol number of a PDU behind a Platypus header: one of those for experiments (RFC 3692),
/// so that no stamp of an IP packet can stand before a PDU.
pub const PDU_PROTOCOL: u8 = 254;
/// A PDU has a TTL of its own, which is looked at when it goes on.
const HOP_LIMIT: u8 = 2;
