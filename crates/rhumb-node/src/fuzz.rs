//! Properties for fuzzing.

use std::time::Instant;

use rhumb_io::ip::RunHead;
use rhumb_wire::Name;

use crate::Admits;
use crate::Packets;
use crate::ip::{Arrived, Cut, Joined, LEAST_MTU, Outgoing, Overlay, cut_run};

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

/// Any bytes as parts of runs; and a run of which the bytes say how it is cut, what of it is lost,
/// and in which order the rest comes: what the stack gets is of its sender, and what he sent.
///
/// # Panics
/// When that does not hold.
pub fn ip_runs(data: &[u8]) {
    let (me, friend) = (Name([1; 32]), Name([2; 32]));
    let now = Instant::now();
    let overlay = || Overlay::new(me, Admits::names([friend]), now);
    let mut arrived = Vec::new();
    let made_up = [[&[2], data].concat(), [&[3], data].concat()];
    let mut any = overlay();
    for part in &made_up {
        any.take((friend, false), [&part[..]], now, &mut arrived);
    }
    for one in arrived.drain(..) {
        let Arrived::Piece(piece) = one else { panic!("no packet was sent") };
        let ends = (friend.address().into(), me.address().into());
        assert_eq!(piece.head().ends(), ends);
    }
    let [longest, segment_len, order @ ..] = data else { return };
    let payload: Vec<u8> = (0..u16::MAX / 2).map(|at| (at >> 4) as u8 ^ at as u8).collect();
    let mut tcp = vec![6, 0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0];
    tcp.extend_from_slice(&payload);
    let packet = between(friend, me, &tcp);
    let head = RunHead::parse(&packet).expect("a header of TCP");
    let (mut packets, longest) = (Packets::default(), 100 + usize::from(*longest) * 8);
    assert!(cut_run((&packet, &head, 1 + usize::from(*segment_len)), 7, longest, &mut packets));
    let parts: Vec<&[u8]> = packets.iter().collect();
    assert!(parts.iter().all(|part| part.len() <= longest));
    let mut overlay = overlay();
    for pair in order.chunks(2) {
        let at = pair.iter().fold(0, |at, byte| at << 8 | usize::from(*byte));
        overlay.take((friend, false), [parts[at % parts.len()]], now, &mut arrived);
    }
    for one in arrived {
        let Arrived::Piece(piece) = one else { panic!("no packet was sent") };
        let run = Joined::new(piece);
        let head = run.head();
        let sequence = head.bytes()[head.tcp_at() + 4..].first_chunk().expect("a header of TCP");
        let at = u32::from_be_bytes(*sequence) as usize;
        for bytes in run.payloads() {
            assert_eq!(payload[at..at + bytes.len()], *bytes);
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
