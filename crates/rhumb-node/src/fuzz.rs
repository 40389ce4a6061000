//! Properties for fuzzing.

use std::time::Instant;

use rhumb_wire::Name;

use crate::Admits;
use crate::ip::{Cut, LEAST_MTU, Outgoing, Overlay};

/// Any bytes, as a packet of this host's, as a datagram of a name that is allowed and of one that
/// is not: what gets through is a packet of its sender's, and nobody is led elsewhere.
///
/// # Panics
/// When that does not hold.
pub fn ip_packets(data: &[u8]) {
    let (me, friend, stranger) = (Name([1; 32]), Name([2; 32]), Name([3; 32]));
    let now = Instant::now();
    let mut overlay = Overlay::new(me, Admits::names([friend]), now);
    overlay.know(stranger, now);
    for packet in [data.to_vec(), between(me, stranger, data), between(me, friend, data)] {
        if let Outgoing::To(name) = overlay.outgoing(&packet, now) {
            assert_eq!(packet[8..24], me.address().octets());
            assert_eq!(packet[24..40], name.address().octets());
            match overlay.cut(&packet, name, 700, now) {
                Cut::Whole => assert!(packet.len() <= 700),
                Cut::Halves(halves) => assert!(halves.iter().all(|it| it.len() <= 700)),
                Cut::TooBig(_) => assert!(packet.len() > LEAST_MTU),
            }
        }
    }
    for from in [friend, stranger] {
        let halves = [[&[0, 0, 1], data].concat(), [&[1, 0, 1], data].concat()];
        let whole = [data.to_vec(), between(from, me, data), between(friend, me, data)];
        for datagram in whole.iter().chain(&halves) {
            if let Some(packet) = overlay.incoming((from, false), datagram, now) {
                assert_eq!(packet[8..24], from.address().octets());
                assert_eq!(packet[24..40], me.address().octets());
            }
        }
    }
}

/// The bytes with a header of IPv6 as it should be, but for the next one.
fn between(from: Name, to: Name, data: &[u8]) -> Vec<u8> {
    let (next, rest) = data.split_first().unwrap_or((&59, &[]));
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&(rest.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[*next, 64]);
    packet.extend_from_slice(&from.address().octets());
    packet.extend_from_slice(&to.address().octets());
    packet.extend_from_slice(rest);
    packet
}
