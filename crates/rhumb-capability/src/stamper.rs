//! Puts capabilities in front of a packet's payload, in place. The sender's side, or a gateway's.
//!
//! Flow: 1. read the IP header; 2. decide whether it can be made again, or the
//! packet travels whole; 3. write the Platypus header over it, from a template; 4.
//! bind each capability; 5. write the header around.

use std::net::IpAddr;
use std::ops::Range;

use crate::advance::{WHOLE_PACKET, forbids_fragments, must_travel_whole};
use crate::capability::Writer;
use crate::header::{FLAG_DF, FLAG_V6, Layout, MAX_CAPABILITIES, VERSION, address};
use crate::mac::{MacKey, Message};
use crate::messages::Messages;
use crate::outer::{
    FLOW_LABEL, IpHeader, PLATYPUS_PROTOCOL, UDP, UDP_LEN, V4_LEN, V6_LEN, write_udp_checksum_v6,
};
use crate::side_by_side::LANES;
use crate::{
    BINDING_LEN, CapabilityError, Credential, Delegations, Family, PLATYPUS_PORT, PacketIds,
};

/// How stamped packets travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// IP protocol 253.
    Ip {
        /// The outer source; `None` for the packet's own.
        source: Option<IpAddr>,
    },
    /// UDP. Over IPv4 without a checksum; over IPv6 with one, since hosts and
    /// translators drop datagrams that have none.
    Udp {
        /// The outer source; `None` for the packet's own.
        source: Option<IpAddr>,
        /// The source port.
        source_port: u16,
        /// The outer destination, where an address translator has the first
        /// waypoint; `None` for the waypoint itself.
        destination: Option<IpAddr>,
        /// The destination port.
        port: u16,
    },
    /// Without headers around: for a UDP socket, which adds them.
    Datagram,
}

impl Encapsulation {
    /// UDP from and to the port of Platypus.
    pub const UDP: Self = Self::Udp {
        source: None,
        source_port: PLATYPUS_PORT,
        destination: None,
        port: PLATYPUS_PORT,
    };
    /// IP protocol 253, from the packet's own source.
    pub const IP: Self = Self::Ip { source: None };

    /// The outer addresses that are given.
    fn outer_addresses(self) -> impl Iterator<Item = IpAddr> {
        let (source, destination) = match self {
            Self::Ip { source } => (source, None),
            Self::Udp { source, destination, .. } => (source, destination),
            Self::Datagram => (None, None),
        };
        source.into_iter().chain(destination)
    }

    /// Bytes that `stamp` writes before the Platypus header.
    fn outer_len(self, family: Family) -> usize {
        match self {
            Self::Ip { .. } => IpHeader::len(family),
            Self::Udp { .. } => IpHeader::len(family) + UDP_LEN,
            Self::Datagram => 0,
        }
    }
}

/// Stamps packets with one list of capabilities.
pub struct Stamper {
    family: Family,
    encapsulation: Encapsulation,
    first_waypoint: IpAddr,
    /// A header without addresses, id, lengths and bindings.
    template: Vec<u8>,
    layout: Layout,
    keys: Vec<MacKey>,
    restrictions: Vec<Delegations>,
    not_after_s: u64,
}

/// What the original IP header says.
struct Original {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    hop_limit: u8,
    traffic_class: u8,
    flow_label: u32,
    do_not_fragment: bool,
    /// What travels: the payload, or the whole packet.
    payload: Range<usize>,
}

impl Stamper {
    /// A stamper for packets that pass the waypoints of `credentials`, in this order.
    ///
    /// # Errors
    /// When there are none or more than four, or they differ in suite, or in
    /// family from each other or an outer address.
    pub fn new(
        credentials: &[&Credential],
        encapsulation: Encapsulation,
    ) -> Result<Self, CapabilityError> {
        let [first, ..] = credentials else { return Err(CapabilityError::CapabilityCount(0)) };
        if credentials.len() > MAX_CAPABILITIES {
            return Err(CapabilityError::CapabilityCount(credentials.len()));
        }
        let (family, suite) = (first.capability().family(), first.capability().suite);
        if credentials.iter().any(|other| other.capability().suite != suite) {
            return Err(CapabilityError::Mixed("suite"));
        }
        if credentials.iter().any(|other| other.capability().family() != family) {
            return Err(CapabilityError::Mixed("family of addresses"));
        }
        if encapsulation.outer_addresses().any(|outer| Family::of(outer) != family) {
            return Err(CapabilityError::Mixed("family of addresses"));
        }
        let lens = credentials.iter().map(|credential| credential.capability().wire_len());
        let header_len = family.fixed_len() + lens.sum::<usize>();
        let mut template = vec![0; header_len];
        let flags = if family == Family::V6 { FLAG_V6 } else { 0 };
        template[..3].copy_from_slice(&[
            VERSION << 4 | flags,
            suite.number(),
            credentials.len() as u8,
        ]);
        template[family.fixed_len() - 11] = (header_len / 4) as u8;
        let mut rest = &mut template[family.fixed_len()..];
        for credential in credentials {
            let (place, after) = rest.split_at_mut(credential.capability().wire_len());
            credential.capability().emit(place);
            rest = after;
        }
        let layout =
            Layout::parse(&template).map_err(|_| CapabilityError::BadParameter("a credential"))?;
        let keys =
            credentials.iter().map(|credential| MacKey::new(suite, &credential.binding_key()));
        Ok(Self {
            family,
            encapsulation,
            first_waypoint: first.capability().waypoint,
            layout,
            keys: keys.collect(),
            restrictions: credentials.iter().map(|c| c.capability().delegations).collect(),
            not_after_s: credentials.iter().map(|c| c.not_after_s()).min().unwrap_or(0),
            template,
        })
    }

    /// The last second in which waypoints may take what is stamped.
    pub fn not_after_s(&self) -> u64 {
        self.not_after_s
    }

    /// Where stamped packets go first.
    pub fn first_waypoint(&self) -> IpAddr {
        self.first_waypoint
    }

    /// Whether packets to `destination` may be stamped.
    pub fn allows(&self, destination: IpAddr) -> bool {
        let levels = self.restrictions.iter().flat_map(Delegations::iter);
        Family::of(destination) == self.family
            && levels.into_iter().all(|level| level.prefix.contains(destination))
    }

    /// Bytes by which an IP packet grows: what the path's MTU is to be lowered by. A UDP
    /// socket's headers are counted. The few that travel whole (IPv4 with options,
    /// fragments, tunnels) grow by 20 bytes more.
    pub fn overhead(&self) -> usize {
        let udp = match self.encapsulation {
            Encapsulation::Ip { .. } => 0,
            Encapsulation::Udp { .. } | Encapsulation::Datagram => UDP_LEN,
        };
        self.template.len() + udp
    }

    /// Bytes that must be free before a packet to be stamped.
    pub fn headroom(&self) -> usize {
        self.template.len() + self.outer_len()
    }

    /// Stamps the IP packet that stands at `packet` of `buffer`, with [`Stamper::headroom`] bytes
    /// free before it, at `now_us`, microseconds of Unix time. Returns where the stamped packet
    /// stands; it goes to [`Stamper::first_waypoint`].
    ///
    /// # Errors
    /// When it is no IP packet of this family, has no room, would be too large, or may not go where
    /// it goes. It is then as it was.
    ///
    /// # Panics
    /// When `packet` is not within `buffer`.
    pub fn stamp(
        &self,
        buffer: &mut [u8],
        packet: Range<usize>,
        ids: &mut PacketIds,
        now_us: u64,
    ) -> Result<Range<usize>, CapabilityError> {
        let stamped = self.dress(buffer, packet, ids, now_us)?;
        self.bind(&mut buffer[stamped.clone()]);
        self.complete(&mut buffer[stamped.clone()]);
        Ok(stamped)
    }

    /// [`Stamper::stamp`] for each of the packets that stand at `packets` of `arena`, in
    /// order, which takes less time than one after the other. What became of packet `n` of
    /// them is told by `done(n, ..)`, in no order.
    ///
    /// # Panics
    /// As [`Stamper::stamp`].
    pub fn stamp_batch(
        &self,
        arena: &mut [u8],
        packets: &[Range<usize>],
        ids: &mut PacketIds,
        now_us: u64,
        mut done: impl FnMut(usize, Result<Range<usize>, CapabilityError>),
    ) {
        let mut messages = Messages::empty();
        for (first, group) in (0..).step_by(LANES).zip(packets.chunks(LANES)) {
            let mut all: [Option<Range<usize>>; LANES] = [const { None }; LANES];
            for (lane, packet) in group.iter().enumerate() {
                match self.dress(arena, packet.clone(), ids, now_us) {
                    Ok(stamped) => all[lane] = Some(stamped),
                    Err(refused) => done(first + lane, Err(refused)),
                }
            }
            self.bind_side_by_side(arena, &all, &mut messages);
            for (lane, stamped) in all.into_iter().enumerate() {
                if let Some(stamped) = stamped {
                    self.complete(&mut arena[stamped.clone()]);
                    done(first + lane, Ok(stamped));
                }
            }
        }
    }

    /// All of [`Stamper::stamp`] but the bindings and what covers them.
    fn dress(
        &self,
        buffer: &mut [u8],
        packet: Range<usize>,
        ids: &mut PacketIds,
        now_us: u64,
    ) -> Result<Range<usize>, CapabilityError> {
        let original = self.read(&buffer[packet.clone()]).ok_or(CapabilityError::NotAPacket)?;
        if !self.allows(original.destination) {
            return Err(CapabilityError::OutsidePrefix);
        }
        let payload = packet.start + original.payload.start..packet.start + original.payload.end;
        let needed = self.headroom();
        let start = payload.start.checked_sub(needed);
        let start = start.ok_or(CapabilityError::Headroom { given: packet.start, needed })?;
        if needed + payload.len() > usize::from(u16::MAX) {
            return Err(CapabilityError::PacketTooLarge);
        }
        let stamped = &mut buffer[start..payload.end];
        self.fill(&mut stamped[self.outer_len()..needed], &original, ids, now_us);
        self.surround(stamped, self.outer_len(), &original);
        Ok(start..payload.end)
    }

    /// Stamps what is no IP packet but goes from one address to another: the payload that stands at
    /// `payload` of `buffer`, with [`Stamper::headroom`] bytes free before it. For
    /// [`Encapsulation::Datagram`] alone. Returns where header and payload stand.
    ///
    /// # Errors
    /// When the encapsulation is another, or as [`Stamper::stamp`].
    ///
    /// # Panics
    /// When `payload` is not within `buffer`.
    pub fn stamp_payload(
        &self,
        buffer: &mut [u8],
        payload: Range<usize>,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        ids: &mut PacketIds,
        now_us: u64,
    ) -> Result<Range<usize>, CapabilityError> {
        if self.encapsulation != Encapsulation::Datagram {
            return Err(CapabilityError::BadParameter("the encapsulation"));
        }
        if Family::of(source) != self.family {
            return Err(CapabilityError::Mixed("family of addresses"));
        }
        if !self.allows(destination) {
            return Err(CapabilityError::OutsidePrefix);
        }
        let needed = self.headroom();
        let start = payload.start.checked_sub(needed);
        let start = start.ok_or(CapabilityError::Headroom { given: payload.start, needed })?;
        if payload.len() > usize::from(u16::MAX) - needed {
            return Err(CapabilityError::PacketTooLarge);
        }
        let original = Original {
            source,
            destination,
            protocol,
            hop_limit: 0,
            traffic_class: 0,
            flow_label: 0,
            do_not_fragment: false,
            payload: 0..payload.len(),
        };
        let stamped = &mut buffer[start..payload.end];
        self.fill(&mut stamped[..needed], &original, ids, now_us);
        self.bind(stamped);
        Ok(start..payload.end)
    }

    fn read(&self, packet: &[u8]) -> Option<Original> {
        match self.family {
            Family::V4 => read_v4(packet),
            Family::V6 => read_v6(packet),
        }
    }

    fn fill(&self, header: &mut [u8], original: &Original, ids: &mut PacketIds, now_us: u64) {
        header.copy_from_slice(&self.template);
        if original.do_not_fragment {
            header[0] |= FLAG_DF;
        }
        let fixed_len = self.family.fixed_len();
        let mut writer = Writer { rest: &mut header[4..] };
        writer.address(original.source);
        writer.address(original.destination);
        header[fixed_len - 12] = original.protocol;
        let inner_len = original.payload.len() as u16;
        header[fixed_len - 10..fixed_len - 8].copy_from_slice(&inner_len.to_be_bytes());
        header[fixed_len - 8..fixed_len].copy_from_slice(&ids.next(now_us).0.to_be_bytes());
    }

    /// Bytes before the Platypus header.
    fn outer_len(&self) -> usize {
        self.encapsulation.outer_len(self.family)
    }

    /// Binds all capabilities of a stamped packet to it.
    fn bind(&self, stamped: &mut [u8]) {
        let (header, payload) = stamped[self.outer_len()..].split_at_mut(self.template.len());
        let mut message = Message::empty();
        message.write(header, &self.layout, 0);
        for (index, key) in self.keys.iter().enumerate() {
            message.set_index(index as u8);
            let mac = key.mac(&message, payload);
            let at = self.layout.places[index].binding_at();
            header[at..at + BINDING_LEN].copy_from_slice(&mac[..BINDING_LEN]);
        }
    }

    /// The same for several packets: side by side where the suite can, else one after the other.
    fn bind_side_by_side(
        &self,
        arena: &mut [u8],
        all: &[Option<Range<usize>>; LANES],
        messages: &mut Messages,
    ) {
        for (lane, stamped) in all.iter().enumerate() {
            messages.clear(lane);
            let Some(stamped) = stamped else { continue };
            if matches!(self.keys[0], MacKey::Aes(..)) {
                messages.set(lane, &arena[stamped.start + self.outer_len()..], &self.layout);
            } else {
                self.bind(&mut arena[stamped.clone()]);
            }
        }
        for (index, key) in self.keys.iter().enumerate() {
            let MacKey::Aes(_, key) = key else { return };
            messages.set_index(index as u8);
            let macs = messages.macs_under(key);
            let at = self.outer_len() + self.layout.places[index].binding_at();
            for (stamped, mac) in all.iter().zip(&macs.0) {
                if let Some(stamped) = stamped {
                    arena[stamped.start + at..][..BINDING_LEN].copy_from_slice(&mac[..BINDING_LEN]);
                }
            }
        }
    }

    fn surround(&self, packet: &mut [u8], outer_len: usize, original: &Original) {
        let (source, destination, protocol) = match self.encapsulation {
            Encapsulation::Datagram => return,
            Encapsulation::Ip { source } => (source, None, PLATYPUS_PROTOCOL),
            Encapsulation::Udp { source, source_port, destination, port } => {
                let at = outer_len - UDP_LEN;
                let len = (packet.len() - at) as u16;
                let mut writer = Writer { rest: &mut packet[at..outer_len] };
                for word in [source_port, port, len, 0] {
                    writer.put(&word.to_be_bytes());
                }
                (source, destination, UDP)
            }
        };
        let header = IpHeader {
            family: self.family,
            source: source.unwrap_or(original.source).into(),
            destination: destination.unwrap_or(self.first_waypoint).into(),
            protocol,
            hop_limit: original.hop_limit,
            traffic_class: original.traffic_class,
            flow_label: original.flow_label,
            identification: 0,
            // Always: waypoints drop fragments, and a router on the way
            // had better say that a packet is too big.
            do_not_fragment: true,
        };
        header.write(packet);
    }

    /// What covers the bindings, so that it comes after them: the checksum that IPv6 wants of UDP.
    fn complete(&self, stamped: &mut [u8]) {
        if matches!(self.encapsulation, Encapsulation::Udp { .. }) && self.family == Family::V6 {
            write_udp_checksum_v6(stamped);
        }
    }
}

fn read_v4(packet: &[u8]) -> Option<Original> {
    let header: &[u8; V4_LEN] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0F) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < V4_LEN || total < header_len || total > packet.len() {
        return None;
    }
    let is_whole = must_travel_whole(header);
    Some(Original {
        source: address(&header[12..16]),
        destination: address(&header[16..20]),
        protocol: if is_whole { WHOLE_PACKET } else { header[9] },
        hop_limit: header[8],
        traffic_class: header[1],
        flow_label: 0,
        do_not_fragment: forbids_fragments(header),
        payload: if is_whole { 0..total } else { V4_LEN..total },
    })
}

fn read_v6(packet: &[u8]) -> Option<Original> {
    let header: &[u8; V6_LEN] = packet.first_chunk()?;
    let end = V6_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || end > packet.len() {
        return None;
    }
    let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    Some(Original {
        source: address(&header[8..24]),
        destination: address(&header[24..40]),
        protocol: header[6],
        hop_limit: header[7],
        traffic_class: (first >> 20) as u8,
        flow_label: first & FLOW_LABEL,
        do_not_fragment: false,
        payload: V6_LEN..end,
    })
}

impl std::fmt::Debug for Stamper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stamper")
            .field("first_waypoint", &self.first_waypoint)
            .field("capabilities", &self.keys.len())
            .field("encapsulation", &self.encapsulation)
            .finish_non_exhaustive()
    }
}
