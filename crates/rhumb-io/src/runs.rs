//! Regrouping a batch into runs: datagrams of one size to one
//! peer, which leave as one message (UDP_SEGMENT).
//!
//! Invariants: every datagram that was not dropped is in exactly one run; the datagrams of a run
//! have one peer and one size, but for the last, which may be shorter; a run holds at most
//! [`MAX_SEGMENTS`] datagrams and [`MAX_RUN_BYTES`] bytes (a datagram that is larger by itself is a
//! run by itself); over all runs in order, the datagrams of a peer stand in the order of their
//! slots. Per batch: linear in the number of slots, no allocation once warm.

use std::net::{IpAddr, SocketAddr};

use rhumb_wire::Batch;

/// Most segments in a run. The kernel's own bound is 64 up to Linux 6.8, and 128 since.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// Most bytes in a run: the largest UDP payload over IPv4, 65535 - 20 - 8, which IPv6 allows too.
pub(crate) const MAX_RUN_BYTES: usize = 65_507;

/// Places in the table of open runs. Peers that fall on the same place close each
/// other's runs: that costs length of runs, never order. So no keyed hash is
/// needed, although strangers choose their addresses.
const PLACES: usize = 256;

/// Marks the end of a run's chain, and an empty place.
const NONE: u32 = u32::MAX;

/// Datagrams that leave as one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Who they go to.
    pub(crate) peer: SocketAddr,
    /// Bytes of each datagram but the last, which may be shorter.
    pub(crate) segment_len: usize,
    /// How many datagrams.
    pub(crate) segments: usize,
    /// Bytes of all of them.
    pub(crate) bytes: usize,
    first: u32,
    last: u32,
    closed: bool,
}

/// The runs of one batch. Reused from batch to batch.
#[derive(Debug)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// For each slot, the next slot of its run.
    next: Vec<u32>,
    /// By place, the youngest run of the peer that used the place last.
    open: [u32; PLACES],
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self { runs: Vec::new(), next: Vec::new(), open: [NONE; PLACES] }
    }

    /// Replaces the runs by those of `batch`, with at most `max_segments` datagrams each.
    pub(crate) fn regroup(&mut self, batch: &Batch, max_segments: usize) {
        self.runs.clear();
        self.next.clear();
        self.next.resize(batch.len(), NONE);
        self.open.fill(NONE);
        for (index, slot) in batch.slots().iter().enumerate() {
            if slot.is_empty() {
                continue;
            }
            let index = u32::try_from(index).expect("invariant: a batch has fewer than 2^32 slots");
            let place = &mut self.open[place_of(&slot.peer)];
            if let Some(run) = self.runs.get_mut(*place as usize)
                && run.accepts(&slot.peer, slot.len(), max_segments)
            {
                self.next[run.last as usize] = index;
                run.last = index;
                run.segments += 1;
                run.bytes += slot.len();
                run.closed = slot.len() < run.segment_len;
                continue;
            }
            *place = u32::try_from(self.runs.len()).expect("invariant: no more runs than slots");
            self.runs.push(Run::of_one(slot.peer, slot.len(), index));
        }
    }

    /// The runs, in the order to send them in.
    pub(crate) fn as_slice(&self) -> &[Run] {
        &self.runs
    }

    /// The slots of the run at `index`, in order.
    pub(crate) fn slots(&self, index: usize) -> impl Iterator<Item = usize> {
        let run = &self.runs[index];
        let first = Some(run.first as usize);
        std::iter::successors(first, |&slot| Some(self.next[slot] as usize)).take(run.segments)
    }

    /// Replaces the run at `index` by runs of one datagram each, in the same order.
    pub(crate) fn split(&mut self, batch: &Batch, index: usize) {
        let single = |slot: usize| {
            let (peer, len) = (batch.slots()[slot].peer, batch.slots()[slot].len());
            Run::of_one(peer, len, u32::try_from(slot).expect("invariant: slots have u32 indices"))
        };
        let singles: Vec<Run> = self.slots(index).map(single).collect();
        self.runs.splice(index..=index, singles);
    }
}

impl Run {
    fn of_one(peer: SocketAddr, len: usize, slot: u32) -> Self {
        let (first, last) = (slot, slot);
        Self { peer, segment_len: len, segments: 1, bytes: len, first, last, closed: false }
    }

    fn accepts(&self, peer: &SocketAddr, len: usize, max_segments: usize) -> bool {
        !self.closed
            && len <= self.segment_len
            && self.segments < max_segments
            && self.bytes + len <= MAX_RUN_BYTES
            && self.peer == *peer
    }
}

/// Where the open run of a peer is looked for: any function of the address will do.
fn place_of(peer: &SocketAddr) -> usize {
    let address = match peer.ip() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() ^ (address.to_bits() >> 64)) as u64,
    };
    let mixed = (address ^ (u64::from(peer.port()) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A batch of (peer number, size) pairs; size 0 is a dropped datagram.
    fn batch_of(datagrams: &[(u16, usize)]) -> Batch {
        let mut batch = Batch::new();
        for &(peer, len) in datagrams {
            batch.push(SocketAddr::from(([127, 0, 0, 1], peer)), &vec![0; len]);
        }
        batch
    }

    /// Sizes of each run with its peer number.
    fn shape(batch: &Batch, max_segments: usize) -> Vec<(u16, Vec<usize>)> {
        let mut runs = Runs::new();
        runs.regroup(batch, max_segments);
        let sizes = |index| runs.slots(index).map(|slot| batch.slots()[slot].len()).collect();
        (0..runs.as_slice().len()).map(|i| (runs.as_slice()[i].peer.port(), sizes(i))).collect()
    }

    /// Checks every invariant of the module's header.
    fn check(batch: &Batch, max_segments: usize) {
        let mut runs = Runs::new();
        runs.regroup(batch, max_segments);
        let mut seen = vec![0; batch.len()];
        let mut last_of_peer = HashMap::new();
        for (index, run) in runs.as_slice().iter().enumerate() {
            let slots: Vec<usize> = runs.slots(index).collect();
            assert_eq!(slots.len(), run.segments);
            assert!((1..=max_segments).contains(&run.segments));
            assert!(run.bytes <= MAX_RUN_BYTES || run.segments == 1);
            assert_eq!(run.bytes, slots.iter().map(|&s| batch.slots()[s].len()).sum::<usize>());
            for (position, &slot) in slots.iter().enumerate() {
                seen[slot] += 1;
                assert_eq!(batch.slots()[slot].peer, run.peer);
                let len = batch.slots()[slot].len();
                if position + 1 < slots.len() {
                    assert_eq!(len, run.segment_len);
                }
                assert!(len <= run.segment_len);
                let before = last_of_peer.insert(run.peer, slot);
                assert!(before.is_none_or(|before| before < slot), "order within a peer");
            }
        }
        for (slot, times) in batch.slots().iter().zip(seen) {
            assert_eq!(times, usize::from(!slot.is_empty()));
        }
    }

    #[test]
    fn interleaved_peers_form_one_run_each() {
        let batch = batch_of(&[(1, 100), (2, 50), (1, 100), (2, 50), (1, 30), (1, 100)]);
        let expected = [(1, vec![100, 100, 30]), (2, vec![50, 50]), (1, vec![100])];
        assert_eq!(shape(&batch, MAX_SEGMENTS), expected);
        assert_eq!(shape(&batch, 1).len(), 6);
    }

    #[test]
    fn a_larger_datagram_begins_a_new_run_and_a_dropped_one_does_not() {
        let batch = batch_of(&[(1, 50), (1, 0), (1, 50), (1, 51)]);
        assert_eq!(shape(&batch, MAX_SEGMENTS), [(1, vec![50, 50]), (1, vec![51])]);
    }

    #[test]
    fn runs_end_at_their_bounds() {
        let sixty_five = batch_of(&vec![(1, 64); 65]);
        let lens: Vec<usize> = shape(&sixty_five, 64).iter().map(|run| run.1.len()).collect();
        assert_eq!(lens, [64, 1]);
        // 7 x 8900 = 62300 and 3207 more make exactly 65507; one byte more does not fit.
        let mut datagrams = vec![(1, 8900); 7];
        datagrams.push((1, 3207));
        assert_eq!(shape(&batch_of(&datagrams), 64).len(), 1);
        datagrams[7].1 += 1;
        assert_eq!(shape(&batch_of(&datagrams), 64).len(), 2);
        assert_eq!(shape(&batch_of(&[(1, 65_508), (1, 1)]), 64).len(), 2);
    }

    #[test]
    fn a_split_run_keeps_its_order() {
        let batch = batch_of(&[(1, 9), (2, 9), (1, 9), (2, 9), (1, 5)]);
        let mut runs = Runs::new();
        runs.regroup(&batch, 64);
        runs.split(&batch, 0);
        let slots: Vec<Vec<usize>> = (0..4).map(|index| runs.slots(index).collect()).collect();
        assert_eq!(slots, [vec![0], vec![2], vec![4], vec![1, 3]]);
        assert_eq!(runs.as_slice()[2].segment_len, 5);
    }

    #[test]
    fn peers_on_one_place_shorten_each_other_but_keep_order() {
        let first = SocketAddr::from(([10, 0, 0, 1], 1));
        let rival = (2..=u16::MAX)
            .map(|port| SocketAddr::from(([10, 0, 0, 1], port)))
            .find(|rival| place_of(rival) == place_of(&first))
            .expect("256 places and 65534 ports");
        let mut batch = Batch::new();
        for index in 0..20 {
            batch.push(if index % 3 == 0 { rival } else { first }, &[0; 40]);
        }
        check(&batch, MAX_SEGMENTS);
    }

    proptest::proptest! {
        #[test]
        fn regrouping_keeps_its_invariants(
            datagrams in proptest::collection::vec(
                (1u16..8, proptest::prop_oneof![
                    proptest::strategy::Just(0usize), proptest::strategy::Just(100),
                    proptest::strategy::Just(8900), 0usize..70_000, 0usize..4,
                ]), 0..300),
            max_segments in proptest::prop_oneof![
                proptest::strategy::Just(1usize), proptest::strategy::Just(MAX_SEGMENTS), 1usize..80,
            ],
        ) {
            check(&batch_of(&datagrams), max_segments);
        }
    }
}
