//! Segments of one TCP connection that follow each other in a batch, put under one header for the
//! device: what `superpacket` cuts, the other way round. The stack then takes them in one go.
//!
//! Invariant: nothing here panics, whatever the bytes. Segments are put together only if the stack
//! would have taken them all for good, with right checksums, and cutting the whole gives them
//! again; but for identifications of IPv4, which nobody needs of packets that are not to be cut.
//! Source: RFC 9293, Linux `include/uapi/linux/virtio_net.h`, `net/ipv4/tcp_offload.c`.

use super::batch::IpBatch;
use super::head::{RunHead, TCP_ACK, Written};
use super::header::{self, IPV4_LEN, IPV6_LEN};
use super::superpacket::{PROTOCOL_TCP, TCP_LEN, TCP_PSH};
use crate::checksum::{fold, sum};

/// A run: what to write before the payloads of its packets.
pub(super) struct Run {
    pub(super) packets: usize,
    head: Written,
    /// Bytes of the headers of each packet.
    headers: usize,
}

impl Run {
    /// The run that begins with packet `first`; `None` when it would be one packet.
    pub(super) fn of(batch: &IpBatch, first: usize) -> Option<Self> {
        // Most packets that are alone are seen here to be so, before anything is summed up.
        let begin = Segment::of(batch.packet(first))?;
        let mut last =
            Segment::of(batch.packets(first + 1)?).filter(|next| begin.precedes(&begin, next))?;
        let is_right = |it: &Segment<'_>| it.has_right_checksum();
        if !is_right(&begin) || !is_right(&last) {
            return None;
        }
        let mut packets = 2;
        let mut len = begin.bytes.len() + last.payload().len();
        while let Some(next) = batch.packets(first + packets).and_then(Segment::of) {
            len += next.payload().len();
            if len > usize::from(u16::MAX) || !begin.precedes(&last, &next) || !is_right(&next) {
                len -= next.payload().len();
                break;
            }
            (last, packets) = (next, packets + 1);
        }
        begin.under_one_header(&last, packets, len)
    }

    /// Prefix and headers.
    pub(super) fn head(&self) -> &[u8] {
        self.head.bytes()
    }

    /// The payload of a packet of the run.
    pub(super) fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.headers..).unwrap_or_default()
    }
}

/// A segment that may be put together with others.
#[derive(Clone, Copy)]
struct Segment<'a> {
    bytes: &'a [u8],
    /// Where the TCP header begins, and where it ends.
    tcp: usize,
    end: usize,
}

impl<'a> Segment<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        header::is_whole(bytes).then_some(())?;
        let tcp = match bytes[0] >> 4 {
            // Without options, and no fragment.
            4 if bytes[0] == 0x45
                && bytes[9] == PROTOCOL_TCP
                && bytes[6] & 0xBF == 0
                && bytes[7] == 0 =>
            {
                IPV4_LEN
            }
            6 if bytes[6] == PROTOCOL_TCP => IPV6_LEN,
            _ => return None,
        };
        let end = tcp + usize::from(*bytes.get(tcp + 12)? >> 4) * 4;
        let flags = *bytes.get(tcp + 13)?;
        let is_data = flags & !TCP_PSH == TCP_ACK && end >= tcp + TCP_LEN && end < bytes.len();
        is_data.then_some(Self { bytes, tcp, end })
    }

    fn payload(&self) -> &'a [u8] {
        &self.bytes[self.end..]
    }

    fn sequence(&self) -> u32 {
        let at = self.tcp + 4;
        u32::from_be_bytes([
            self.bytes[at],
            self.bytes[at + 1],
            self.bytes[at + 2],
            self.bytes[at + 3],
        ])
    }

    /// Whether `next` continues a run from `self` to `last`.
    fn precedes(&self, last: &Self, next: &Self) -> bool {
        let (a, b) = (self.bytes, next.bytes);
        let step = self.payload().len();
        let same = |range: std::ops::Range<usize>| a.get(range.clone()) == b.get(range);
        let addresses = match self.tcp {
            // All but length, identification and checksum.
            IPV4_LEN => same(0..2) && same(6..10) && same(12..20),
            _ => same(0..4) && same(6..40),
        };
        let tcp = self.tcp;
        (self.tcp, self.end) == (next.tcp, next.end)
            && addresses
            // Ports; acknowledgement and length; window; the rest but flags and checksum.
            && same(tcp..tcp + 4)
            && same(tcp + 8..tcp + 13)
            && same(tcp + 14..tcp + 16)
            && same(tcp + 18..self.end)
            && last.payload().len() == step
            && last.bytes[tcp + 13] & TCP_PSH == 0
            && next.payload().len() <= step
            && next.sequence() == last.sequence().wrapping_add(step as u32)
    }

    fn pseudo_header(&self, len: usize) -> u64 {
        let addresses = if self.tcp == IPV4_LEN { &self.bytes[12..20] } else { &self.bytes[8..40] };
        sum(addresses) + sum(&(len as u32).to_be_bytes()) + sum(&[0, PROTOCOL_TCP])
    }

    fn has_right_checksum(&self) -> bool {
        let segment = &self.bytes[self.tcp..];
        let is_right = fold(self.pseudo_header(segment.len()) + sum(segment)) == u16::MAX;
        is_right && (self.tcp != IPV4_LEN || fold(sum(&self.bytes[..IPV4_LEN])) == u16::MAX)
    }

    /// What is written before the payloads, of `len` bytes with their headers.
    fn under_one_header(&self, last: &Self, packets: usize, len: usize) -> Option<Run> {
        let head = RunHead::parse(self.bytes)?.pushed(last.bytes[self.tcp + 13] & TCP_PSH != 0);
        let head = head.before(len - self.end, self.payload().len())?;
        Some(Run { packets, head, headers: self.end })
    }
}

#[cfg(test)]
mod tests {
    use super::super::superpacket::{self, tests::superpacket};
    use super::*;

    /// What the device would be given for a run.
    fn joined(batch: &IpBatch, first: usize) -> Option<(usize, Vec<u8>)> {
        let run = Run::of(batch, first)?;
        let mut given = run.head().to_vec();
        for number in first..first + run.packets {
            given.extend_from_slice(run.payload(batch.packet(number)));
        }
        Some((run.packets, given))
    }

    /// Segments of a connection, as they are cut.
    fn segments(v4: bool, payload: usize) -> Vec<Vec<u8>> {
        let mut given = superpacket(v4, payload, 1000);
        let flags = superpacket::PREFIX_LEN + if v4 { 20 } else { 40 } + 13;
        given[flags] = TCP_ACK | TCP_PSH;
        let mut batch = IpBatch::new(1500);
        superpacket::accept(&mut given, &mut batch).unwrap();
        batch.iter().map(|(_, packet)| packet.to_vec()).collect()
    }

    fn batch(packets: &[Vec<u8>]) -> IpBatch {
        let mut batch = IpBatch::new(1500);
        assert!(packets.iter().all(|packet| batch.push(packet)));
        batch
    }

    #[test]
    fn what_is_put_together_is_what_was_cut() {
        for v4 in [true, false] {
            for payload in [1001, 2000, 2500, 64_000] {
                let segments = segments(v4, payload);
                let (count, mut given) = joined(&batch(&segments), 0).unwrap();
                assert_eq!(count, segments.len());
                let mut again = IpBatch::new(1500);
                assert_eq!(superpacket::accept(&mut given, &mut again), Some(count));
                let again: Vec<_> = again.iter().map(|(_, packet)| packet.to_vec()).collect();
                assert_eq!(again, segments);
            }
        }
    }

    #[test]
    fn what_does_not_follow_stays_alone() {
        let good = segments(false, 3000);
        let alone = |change: &dyn Fn(&mut Vec<u8>), but: usize| {
            let mut packets = good.clone();
            change(&mut packets[1]);
            let found = joined(&batch(&packets), 0).map_or(1, |it| it.0);
            assert_eq!(found, but);
        };
        let set = |at: usize, value: u8| move |packet: &mut Vec<u8>| packet[at] ^= value;
        alone(&|_| {}, 3);
        for at in [0, 1, 3, 7, 9, 23, 39, 41, 43, 44, 48, 52, 53, 55, 57, 60, 71, 72, 500] {
            alone(&set(at, 1), 1);
        }
        // A gap, and an end that is pushed.
        let gap = [good[0].clone(), good[2].clone()];
        assert!(joined(&batch(&gap), 0).is_none());
        assert!(joined(&batch(&good), 2).is_none(), "the last one");
        assert_eq!(joined(&batch(&good), 1).unwrap().0, 2);
        // Two connections after each other.
        let both = [good.clone(), segments(true, 2000)].concat();
        assert_eq!(joined(&batch(&both), 0).unwrap().0, 3);
        assert_eq!(joined(&batch(&both), 3).unwrap().0, 2);
        // More than fits one length.
        let long = segments(false, 65_000);
        let more = [long.clone(), long].concat();
        assert_eq!(joined(&batch(&more), 0).unwrap().0, 65);
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(
            v4 in proptest::bool::ANY,
            payload in 1000usize..3000,
            at in 0usize..80,
            byte in 0u8..,
            len in 0usize..1100,
        ) {
            let mut packets = segments(v4, payload);
            packets[0][at] = byte;
            if let Some(second) = packets.get_mut(1) {
                second.truncate(len);
            }
            for first in 0..packets.len() {
                if let Some((count, mut given)) = joined(&batch(&packets), first) {
                    let mut again = IpBatch::new(1500);
                    proptest::prop_assert_eq!(superpacket::accept(&mut given, &mut again), Some(count));
                }
            }
        }
    }
}
