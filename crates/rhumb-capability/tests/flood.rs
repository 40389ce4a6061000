//! A flood of packets that prove nothing: nothing is allocated for them, nothing is remembered, and
//! good ones pass between them. Nor does a good packet cost an allocation, to verify or to stamp.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_capability::{
    Carriage, Encapsulation, Family, Packet, PacketIds, Stamper, Suite, Verdict, Verifier,
};

use crate::world::*;

/// Packets of `count` principals, each with some other's binding.
fn flood(suite: Suite, count: u32) -> (Vec<u8>, Vec<Packet>) {
    let credential = delegated(Family::V4, 1, suite, 2);
    let stamper = Stamper::new(&[&credential], Encapsulation::IP).unwrap();
    let packet = stamp_with(&stamper, &ip_packet(Family::V4, b"payload"), NOW_US);
    let (mut arena, mut packets) = (Vec::new(), Vec::new());
    for number in 0..count {
        let start = arena.len();
        arena.extend_from_slice(&packet);
        // The principal, the delegation ids, the packet's id.
        arena[start + 48..start + 52].copy_from_slice(&(1000 + number).to_be_bytes());
        arena[start + 61..start + 64].copy_from_slice(&number.to_be_bytes()[1..]);
        arena[start + 42..start + 44].copy_from_slice(&(number as u16).to_be_bytes());
        packets.push(Packet::new(start, packet.len(), Carriage::Ip));
    }
    (arena, packets)
}

fn allocations(verifier: &mut Verifier, arena: &mut [u8], packets: &mut [Packet]) -> u64 {
    let info = allocation_counter::measure(|| verifier.verify_batch(arena, packets, NOW_US));
    info.count_total
}

#[test]
fn unknown_principals_leave_nothing_behind() {
    for suite in Suite::ALL {
        let mut verifier = verifier(Family::V4, 1);
        let (mut arena, mut packets) = flood(suite, 5000);
        assert_eq!(allocations(&mut verifier, &mut arena, &mut packets), 0);
        assert_eq!(verifier.drops().count(rhumb_capability::DropReason::Binding), 5000);
        assert_eq!(verifier.accounts().principals().count(), 0);
        assert_eq!(verifier.accounts().total().packets, 0);
        let good = stamped(&[&credential(Family::V4, 1, suite)], &ip_packet(Family::V4, b"good"));
        assert_eq!(reason(&mut verifier, &good), None);
    }
}

#[test]
fn good_packets_cost_no_allocation_either() {
    for suite in Suite::ALL {
        for family in [Family::V4, Family::V6] {
            let credential = delegated(family, 1, suite, 3);
            let stamper = Stamper::new(&[&credential], Encapsulation::UDP).unwrap();
            let original = ip_packet(family, b"payload");
            let (room, mut ids) = (stamper.headroom(), PacketIds::new(0, 0));
            let stride = room + original.len();
            let mut arena = vec![0; 100 * stride];
            let mut packets = Vec::with_capacity(100);
            for slot in arena.chunks_mut(stride) {
                slot[room..].copy_from_slice(&original);
            }
            let stamping = allocation_counter::measure(|| {
                for (number, slot) in arena.chunks_mut(stride).enumerate() {
                    let range = stamper.stamp(slot, room..stride, &mut ids, NOW_US).unwrap();
                    let start = number * stride + range.start;
                    packets.push(Packet::new(start, range.len(), Carriage::Ip));
                }
            });
            assert_eq!(stamping.count_total, 0, "{suite}");
            // The first packet is a principal's first, which finds its place as well.
            let mut verifier = verifier(family, 1);
            assert_eq!(allocations(&mut verifier, &mut arena, &mut packets), 0, "{suite}");
            assert!(packets.iter().all(|packet| matches!(packet.verdict, Verdict::Forward(_))));
        }
    }
}
