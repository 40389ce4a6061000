//! The Platypus header: a checked view over bytes. `docs/platypus.md`, section 2.
//!
//! Invariant: a [`Layout`] is made by [`Layout::parse`] alone, so every offset in it lies within
//! the bytes it was made from, and every capability it tells of is in its one encoding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bits::Bits;
use crate::{
    Delegation, DelegationId, Delegations, DropReason, Epoch, Flags, PacketId, Prefix, Principal,
    Scheme, Suite,
};

/// Capabilities of one packet, at most.
pub const MAX_CAPABILITIES: usize = 4;
/// Delegations of one capability, at most.
pub const MAX_LEVELS: usize = 3;
/// Bytes of a binding. With 64 bits, guesses at 10 million packets a
/// second take 29,000 years for an even chance.
pub const BINDING_LEN: usize = 8;

/// The family of all addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Addresses of 4 bytes.
    V4,
    /// Addresses of 16 bytes.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Bytes of an address.
    pub const fn address_len(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Bytes before the first capability.
    pub const fn fixed_len(self) -> usize {
        16 + 2 * self.address_len()
    }
}

/// Bytes of a capability with so many delegations, its binding included.
pub(crate) const fn capability_len(family: Family, levels: usize) -> usize {
    family.address_len() + 8 + levels * (family.address_len() + 4) + BINDING_LEN
}

/// The largest header: IPv6, four capabilities with three delegations each.
pub(crate) const MAX_HEADER_LEN: usize =
    Family::V6.fixed_len() + MAX_CAPABILITIES * capability_len(Family::V6, MAX_LEVELS);

/// Where things are in a header that was found to be well-formed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) family: Family,
    pub(crate) suite: Suite,
    pub(crate) do_not_fragment: bool,
    pub(crate) count: u8,
    pub(crate) pointer: u8,
    pub(crate) header_len: u16,
    pub(crate) inner_len: u16,
    /// Offset, levels and scheme of each capability.
    pub(crate) places: [Place; MAX_CAPABILITIES],
}

/// Where a capability is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) at: u16,
    /// Where its binding is.
    pub(crate) binding_at: u16,
    pub(crate) levels: u8,
    pub(crate) scheme: Scheme,
}

impl Place {
    pub(crate) const NONE: Self =
        Self { at: 0, binding_at: 0, levels: 0, scheme: Scheme::CaveatChain };

    #[inline]
    pub(crate) fn binding_at(&self) -> usize {
        usize::from(self.binding_at)
    }
}

impl Layout {
    pub(crate) const NONE: Self = Self {
        family: Family::V4,
        suite: Suite::HeaderAes,
        do_not_fragment: false,
        count: 0,
        pointer: 0,
        header_len: 0,
        inner_len: 0,
        places: [Place::NONE; MAX_CAPABILITIES],
    };

    /// Checks a header with the payload behind it, which together are all of `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let mut layout = Self::NONE;
        layout.read(bytes)?;
        Ok(layout)
    }

    /// The same, in place; returns the place of the current capability, which would be waited for
    /// if it were read back from where it has just been written. What is left behind by a header
    /// that is refused says nothing.
    #[inline(always)]
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Place, DropReason> {
        let Some(&[version_flags, suite, count, pointer]) = bytes.first_chunk::<4>() else {
            return Err(DropReason::Truncated);
        };
        if version_flags >> 4 != VERSION {
            return Err(DropReason::Version);
        }
        if version_flags & RESERVED_FLAGS != 0 {
            return Err(DropReason::Reserved);
        }
        let is_v6 = version_flags & FLAG_V6 != 0;
        let family = if is_v6 { Family::V6 } else { Family::V4 };
        let do_not_fragment = version_flags & FLAG_DF != 0;
        if is_v6 && do_not_fragment {
            return Err(DropReason::Reserved);
        }
        let suite = Suite::from_number(suite).ok_or(DropReason::Suite)?;
        if count == 0 || usize::from(count) > MAX_CAPABILITIES {
            return Err(DropReason::Count);
        }
        if pointer >= count {
            return Err(DropReason::Pointer);
        }
        // Once for each family, so that offsets are constants.
        let current = match family {
            Family::V4 => self.read_capabilities(bytes, Family::V4, count, pointer)?,
            Family::V6 => self.read_capabilities(bytes, Family::V6, count, pointer)?,
        };
        (self.family, self.suite, self.do_not_fragment) = (family, suite, do_not_fragment);
        (self.count, self.pointer) = (count, pointer);
        Ok(current)
    }

    /// The lengths, and where the capabilities are.
    #[inline(always)]
    fn read_capabilities(
        &mut self,
        bytes: &[u8],
        family: Family,
        count: u8,
        pointer: u8,
    ) -> Result<Place, DropReason> {
        let fixed_len = family.fixed_len();
        let &[_, units, inner_high, inner_low] = bytes
            .get(fixed_len - 12..)
            .and_then(|rest| rest.first_chunk::<4>())
            .ok_or(DropReason::Truncated)?;
        let header_len = usize::from(units) * 4;
        let header = bytes.get(..header_len).ok_or(DropReason::Truncated)?;
        let (mut at, mut current) = (fixed_len, Place::NONE);
        for (index, place) in (0..).zip(&mut self.places[..usize::from(count)]) {
            let (checked, end) = check_capability(header, at, family)?;
            current = if index == pointer { checked } else { current };
            (*place, at) = (checked, end);
        }
        if at != header_len {
            return Err(DropReason::HeaderLength);
        }
        let inner_len = u16::from_be_bytes([inner_high, inner_low]);
        if bytes.len() - header_len != usize::from(inner_len) {
            return Err(DropReason::InnerLength);
        }
        (self.header_len, self.inner_len) = (header_len as u16, inner_len);
        Ok(current)
    }
}

impl Layout {
    /// The capability that the pointer is at.
    #[inline]
    pub(crate) fn current(&self) -> Place {
        self.places[usize::from(self.pointer) % MAX_CAPABILITIES]
    }
}

/// One capability that begins at `at`, and where the next one would.
#[inline(always)]
fn check_capability(
    header: &[u8],
    at: usize,
    family: Family,
) -> Result<(Place, usize), DropReason> {
    let width = family.address_len();
    let Some(&[scheme_levels, flags]) =
        header.get(at + width + 6..).and_then(|rest| rest.first_chunk::<2>())
    else {
        return Err(DropReason::HeaderLength);
    };
    let scheme = Scheme::from_number(scheme_levels >> 4).ok_or(DropReason::Scheme)?;
    let levels = usize::from(scheme_levels & 0x0F);
    let most = if scheme == Scheme::CaveatChain { MAX_LEVELS } else { 1 };
    if levels > most {
        return Err(DropReason::Levels);
    }
    if scheme != Scheme::CaveatChain && family != Family::V4 {
        return Err(DropReason::Family);
    }
    if Flags::from_bits(flags).is_none() {
        return Err(DropReason::Reserved);
    }
    let end = at + capability_len(family, levels);
    if end > header.len() {
        return Err(DropReason::HeaderLength);
    }
    for level in 0..levels {
        let start = at + width + 8 + level * (width + 4);
        let (prefix, len) = (Bits::read(family, &header[start..]), header[start + width]);
        if usize::from(len) > 8 * width || prefix.prefix(len) != prefix {
            return Err(DropReason::Prefix);
        }
    }
    let binding_at = (end - BINDING_LEN) as u16;
    Ok((Place { at: at as u16, binding_at, levels: levels as u8, scheme }, end))
}

/// What of a header the verifier looks at, read at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    pub(crate) source: Bits,
    pub(crate) destination: Bits,
    pub(crate) protocol: u8,
    pub(crate) id: PacketId,
    pub(crate) waypoint: Bits,
    pub(crate) principal: Principal,
    pub(crate) window_byte: u8,
    pub(crate) epoch: Epoch,
}

impl Fields {
    pub(crate) const NONE: Self = Self {
        source: Bits::ZERO,
        destination: Bits::ZERO,
        protocol: 0,
        id: PacketId(0),
        waypoint: Bits::ZERO,
        principal: Principal(0),
        window_byte: 0,
        epoch: Epoch(0),
    };

    /// The fixed part, and the current capability.
    #[inline(always)]
    pub(crate) fn read(header: &[u8], family: Family, current: Place) -> Self {
        let capability = &header[usize::from(current.at)..];
        match family {
            Family::V4 => {
                let fixed: &[u8; 24] = chunk(header);
                let capability: &[u8; 12] = chunk(capability);
                let addresses = [chunk(&fixed[4..]), chunk(&fixed[8..]), chunk(capability)];
                let addresses = addresses.map(|octets| Bits::v4(*octets));
                Self::of(addresses, chunk(&fixed[12..]), chunk(&capability[4..]))
            }
            Family::V6 => {
                let fixed: &[u8; 48] = chunk(header);
                let capability: &[u8; 24] = chunk(capability);
                let addresses = [chunk(&fixed[4..]), chunk(&fixed[20..]), chunk(capability)];
                let addresses = addresses.map(|octets| Bits::v6(*octets));
                Self::of(addresses, chunk(&fixed[36..]), chunk(&capability[16..]))
            }
        }
    }

    #[inline(always)]
    fn of(addresses: [Bits; 3], fixed: &[u8; 12], capability: &[u8; 8]) -> Self {
        let [source, destination, waypoint] = addresses;
        let [protocol, _, _, _, id @ ..] = *fixed;
        let [a, b, c, d, window_byte, epoch, _, _] = *capability;
        Self {
            source,
            destination,
            protocol,
            id: PacketId(u64::from_be_bytes(id)),
            waypoint,
            principal: Principal(u32::from_be_bytes([a, b, c, d])),
            window_byte,
            epoch: Epoch(epoch),
        }
    }
}

#[inline(always)]
fn chunk<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.first_chunk().expect("invariant: the layout lies within the bytes")
}

/// An address of 4 or 16 bytes.
#[inline]
pub(crate) fn address(bytes: &[u8]) -> IpAddr {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(v4).into();
    }
    let v6: [u8; 16] = bytes.try_into().expect("invariant: an address has 4 or 16 bytes");
    Ipv6Addr::from(v6).into()
}

/// Prefix, length and id of delegation `level` of a capability
/// on the wire that was found to be well-formed.
#[inline]
pub(crate) fn delegation_bits(
    wire: &[u8],
    family: Family,
    level: usize,
) -> (Bits, u8, DelegationId) {
    let width = family.address_len();
    let wire = &wire[width + 8 + level * (width + 4)..];
    let id = DelegationId::from_bytes(*chunk(&wire[width + 1..]));
    (Bits::read(family, wire), wire[width], id)
}

/// Delegation `level` of a capability on the wire that was found to be well-formed.
#[inline]
pub(crate) fn delegation_at(wire: &[u8], family: Family, level: usize) -> Delegation {
    let (prefix, len, id) = delegation_bits(wire, family, level);
    let prefix = Prefix::canonical(prefix.address(family), len)
        .expect("invariant: prefixes were checked when the header was parsed");
    Delegation { prefix, id }
}

/// A well-formed header and its payload.
#[derive(Debug, Clone, Copy)]
pub struct HeaderView<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> HeaderView<'a> {
    /// A view of a header with its payload; nothing may follow.
    ///
    /// # Errors
    /// The reason for which a waypoint would drop it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DropReason> {
        Ok(Self { bytes, layout: Layout::parse(bytes)? })
    }

    /// The family of all addresses.
    pub fn family(&self) -> Family {
        self.layout.family
    }

    /// How bindings are computed.
    pub fn suite(&self) -> Suite {
        self.layout.suite
    }

    /// Whether the original IPv4 packet must not be fragmented.
    pub fn do_not_fragment(&self) -> bool {
        self.layout.do_not_fragment
    }

    /// Capabilities: 1 to 4.
    pub fn count(&self) -> usize {
        usize::from(self.layout.count)
    }

    /// The current capability, from 0.
    pub fn pointer(&self) -> usize {
        usize::from(self.layout.pointer)
    }

    /// Who sent the original packet.
    pub fn source(&self) -> IpAddr {
        address(&self.bytes[4..4 + self.family().address_len()])
    }

    /// Where the original packet goes in the end.
    pub fn destination(&self) -> IpAddr {
        let width = self.family().address_len();
        address(&self.bytes[4 + width..4 + 2 * width])
    }

    /// The IP protocol of the payload; 4 means that the payload is a whole IPv4 packet.
    pub fn protocol(&self) -> u8 {
        self.bytes[self.family().fixed_len() - 12]
    }

    /// The packet's id.
    pub fn id(&self) -> PacketId {
        let at = self.family().fixed_len() - 8;
        PacketId(u64::from_be_bytes(self.array(at)))
    }

    /// The header alone.
    pub fn header(&self) -> &'a [u8] {
        &self.bytes[..usize::from(self.layout.header_len)]
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[usize::from(self.layout.header_len)..]
    }

    /// The waypoint of capability `index`.
    ///
    /// # Panics
    /// As the others below, when there is no capability `index`.
    pub fn waypoint(&self, index: usize) -> IpAddr {
        let at = self.at(index);
        address(&self.bytes[at..at + self.family().address_len()])
    }

    /// Who pays for capability `index`.
    pub fn principal(&self, index: usize) -> Principal {
        Principal(u32::from_be_bytes(self.array(self.at(index) + self.family().address_len())))
    }

    /// The low byte of the key window of capability `index`.
    pub fn window_byte(&self, index: usize) -> u8 {
        self.bytes[self.at(index) + self.family().address_len() + 4]
    }

    /// The epoch of capability `index`.
    pub fn epoch(&self, index: usize) -> Epoch {
        Epoch(self.bytes[self.at(index) + self.family().address_len() + 5])
    }

    /// The delegation scheme of capability `index`.
    pub fn scheme(&self, index: usize) -> Scheme {
        self.place(index).scheme
    }

    /// The delegations of capability `index`, or `None` when they do not nest.
    pub fn delegations(&self, index: usize) -> Option<Delegations> {
        let mut delegations = Delegations::default();
        for level in 0..usize::from(self.place(index).levels) {
            delegations.push(self.delegation(index, level)).ok()?;
        }
        Some(delegations)
    }

    /// The binding of capability `index`.
    pub fn binding(&self, index: usize) -> [u8; BINDING_LEN] {
        self.array(self.place(index).binding_at())
    }

    /// How often capability `index` was delegated.
    pub fn levels(&self, index: usize) -> usize {
        usize::from(self.place(index).levels)
    }

    /// Delegation `level` of capability `index`.
    pub(crate) fn delegation(&self, index: usize, level: usize) -> Delegation {
        delegation_at(&self.bytes[self.at(index)..], self.family(), level)
    }

    fn place(&self, index: usize) -> Place {
        assert!(index < self.count(), "there is no capability {index}");
        self.layout.places[index]
    }

    fn at(&self, index: usize) -> usize {
        usize::from(self.place(index).at)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("invariant: the layout lies within the bytes")
    }
}

pub(crate) const VERSION: u8 = 1;
pub(crate) const FLAG_V6: u8 = 1;
pub(crate) const FLAG_DF: u8 = 2;
const RESERVED_FLAGS: u8 = 0x0F & !(FLAG_V6 | FLAG_DF);
/// Where the pointer is: the one byte of the header that changes on the way.
pub(crate) const POINTER_AT: usize = 3;

// The length is a byte in units of four.
const _: () = assert!(MAX_HEADER_LEN / 4 <= u8::MAX as usize);
