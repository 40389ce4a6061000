//! What others say by ICMP about packets that this waypoint has sent on: handed to the original
//! source. `docs/platypus.md`, section 9; the paper, section 5.4.
//!
//! 1. The message is an error about a packet of Platypus from one
//!    of our addresses, else it is none of ours.
//! 2. Where it quotes the whole Platypus header, that has a binding of ours: the capability before
//!    the pointer. It is verified as when the packet came, so nobody else can make up such a
//!    message, and each packet has one at most.
//! 3. With this proof, and a few bytes of payload, the original packet is put in the place of the
//!    stamped one, and an MTU is lessened by what stamping adds: the kernel of an unmodified host
//!    takes it for a message about what it sent.
//! 4. Without it (routers that quote 64 bits, the whole-packet suite, a late message), it is passed
//!    on as it came, at a lower rate: a stamper can read it, a kernel makes nothing of it.

use std::net::IpAddr;

use super::counters::{IcmpCounters, IcmpDrop, IcmpSent};
use super::icmp::{self, ErrorMessage, Message, NoMessage};
use super::limits::IcmpLimits;
use super::quote::{original_of, overhead};
use crate::bits::Bits;
use crate::header::{HeaderView, POINTER_AT, address};
use crate::outer::{FLOW_LABEL, Outer, PLATYPUS_PROTOCOL, UDP, UDP_LEN, V4_LEN, V6_LEN};
use crate::{
    CapabilityError, Carriage, DropReason, Epoch, EpochKeys, Family, Packet, Suite, Verdict,
    Verifier, VerifierConfig,
};

/// Hands ICMP errors to original sources. One for all cores of a waypoint.
pub struct ErrorRelay {
    /// For what messages quote: it bills nobody, and has a filter of its own.
    verifier: Verifier,
    addresses: Vec<IpAddr>,
    port: u16,
    proven: IcmpLimits,
    unproven: IcmpLimits,
    counters: IcmpCounters,
    /// A quoted packet at its full length, what is missing zero.
    scratch: Vec<u8>,
}

/// A packet in a message, up to its Platypus header.
struct Quoted<'a> {
    outer: Outer,
    source: IpAddr,
    /// From the Platypus header on, as far as it is there.
    platypus: &'a [u8],
}

impl ErrorRelay {
    /// A relay without keys, for a waypoint of this configuration.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn new(config: &VerifierConfig) -> Result<Self, CapabilityError> {
        let (addresses, port) = (config.addresses.clone(), config.port);
        let config = VerifierConfig {
            core: 0,
            cores: 1,
            accounts: 0,
            packets_per_s: MESSAGES_PER_S,
            ..config.clone()
        };
        Ok(Self {
            verifier: Verifier::new(config)?,
            addresses,
            port,
            proven: IcmpLimits::new(1),
            unproven: IcmpLimits::new(UNPROVEN_SHARE),
            counters: IcmpCounters::default(),
            scratch: Vec::new(),
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

    /// Messages passed on, and not.
    pub fn counters(&self) -> &IcmpCounters {
        &self.counters
    }

    /// Takes an ICMP packet to one of the waypoint's addresses, and hands `reply` at most one IP
    /// packet, which is not larger.
    pub fn handle(&mut self, packet: &[u8], now_us: u64, reply: impl FnOnce(&[u8])) {
        match self.relay(packet, now_us, reply) {
            Ok(sent) => self.counters.sent(sent),
            Err(why) => self.counters.drop(why),
        }
    }

    fn relay(
        &mut self,
        packet: &[u8],
        now_us: u64,
        reply: impl FnOnce(&[u8]),
    ) -> Result<IcmpSent, IcmpDrop> {
        let error = icmp::parse(packet).map_err(|why| match why {
            NoMessage::NoError => IcmpDrop::NoError,
            NoMessage::Malformed => IcmpDrop::Malformed,
        })?;
        let quoted = Quoted::read(error.quote, self.port)?;
        if !self.addresses.contains(&quoted.source) {
            return Err(IcmpDrop::NotOurs);
        }
        if error.message.is_of_path_mtu() && self.addresses.contains(&error.source) {
            return Err(IcmpDrop::OwnKernel);
        }
        let to = quoted.original_source()?;
        let mut buffer = [0; icmp::MAX_LEN];
        if !self.is_proven(&quoted, now_us)? {
            if !self.unproven.allow(to, false, now_us) {
                return Err(IcmpDrop::RateLimited);
            }
            reply(icmp::emit(&mut buffer, quoted.source, to, error.message, &[error.quote]));
            return Ok(IcmpSent::PassedOn);
        }
        // The verifier moved the pointer on, and nothing else.
        let view = HeaderView::parse(&self.scratch).map_err(|_| IcmpDrop::Forged)?;
        let available = quoted.platypus.len() - view.header().len();
        let original = original_of(&view, &quoted.outer, available);
        match original.source_to_tell() {
            Some((_, true)) => return Err(IcmpDrop::AboutAnError),
            Some((source, false)) if source == to => {}
            // A packet that travelled whole, from somebody else, or of which too little is there.
            _ => return Err(IcmpDrop::ShortQuote),
        }
        if !self.proven.allow(to, error.message.is_of_path_mtu(), now_us) {
            return Err(IcmpDrop::RateLimited);
        }
        let message = translated(&error, overhead(&view, &quoted.outer));
        reply(icmp::emit(&mut buffer, quoted.source, to, message, &original.parts()));
        Ok(IcmpSent::Translated)
    }

    /// Whether the quoted packet is one that we have sent; then it is in the scratch space. False
    /// when too little of it is there to tell.
    fn is_proven(&mut self, quoted: &Quoted<'_>, now_us: u64) -> Result<bool, IcmpDrop> {
        let Some(lens) = quoted.lens() else { return Ok(false) };
        let (header_len, inner_len) = lens;
        if quoted.platypus.len() < header_len + LEAST_PAYLOAD.min(inner_len) {
            return Ok(false);
        }
        self.scratch.clear();
        let available = quoted.platypus.len().min(header_len + inner_len);
        self.scratch.extend_from_slice(&quoted.platypus[..available]);
        self.scratch.resize(header_len + inner_len, 0);
        let pointer = &mut self.scratch[POINTER_AT];
        // The first capability's packets come from a stamper, not from us.
        *pointer = pointer.checked_sub(1).ok_or(IcmpDrop::NotOurs)?;
        let carriage = Carriage::Datagram {
            destination: quoted.source,
            hop_limit: u8::MAX,
            traffic_class: quoted.outer.traffic_class,
        };
        let mut packets = [Packet::new(0, self.scratch.len(), carriage)];
        self.verifier.verify_batch(&mut self.scratch, &mut packets, now_us);
        match packets[0].verdict {
            Verdict::Forward(_) => Ok(true),
            Verdict::Drop(DropReason::Replay | DropReason::ReplayFull) => Err(IcmpDrop::Repeated),
            Verdict::Drop(DropReason::Stale) => Ok(false),
            Verdict::Drop(DropReason::Binding) if self.is_of_whole_packet() => Ok(false),
            _ => Err(IcmpDrop::Forged),
        }
    }

    /// Whether the bindings of the packet in the scratch space cover what a message does not quote.
    fn is_of_whole_packet(&self) -> bool {
        Suite::from_number(self.scratch[1]) == Some(Suite::PacketPolyval)
    }
}

impl<'a> Quoted<'a> {
    fn read(quote: &'a [u8], port: u16) -> Result<Self, IcmpDrop> {
        let (outer_len, protocol, outer, source) = match quote.first().map(|first| first >> 4) {
            Some(4) => Self::read_v4(quote),
            Some(6) => Self::read_v6(quote),
            _ => None,
        }
        .ok_or(IcmpDrop::ShortQuote)?;
        let inside = quote.get(outer_len..).ok_or(IcmpDrop::ShortQuote)?;
        let (at, is_udp) = match protocol {
            PLATYPUS_PROTOCOL => (outer_len, false),
            UDP => {
                let to = inside.get(2..4).ok_or(IcmpDrop::ShortQuote)?;
                if u16::from_be_bytes([to[0], to[1]]) != port {
                    return Err(IcmpDrop::NotOurs);
                }
                (outer_len + UDP_LEN, true)
            }
            _ => return Err(IcmpDrop::NotOurs),
        };
        let platypus = quote.get(at..).ok_or(IcmpDrop::ShortQuote)?;
        Ok(Self { outer: Outer { header_at: at, is_udp, ..outer }, source, platypus })
    }

    fn read_v4(quote: &[u8]) -> Option<(usize, u8, Outer, IpAddr)> {
        let header: &[u8; V4_LEN] = quote.first_chunk()?;
        let outer = Outer {
            family: Family::V4,
            header_at: 0,
            end: 0,
            destination: Bits::read(Family::V4, &header[16..]),
            hop_limit: header[8],
            traffic_class: header[1],
            flow_label: 0,
            is_udp: false,
        };
        Some((usize::from(header[0] & 0x0F) * 4, header[9], outer, address(&header[12..16])))
    }

    fn read_v6(quote: &[u8]) -> Option<(usize, u8, Outer, IpAddr)> {
        let header: &[u8; V6_LEN] = quote.first_chunk()?;
        let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        let outer = Outer {
            family: Family::V6,
            header_at: 0,
            end: 0,
            destination: Bits::read(Family::V6, &header[24..]),
            hop_limit: header[7],
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL,
            is_udp: false,
        };
        Some((V6_LEN, header[6], outer, address(&header[8..24])))
    }

    /// Who is to hear of it: in IPv4 the paper's first 64 bits are enough for this.
    fn original_source(&self) -> Result<IpAddr, IcmpDrop> {
        let source = self.platypus.get(4..4 + self.outer.family.address_len());
        let source = address(source.ok_or(IcmpDrop::ShortQuote)?);
        let is_host = Bits::from(source).is_host(Family::of(source));
        if is_host { Ok(source) } else { Err(IcmpDrop::NoHost) }
    }

    /// Bytes of the Platypus header and of the payload, as the former says.
    fn lens(&self) -> Option<(usize, usize)> {
        let at = self.outer.family.fixed_len() - 11;
        let &[units, high, low] = self.platypus.get(at..)?.first_chunk()?;
        Some((usize::from(units) * 4, usize::from(u16::from_be_bytes([high, low]))))
    }
}

/// The message for the original source.
fn translated(error: &ErrorMessage<'_>, overhead: usize) -> Message {
    match error.message {
        // Routers of before RFC 1191 say nothing about the size.
        Message::TooBig { mtu: 0 } => Message::TooBig { mtu: 0 },
        Message::TooBig { mtu } => {
            Message::TooBig { mtu: mtu.saturating_sub(overhead as u32).max(LEAST_MTU) }
        }
        // The extension behind the quote is gone, and with
        // it the length that tells where it begins.
        Message::Other { kind, code, .. } => Message::Other { kind, code, rest: [0; 4] },
        other => other,
    }
}

/// What transports are told apart by: ports, or the number of an echo.
const LEAST_PAYLOAD: usize = 8;
/// The least that a link of IPv4 takes (RFC 791).
const LEAST_MTU: u32 = 68;
/// For the replay filter: as many as are passed on, and room for a burst.
const MESSAGES_PER_S: u32 = 10_000;
/// Messages without a proof have this part of the rate of others.
const UNPROVEN_SHARE: u16 = 10;
