//! Reads the headers that nearly all packets have at once: IPv4 without options or UDP, and one
//! capability that is not delegated. They have a fixed length, so every field is at a fixed place,
//! and few comparisons tell that they are these.
//!
//! Invariant: what is read here is what [`Outer::parse`], [`Layout::parse`] and [`Fields::read`]
//! find in the same packet; all else is left to them, and so is to say what is wrong with a packet.

use crate::bits::Bits;
use crate::header::{
    FLAG_DF, Family, Fields, Layout, MAX_CAPABILITIES, Place, VERSION, capability_len,
};
use crate::outer::{MORE_OR_OFFSET, Outer, PLATYPUS_PROTOCOL, V4_LEN};
use crate::{BINDING_LEN, Epoch, PacketId, Principal, Scheme, Suite};

/// Bytes of such a Platypus header.
pub(crate) const HEADER_LEN: usize = Family::V4.fixed_len() + capability_len(Family::V4, 0);
/// With the IP header.
const HEADERS: usize = V4_LEN + HEADER_LEN;

/// Whether a packet is of this kind; if so, everything is written to where it
/// belongs: to return it would mean to copy it.
#[inline(always)]
pub(crate) fn read(
    packet: &[u8],
    outer: &mut Outer,
    layout: &mut Layout,
    fields: &mut Fields,
) -> bool {
    let Some(bytes) = packet.first_chunk::<HEADERS>() else { return false };
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let double = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let address = |at: usize| Bits::v4([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (end, inner_len) = (usize::from(word(2)), word(PLATYPUS_AT + 14));
    let is_of_this_kind = bytes[0] == 0x45
        && word(6) & MORE_OR_OFFSET == 0
        && bytes[9] == PLATYPUS_PROTOCOL
        && double(PLATYPUS_AT) & !MAY_DIFFER == START
        && usize::from(bytes[PLATYPUS_AT + 13]) * 4 == HEADER_LEN
        && word(CAPABILITY_AT + 10) == u16::from(Scheme::CaveatChain.number()) << 12
        && end == HEADERS + usize::from(inner_len)
        && end <= packet.len();
    let Some(suite) = Suite::from_number(bytes[PLATYPUS_AT + 1]) else { return false };
    if !is_of_this_kind {
        return false;
    }
    *outer = Outer {
        family: Family::V4,
        header_at: V4_LEN,
        end,
        destination: address(16),
        hop_limit: bytes[8],
        traffic_class: bytes[1],
        flow_label: 0,
        is_udp: false,
    };
    *layout = Layout {
        family: Family::V4,
        suite,
        do_not_fragment: bytes[PLATYPUS_AT] & FLAG_DF != 0,
        count: 1,
        pointer: 0,
        header_len: HEADER_LEN as u16,
        inner_len,
        places: PLACES,
    };
    *fields = Fields {
        source: address(PLATYPUS_AT + 4),
        destination: address(PLATYPUS_AT + 8),
        protocol: bytes[PLATYPUS_AT + 12],
        id: PacketId(
            u64::from(double(PLATYPUS_AT + 16)) << 32 | u64::from(double(PLATYPUS_AT + 20)),
        ),
        waypoint: address(CAPABILITY_AT),
        principal: Principal(double(CAPABILITY_AT + 4)),
        window_byte: bytes[CAPABILITY_AT + 8],
        epoch: Epoch(bytes[CAPABILITY_AT + 9]),
    };
    true
}

const PLATYPUS_AT: usize = V4_LEN;
const CAPABILITY_AT: usize = PLATYPUS_AT + Family::V4.fixed_len();
/// Where the one capability is in the Platypus header.
pub(crate) const PLACE: Place = Place {
    at: Family::V4.fixed_len() as u16,
    binding_at: (HEADER_LEN - BINDING_LEN) as u16,
    levels: 0,
    scheme: Scheme::CaveatChain,
};
const PLACES: [Place; MAX_CAPABILITIES] = [PLACE, Place::NONE, Place::NONE, Place::NONE];
/// The first four bytes: version, suite, one capability, which is the current one.
const START: u32 = (VERSION as u32) << 28 | 1 << 8;
/// What of them may be anything: one flag, and the suite.
const MAY_DIFFER: u32 = (FLAG_DF as u32) << 24 | 0xFF << 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Capability, Credential, Delegations, Encapsulation, EpochKeys, Flags, Master,
        PLATYPUS_PORT, PacketIds, Stamper, Window,
    };

    fn stamped(payload: usize) -> Vec<u8> {
        let capability = Capability {
            waypoint: [192, 0, 2, 1].into(),
            principal: Principal(0x0102_0304),
            flags: Flags::NONE,
            window: Window(77),
            epoch: Epoch(5),
            suite: Suite::HeaderAes,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        let keys = EpochKeys::new(Epoch(5), &Master::new([1; Master::LEN]));
        let credential = Credential::from(keys.mint(capability, 0).unwrap());
        let stamper = Stamper::new(&[&credential], Encapsulation::IP).unwrap();
        let mut buffer = vec![0; stamper.headroom()];
        buffer.extend([0x45, 7, 0, 20 + payload as u8, 0, 0, 0, 0, 64, 6, 0, 0]);
        buffer.extend([10, 1, 2, 3, 10, 4, 5, 6]);
        buffer.resize(buffer.len() + payload, 0xA5);
        let place = stamper.headroom()..buffer.len();
        let stamped = stamper.stamp(&mut buffer, place, &mut PacketIds::new(3, 4), 1).unwrap();
        buffer[stamped].to_vec()
    }

    /// What the general way finds, as text, since its parts need no comparison elsewhere.
    fn in_general(packet: &[u8]) -> Option<String> {
        let outer = Outer::parse(packet, PLATYPUS_PORT).ok()?;
        let header = &packet[outer.header_at..outer.end];
        let mut layout = Layout::NONE;
        let current = layout.read(header).ok()?;
        let fields = Fields::read(header, layout.family, current);
        Some(format!("{outer:?} {layout:?} {fields:?}"))
    }

    fn at_once(packet: &[u8]) -> Option<String> {
        let (mut outer, mut layout, mut fields) = (Outer::NONE, Layout::NONE, Fields::NONE);
        read(packet, &mut outer, &mut layout, &mut fields)
            .then(|| format!("{outer:?} {layout:?} {fields:?}"))
    }

    #[test]
    fn what_is_stamped_with_one_capability_is_of_this_kind() {
        for payload in [0, 1, 100] {
            assert!(at_once(&stamped(payload)).is_some());
            assert_eq!(at_once(&stamped(payload)), in_general(&stamped(payload)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn nothing_is_read_otherwise_than_in_general(
            payload in 0_usize..40,
            changes in prop::collection::vec((0_usize..HEADERS, any::<u8>(), any::<bool>()), 0..3),
            cut in 0_usize..110,
            more in 0_usize..5,
        ) {
            let mut packet = stamped(payload);
            for (at, value, one_bit) in changes {
                packet[at] = if one_bit { packet[at] ^ 1 << (value % 8) } else { value };
            }
            packet.resize(packet.len() + more, 0);
            packet.truncate(if cut < HEADERS { usize::MAX } else { cut });
            if let Some(found) = at_once(&packet) {
                prop_assert_eq!(Some(found), in_general(&packet));
            }
        }
    }
}
