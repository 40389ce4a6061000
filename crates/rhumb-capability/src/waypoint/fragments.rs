//! Cuts an original IPv4 packet that may be cut, as the router at
//! its last hop would have (RFC 791, section 3.2).

use crate::outer::{DO_NOT_FRAGMENT, V4_LEN, write_v4_checksum};

/// Hands `emit` the fragments of a packet, none of them above `mtu` bytes. False, and there are
/// none, when it must not be cut: it says so, is not IPv4 or has options.
pub fn fragments(packet: &[u8], mtu: u32, mut emit: impl FnMut(&[u8])) -> bool {
    let Some(header) = packet.first_chunk::<V4_LEN>() else { return false };
    let field = u16::from_be_bytes([header[6], header[7]]);
    let most = (mtu as usize).min(MAX_MTU).saturating_sub(V4_LEN) & !(UNIT - 1);
    if header[0] != 0x45 || field & DO_NOT_FRAGMENT != 0 || most == 0 {
        return false;
    }
    let payload = &packet[V4_LEN..];
    let mut buffer = [0; MAX_MTU];
    buffer[..V4_LEN].copy_from_slice(header);
    if header[4..6] == [0, 0] {
        // The system would give each fragment another one.
        buffer[5] = 1;
    }
    for (number, part) in payload.chunks(most).enumerate() {
        let at = number * most;
        let more = if at + part.len() < payload.len() { MORE } else { field & MORE };
        let offset = (field & OFFSET) + (at / UNIT) as u16;
        let fragment = &mut buffer[..V4_LEN + part.len()];
        let len = fragment.len() as u16;
        fragment[2..4].copy_from_slice(&len.to_be_bytes());
        fragment[6..8].copy_from_slice(&(more | offset).to_be_bytes());
        fragment[V4_LEN..].copy_from_slice(part);
        write_v4_checksum(&mut fragment[..V4_LEN]);
        emit(fragment);
    }
    true
}

/// Offsets are in units of eight bytes.
const UNIT: usize = 8;
/// The flag that more fragments follow, and the offset of this one.
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1FFF;
/// Larger fragments are not made: a link that takes more takes a jumbo frame whole.
const MAX_MTU: usize = 9216;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: usize) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend((0..len).map(|at| at as u8));
        let total = (packet.len() as u16).to_be_bytes();
        packet[2..4].copy_from_slice(&total);
        packet
    }

    #[test]
    fn fragments_make_the_packet_again_and_fit() {
        for (len, mtu) in [(1400, 1300), (3000, 576), (100, 68), (1281, 1300), (8000, 9000)] {
            let packet = packet(len);
            let (mut whole, mut last) = (Vec::new(), false);
            assert!(fragments(&packet, mtu, |fragment| {
                assert!(fragment.len() <= mtu as usize && !last);
                let field = u16::from_be_bytes([fragment[6], fragment[7]]);
                assert_eq!(usize::from(field & OFFSET) * 8, whole.len());
                last = field & MORE == 0;
                assert_eq!(&fragment[2..4], (fragment.len() as u16).to_be_bytes());
                assert_eq!(fragment[4..6], [0, 1]);
                whole.extend_from_slice(&fragment[20..]);
            }));
            assert!(last);
            assert_eq!(whole, packet[20..]);
        }
    }

    #[test]
    fn a_fragment_is_cut_further_where_it_stood() {
        let mut middle = packet(1000);
        middle[6..8].copy_from_slice(&(MORE | 185).to_be_bytes());
        let mut fields = Vec::new();
        fragments(&middle, 600, |it| fields.push(u16::from_be_bytes([it[6], it[7]])));
        assert_eq!(fields, [MORE | 185, MORE | (185 + 72)]);
    }

    #[test]
    fn what_must_not_be_cut_is_not() {
        let mut whole = packet(1000);
        whole[6] = 0x40;
        let mut options = packet(1000);
        options[0] = 0x46;
        for packet in [&whole[..], &options, &packet(1000)[..10], &[0x60; 1000]] {
            assert!(!fragments(packet, 600, |_| panic!("a fragment")));
        }
        assert!(!fragments(&packet(1000), 27, |_| panic!("a fragment")));
    }
}
