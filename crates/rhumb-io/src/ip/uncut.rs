//! What a device gave, with superpackets as they are: for who carries runs as a whole.

use std::ops::Range;

use super::batch::IpBatch;
use super::head::RunHead;
use super::header;
use super::superpacket::{self, KIND_TCP4, KIND_TCP6, PREFIX_LEN};

/// Packets and runs, in the order in which they came. It is reused for ever, as a batch is.
#[derive(Debug)]
pub struct Uncut {
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// For what is cut after all.
    cut: IpBatch,
}

#[derive(Debug, Clone)]
struct Item {
    range: Range<usize>,
    run: Option<(RunHead, usize)>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// A packet, header and all; of a run, the lengths that it says are those of the whole.
    pub packet: &'a [u8],
    /// What the segments of a run share, and how many bytes of payload are in each but the last.
    /// `None` for a packet that is one.
    pub run: Option<(RunHead, usize)>,
}

impl Uncut {
    /// With room for packets of up to `packet_len` bytes, segments of runs included; larger ones
    /// are dropped.
    pub fn new(packet_len: usize) -> Self {
        Self { bytes: Vec::new(), items: Vec::new(), cut: IpBatch::new(packet_len) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Given<'_>> {
        let given = |it: &Item| Given { packet: &self.bytes[it.range.clone()], run: it.run };
        self.items.iter().map(given)
    }

    /// Forgets all; keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.items.last().map_or(0, |last| last.range.end)
    }

    /// Room behind all that there is.
    pub(super) fn spare(&mut self, len: usize) -> &mut [u8] {
        let begin = self.bytes();
        if self.bytes.len() < begin + len {
            self.bytes.resize(begin + len, 0);
        }
        &mut self.bytes[begin..begin + len]
    }

    /// The spare room holds `len` bytes of a prefix and what it speaks of. Says whether it was
    /// something.
    pub(super) fn received(&mut self, len: usize) -> bool {
        let begin = self.bytes();
        let Some(given) = self.bytes.get_mut(begin..begin + len) else { return false };
        if let Some(run) = run_of(given, self.cut.packet_len()) {
            self.items.push(Item { range: begin + PREFIX_LEN..begin + len, run: Some(run) });
            return true;
        }
        self.cut.clear();
        if superpacket::accept(given, &mut self.cut).is_none() {
            return false;
        }
        let mut at = begin;
        for index in 0..self.cut.len() {
            let packet = self.cut.packet(index);
            if self.bytes.len() < at + packet.len() {
                self.bytes.resize(at + packet.len(), 0);
            }
            self.bytes[at..at + packet.len()].copy_from_slice(packet);
            self.items.push(Item { range: at..at + packet.len(), run: None });
            at += packet.len();
        }
        true
    }
}

/// The run that the device gave, if it is one of those that travel as they are.
fn run_of(given: &[u8], packet_len: usize) -> Option<(RunHead, usize)> {
    let (prefix, packet) = given.split_first_chunk::<PREFIX_LEN>()?;
    let (kind, segment_len) = superpacket::run_in(prefix)?;
    header::is_whole(packet).then_some(())?;
    let head = RunHead::parse(packet)?;
    let is_v4 = packet[0] >> 4 == 4;
    let len = head.bytes().len();
    let sound = (kind == KIND_TCP4 && is_v4 || kind == KIND_TCP6 && !is_v4)
        && segment_len > 0
        && len + segment_len <= packet_len
        && packet.len() > len + segment_len;
    sound.then_some((head, segment_len))
}

impl Given<'_> {
    /// Appends the packets that a run stands for, or the packet itself, to a batch.
    pub fn cut_into(&self, packets: &mut IpBatch) {
        match self.run {
            Some((head, segment_len)) => {
                // What is too long for the batch is dropped, as where it is received.
                superpacket::cut(self.packet, head.tcp_at(), segment_len, packets);
            }
            None => drop(packets.push(self.packet)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::superpacket::tests::superpacket;
    use super::*;

    fn receive(given: &[u8], uncut: &mut Uncut) -> bool {
        uncut.spare(given.len())[..].copy_from_slice(given);
        uncut.received(given.len())
    }

    #[test]
    fn a_run_stays_whole_and_is_cut_as_it_would_have_been() {
        let mut uncut = Uncut::new(1500);
        for v4 in [true, false] {
            let given = superpacket(v4, 2500, 1000);
            assert!(receive(&given, &mut uncut));
            let mut expected = IpBatch::new(1500);
            superpacket::accept(&mut given.clone(), &mut expected).unwrap();
            let mut cut = IpBatch::new(1500);
            let whole = uncut.iter().last().unwrap();
            assert_eq!((whole.packet, whole.run.unwrap().1), (&given[PREFIX_LEN..], 1000));
            whole.cut_into(&mut cut);
            assert_eq!(cut.len(), 3);
            assert!(cut.iter().eq(expected.iter()));
        }
        assert_eq!((uncut.len(), uncut.iter().count()), (2, 2));
    }

    #[test]
    fn what_does_not_travel_as_a_run_is_cut_at_once_and_what_is_none_is_dropped() {
        let mut uncut = Uncut::new(1500);
        let given = superpacket(false, 2500, 1000);
        let with = |at: usize, byte: u8| {
            let mut other = given.clone();
            other[at] = byte;
            other
        };
        // A segment that is urgent; one with another kind; one that is larger than was said.
        assert!(receive(&with(PREFIX_LEN + 40 + 13, 0x30), &mut uncut));
        assert_eq!(uncut.len(), 3);
        assert!(uncut.iter().all(|it| it.run.is_none() && it.packet.len() <= 1072));
        assert!(!receive(&with(1, 3), &mut uncut));
        assert!(!receive(&superpacket(false, 2500, 1449), &mut uncut));
        assert!(!receive(&given[..9], &mut uncut));
        assert_eq!(uncut.len(), 3);
        uncut.clear();
        assert!(uncut.is_empty() && uncut.iter().next().is_none());
        assert!(receive(&given, &mut uncut));
        assert_eq!(uncut.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(
            prefix in proptest::array::uniform10(0u8..),
            v4 in proptest::bool::ANY,
            payload in 0usize..300,
            segment_len in 0u16..200,
            at in 0usize..80,
            byte in 0u8..,
            keeps_prefix in proptest::bool::ANY,
        ) {
            let mut given = superpacket(v4, payload, segment_len);
            if !keeps_prefix {
                given[..PREFIX_LEN].copy_from_slice(&prefix);
            }
            if let Some(place) = given.get_mut(PREFIX_LEN + at) {
                *place = byte;
            }
            let mut uncut = Uncut::new(200);
            receive(&given, &mut uncut);
            receive(&given, &mut uncut);
            let mut cut = IpBatch::new(200);
            uncut.iter().for_each(|it| it.cut_into(&mut cut));
        }
    }
}
