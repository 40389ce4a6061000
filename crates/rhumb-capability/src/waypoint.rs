//! A waypoint: a verifier that tells original sources why their packets did not get on.
//! `docs/platypus.md`, section 9.
//!
//! Flow of a batch: 1. [`Waypoint::handle_batch`] verifies, and changes what may pass in place;
//! whoever is out of hops is told so; 2. the caller sends; 3. [`Waypoint::handle_undelivered`]
//! tells about what did not fit the next link, or has no way.
//!
//! What others say by ICMP about packets that the waypoint sent goes through an [`ErrorRelay`].
//!
//! Invariant: nobody is told anything about a packet that has not proven its capability; a message
//! is never larger than the packet it is about, and the number of messages is bounded ([`limits`]).

mod counters;
mod fragments;
mod icmp;
mod limits;
mod quote;
mod relay;

use std::net::IpAddr;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::bits::Bits;
use crate::header::{HeaderView, address};
use crate::outer::{
    IpHeader, Outer, UDP, UDP_LEN, V4_LEN, write_udp_checksum_v6, write_v4_checksum,
};
use crate::{
    Accounts, CapabilityError, DropCounts, DropReason, Epoch, EpochKeys, Family, Next, Packet,
    Principal, Revocations, Verdict, Verifier, VerifierConfig, steer,
};
use icmp::Message;
use limits::IcmpLimits;
use quote::{Original, as_it_stands, original_of, overhead};

pub use counters::{IcmpCounters, IcmpDrop, IcmpSent};
pub use fragments::fragments;
pub use icmp::is_icmp;
pub use relay::ErrorRelay;

/// Why a packet that may pass was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// It is larger than what the way takes: a packet of so many bytes.
    TooBig {
        /// Bytes of the largest IP packet.
        mtu: u32,
    },
    /// There is no way.
    Unreachable,
}

/// One core of a waypoint.
pub struct Waypoint {
    verifier: Verifier,
    addresses: Vec<IpAddr>,
    port: u16,
    limits: IcmpLimits,
    answer_limits: IcmpLimits,
    icmp: IcmpCounters,
    /// Packets that were dropped after they had proven whose they are.
    /// Has room for all it may hold from the start.
    dropped: HashMap<Principal, u64, RandomState>,
    most_dropped: usize,
}

impl Waypoint {
    /// A waypoint without keys: it drops everything until [`Waypoint::install_epoch`].
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn new(config: VerifierConfig) -> Result<Self, CapabilityError> {
        let (addresses, port, most_dropped) =
            (config.addresses.clone(), config.port, config.accounts);
        let limits = IcmpLimits::new(config.cores);
        let answer_limits = IcmpLimits::for_answers(config.cores);
        Ok(Self {
            verifier: Verifier::new(config)?,
            addresses,
            port,
            limits,
            answer_limits,
            icmp: IcmpCounters::default(),
            dropped: HashMap::with_capacity_and_hasher(most_dropped, RandomState::default()),
            most_dropped,
        })
    }

    /// As [`Verifier::install_epoch`].
    pub fn install_epoch(&mut self, keys: EpochKeys) {
        self.verifier.install_epoch(keys);
    }

    /// As [`Verifier::install_epoch_for`].
    pub fn install_epoch_for(&mut self, waypoint: IpAddr, keys: EpochKeys) {
        self.verifier.install_epoch_for(waypoint, keys);
    }

    /// As [`Verifier::retire_epoch_for`].
    pub fn retire_epoch_for(&mut self, waypoint: IpAddr, epoch: Epoch) {
        self.verifier.retire_epoch_for(waypoint, epoch);
    }

    /// As [`Verifier::retire_epoch`].
    pub fn retire_epoch(&mut self, epoch: Epoch) {
        self.verifier.retire_epoch(epoch);
    }

    /// As [`Verifier::live_epochs`].
    pub fn live_epochs(&self) -> impl Iterator<Item = Epoch> {
        self.verifier.live_epochs()
    }

    /// As [`Verifier::set_revocations`].
    pub fn set_revocations(&mut self, revocations: std::sync::Arc<Revocations>) {
        self.verifier.set_revocations(revocations);
    }

    /// Who sent how much.
    pub fn accounts(&self) -> &Accounts {
        self.verifier.accounts()
    }

    /// Packets of each principal that were dropped although
    /// they had proven whose they are, in no order.
    pub fn dropped(&self) -> impl Iterator<Item = (Principal, u64)> {
        self.dropped.iter().map(|(principal, count)| (*principal, *count))
    }

    /// What was dropped.
    pub fn drops(&self) -> &DropCounts {
        self.verifier.drops()
    }

    /// ICMP messages made, and not made.
    pub fn icmp(&self) -> &IcmpCounters {
        &self.icmp
    }

    /// Gives each packet its verdict, as [`Verifier::verify_batch`] does, and hands `reply` whole
    /// IP packets with what original sources are to be told.
    ///
    /// # Panics
    /// When a packet is not within the arena.
    pub fn handle_batch(
        &mut self,
        arena: &mut [u8],
        packets: &mut [Packet],
        now_us: u64,
        mut reply: impl FnMut(&[u8]),
    ) {
        self.verifier.verify_batch(arena, packets, now_us);
        for packet in packets {
            if let Verdict::Drop(reason) = packet.verdict
                && reason.is_proven()
            {
                let bytes = &arena[packet.start..packet.start + packet.len];
                self.note_proven(bytes, reason, now_us, &mut reply);
            }
        }
    }

    /// Tells the original source of a packet, as it stood to
    /// be sent to `next`, that it did not get on.
    pub fn handle_undelivered(
        &mut self,
        packet: &[u8],
        next: Next,
        why: Undelivered,
        now_us: u64,
        mut reply: impl FnMut(&[u8]),
    ) {
        match next {
            Next::Destination(_) => {
                // Of a packet that may be cut nobody is told that it is too big.
                let may_be_cut = packet.first().is_some_and(|first| first >> 4 == 4)
                    && packet.get(6).is_some_and(|flags| flags & DO_NOT_FRAGMENT == 0);
                if may_be_cut && matches!(why, Undelivered::TooBig { .. }) {
                    self.icmp.drop(IcmpDrop::MayBeCut);
                    return;
                }
                let Some(original) = as_it_stands(packet) else { return };
                self.tell(&original, undelivered(why, 0), None, now_us, &mut reply);
            }
            Next::Waypoint(_) => {
                let Ok(outer) = Outer::parse(packet, self.port) else { return };
                let header = &packet[outer.header_at..outer.end];
                let Ok(view) = HeaderView::parse(header) else { return };
                let original = original_of(&view, &outer, usize::MAX);
                let message = undelivered(why, overhead(&view, &outer));
                self.tell(&original, message, None, now_us, &mut reply);
            }
        }
    }

    /// Counts a packet that was dropped after its binding was found
    /// right, and tells its source what it has to know.
    fn note_proven(
        &mut self,
        packet: &[u8],
        reason: DropReason,
        now_us: u64,
        reply: &mut impl FnMut(&[u8]),
    ) {
        // The verifier has read all of this.
        let Ok(outer) = Outer::parse(packet, self.port) else { return };
        let Ok(view) = HeaderView::parse(&packet[outer.header_at..outer.end]) else { return };
        if reason == DropReason::Echo {
            return self.answer(&view, now_us, reply);
        }
        let principal = view.principal(view.pointer());
        if self.dropped.len() < self.most_dropped {
            *self.dropped.entry(principal).or_default() += 1;
        } else if let Some(count) = self.dropped.get_mut(&principal) {
            *count += 1;
        }
        let message = match reason {
            DropReason::TtlExpired => Message::TimeExceeded,
            DropReason::Revoked => Message::Prohibited,
            _ => return,
        };
        let original = original_of(&view, &outer, usize::MAX);
        let from = outer.destination.address(outer.family);
        self.tell(&original, message, Some(from), now_us, reply);
    }

    /// Answers who asks whether this waypoint is there, with what it sent and no more.
    fn answer(&mut self, view: &HeaderView<'_>, now_us: u64, reply: &mut impl FnMut(&[u8])) {
        let (from, to) = (view.destination(), view.source());
        let Some((head, data)) = view.payload().split_first_chunk::<8>() else { return };
        let [_, _, _, _, rest @ ..] = *head;
        if !self.answer_limits.allow(to, false, now_us) {
            return self.icmp.drop(IcmpDrop::RateLimited);
        }
        let kind = if to.is_ipv4() { icmp::ECHO_REPLY_V4 } else { icmp::ECHO_REPLY_V6 };
        let message = Message::Other { kind, code: 0, rest };
        let mut buffer = [0; icmp::MAX_LEN];
        reply(icmp::emit(&mut buffer, from, to, message, &[data]));
        self.icmp.sent(IcmpSent::EchoReply);
    }

    /// Tells the source of a packet something, if it may be told. `from`
    /// is the waypoint's address, if that matters.
    fn tell(
        &mut self,
        original: &Original<'_>,
        message: Message,
        from: Option<IpAddr>,
        now_us: u64,
        reply: &mut impl FnMut(&[u8]),
    ) {
        let Some((to, is_error)) = original.source_to_tell() else {
            return self.icmp.drop(IcmpDrop::ShortQuote);
        };
        if is_error {
            return self.icmp.drop(IcmpDrop::AboutAnError);
        }
        if !Bits::from(to).is_host(Family::of(to)) {
            return self.icmp.drop(IcmpDrop::NoHost);
        }
        let own = |address: &&IpAddr| address.is_ipv4() == to.is_ipv4();
        let Some(from) = from.or_else(|| self.addresses.iter().find(own).copied()) else { return };
        if !self.limits.allow(to, message.is_of_path_mtu(), now_us) {
            return self.icmp.drop(IcmpDrop::RateLimited);
        }
        let mut buffer = [0; icmp::MAX_LEN];
        reply(icmp::emit(&mut buffer, from, to, message, &original.parts()));
        self.icmp.sent(match message {
            Message::TimeExceeded => IcmpSent::TimeExceeded,
            Message::TooBig { .. } => IcmpSent::TooBig,
            Message::Prohibited => IcmpSent::Prohibited,
            _ => IcmpSent::Unreachable,
        });
    }
}

/// The core that a packet belongs to, of `cores`: the one of its original source and destination
/// ([`steer`]), and the first where it has none.
pub fn core_of(packet: &[u8], port: u16, cores: u16) -> u16 {
    let header =
        Outer::parse(packet, port).ok().map(|outer| (&packet[outer.header_at..], outer.family));
    let ends = header.and_then(|(header, family)| {
        let width = family.address_len();
        let ends = header.get(4..4 + 2 * width)?;
        Some((address(&ends[..width]), address(&ends[width..])))
    });
    ends.map_or(0, |(source, destination)| steer(source, destination, cores))
}

/// Puts the UDP header of Platypus between the IP header of a packet of IP protocol 253 at `packet`
/// of `buffer` and what follows it. Returns where the packet stands then; `None`, and nothing is
/// changed, without eight bytes before it.
pub fn into_udp(buffer: &mut [u8], packet: Range<usize>, port: u16) -> Option<Range<usize>> {
    let start = packet.start.checked_sub(UDP_LEN)?;
    let outer = Outer::parse(&buffer[packet.clone()], port).ok().filter(|outer| !outer.is_udp)?;
    let header_len = IpHeader::len(outer.family);
    buffer.copy_within(packet.start..packet.start + header_len, start);
    let bytes = &mut buffer[start..packet.end];
    let udp_len = (bytes.len() - header_len) as u16;
    let [port_high, port_low] = port.to_be_bytes();
    let [len_high, len_low] = udp_len.to_be_bytes();
    let udp = [port_high, port_low, port_high, port_low, len_high, len_low, 0, 0];
    bytes[header_len..header_len + UDP_LEN].copy_from_slice(&udp);
    match outer.family {
        Family::V4 => {
            bytes[2..4].copy_from_slice(&((header_len as u16 + udp_len).to_be_bytes()));
            bytes[9] = UDP;
            write_v4_checksum(&mut bytes[..V4_LEN]);
        }
        Family::V6 => {
            bytes[4..6].copy_from_slice(&[len_high, len_low]);
            bytes[6] = UDP;
            write_udp_checksum_v6(bytes);
        }
    }
    Some(start..packet.end)
}

fn undelivered(why: Undelivered, overhead: usize) -> Message {
    match why {
        Undelivered::TooBig { mtu } => {
            Message::TooBig { mtu: mtu.saturating_sub(overhead as u32).max(V4_LEN as u32) }
        }
        Undelivered::Unreachable => Message::Unreachable,
    }
}

/// The flag of an IPv4 header, in its seventh byte.
const DO_NOT_FRAGMENT: u8 = 0x40;
