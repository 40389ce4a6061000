//! Packets that arrived, in blocks: those that a connection brings one behind the other are handed
//! on together, and the memory of blocks that programs have done with is used again.

use std::collections::VecDeque;

use super::{ConnectionId, Event};
use crate::packets::Packets;

/// The memory of blocks.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    spare: Vec<Packets>,
    /// For what nobody gets.
    in_vain: Packets,
}

impl Arrived {
    /// Appends a packet to the block that was handed on last, if that is of the same connection and
    /// has room, or hands on another one. Packets are put into `most` bytes of room by `put`, as in
    /// [`Packets::push_by`].
    pub(super) fn push_by<E>(
        &mut self,
        (id, as_member): (ConnectionId, bool),
        most: usize,
        put: impl FnOnce(&mut [u8]) -> Result<usize, E>,
        events: &mut VecDeque<Event>,
    ) -> Result<(), E> {
        if let Some(Event::Packets { id: of, packets, as_member: of_member }) = events.back_mut()
            && (*of, *of_member) == (id, as_member)
            && packets.bytes() + most <= MOST_OF_BLOCK
        {
            return packets.push_by(most, put);
        }
        let mut packets = self.spare.pop().unwrap_or_default();
        let done = packets.push_by(most, put);
        if packets.is_empty() {
            self.spare.push(packets);
        } else {
            events.push_back(Event::Packets { id, packets, as_member });
        }
        done
    }

    /// Opens what nobody gets, to know whether it is what it seems.
    pub(super) fn open_in_vain<E>(
        &mut self,
        most: usize,
        put: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.in_vain.clear();
        self.in_vain.push_by(most, put)
    }

    /// See [`super::Ends::lend`].
    pub(super) fn lend(&mut self, blocks: impl IntoIterator<Item = Packets>) {
        let room = MOST_SPARE.saturating_sub(self.spare.len());
        let of_use = blocks.into_iter().filter(|it| it.capacity() <= 2 * MOST_OF_BLOCK).take(room);
        self.spare.extend(of_use.map(|mut block| {
            block.clear();
            block
        }));
    }
}

/// Bytes in one block, as long as no packet is longer: as many as a run of segments has, which
/// programs hand over as one.
const MOST_OF_BLOCK: usize = 64 << 10;
/// Blocks kept for packets to come: with all of them, what two full batches of a socket bring.
const MOST_SPARE: usize = 64;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn arrive(
        arrived: &mut Arrived,
        (id, as_member): (u64, bool),
        len: usize,
        events: &mut VecDeque<Event>,
    ) {
        let put = |room: &mut [u8]| {
            room.fill(len as u8);
            Ok::<_, Infallible>(len)
        };
        let Ok(()) = arrived.push_by((ConnectionId(id), as_member), len, put, events);
    }

    /// Of whom each block is, and how long its packets are.
    fn blocks(events: &VecDeque<Event>) -> Vec<(u64, bool, Vec<usize>)> {
        let blocks = events.iter().filter_map(|event| match event {
            Event::Packets { id, packets, as_member } => {
                assert!(packets.iter().all(|it| it.iter().all(|byte| *byte == it.len() as u8)));
                Some((id.0, *as_member, packets.iter().map(<[u8]>::len).collect()))
            }
            _ => None,
        });
        blocks.collect()
    }

    #[test]
    fn packets_share_a_block_while_they_follow_each_other_and_it_has_room() {
        let (mut arrived, mut events) = (Arrived::default(), VecDeque::new());
        for (of, len) in [((1, false), 3), ((1, false), 5), ((1, true), 7), ((2, true), 9)] {
            arrive(&mut arrived, of, len, &mut events);
        }
        events.push_back(Event::MaySend { id: ConnectionId(2) });
        arrive(&mut arrived, (2, true), 11, &mut events);
        let each = [(1, false, vec![3, 5]), (1, true, vec![7]), (2, true, vec![9])];
        assert_eq!(blocks(&events), [&each[..], &[(2, true, vec![11])]].concat());
        events.clear();
        for len in [MOST_OF_BLOCK / 2, MOST_OF_BLOCK / 2, 1, MOST_OF_BLOCK + 1] {
            arrive(&mut arrived, (1, false), len, &mut events);
        }
        let lens: Vec<usize> = blocks(&events).iter().map(|(.., lens)| lens.len()).collect();
        assert_eq!(lens, [2, 1, 1]);
    }

    #[test]
    fn what_does_not_open_and_what_is_empty_leaves_no_block_behind() {
        let (mut arrived, mut events) = (Arrived::default(), VecDeque::new());
        let fail = |room: &mut [u8]| {
            room.fill(1);
            Err(())
        };
        let id = ConnectionId(1);
        assert_eq!(arrived.push_by((id, false), 9, fail, &mut events), Err(()));
        arrive(&mut arrived, (1, false), 0, &mut events);
        assert!(events.is_empty());
        arrive(&mut arrived, (1, false), 5, &mut events);
        assert_eq!(arrived.push_by((id, false), 9, fail, &mut events), Err(()));
        arrive(&mut arrived, (1, false), 7, &mut events);
        assert_eq!(blocks(&events), [(1, false, vec![5, 7])]);
    }

    #[test]
    fn memory_is_used_again_as_far_as_it_is_of_use() {
        let (mut arrived, mut events) = (Arrived::default(), VecDeque::new());
        let mut long = Packets::default();
        long.push(&[&[0; 2 * MOST_OF_BLOCK + 1]]);
        arrived.lend([long]);
        assert!(arrived.spare.is_empty());
        let mut one = Packets::default();
        one.push(&[&[1; 300]]);
        let memory = one.capacity();
        arrived.lend([one]);
        arrive(&mut arrived, (1, false), 200, &mut events);
        assert_eq!(blocks(&events), [(1, false, vec![200])]);
        let Some(Event::Packets { packets, .. }) = events.pop_back() else { panic!() };
        assert_eq!(packets.capacity(), memory);
        arrived.lend((0..=MOST_SPARE).map(|_| Packets::default()));
        assert_eq!(arrived.spare.len(), MOST_SPARE);
    }
}
