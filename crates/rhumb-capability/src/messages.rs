//! The headers of a group of packets as bindings of suite 1 see them, in rows of blocks.
//! `docs/platypus.md`, section 3.
//!
//! Invariant: a lane's blocks are those that
//! [`Message::write`](crate::mac::Message::write) makes of the same header.

use crate::BINDING_LEN;
use crate::commonest;
use crate::header::{Layout, POINTER_AT};
use crate::mac::{MESSAGE_BLOCKS, PREAMBLE};
use crate::prf::BLOCK;
use crate::side_by_side::{LANES, LongKey, Row, cbc_macs};

/// A message in each lane.
pub(crate) struct Messages {
    rows: [Row; MESSAGE_BLOCKS],
    /// Blocks of each lane.
    lens: [u8; LANES],
}

impl Messages {
    pub(crate) const fn empty() -> Self {
        Self { rows: [Row::ZERO; MESSAGE_BLOCKS], lens: [0; LANES] }
    }

    /// Leaves a lane without a message.
    #[inline]
    pub(crate) fn clear(&mut self, lane: usize) {
        self.lens[lane] = 0;
    }

    /// The message of the capability that the pointer is at.
    #[inline]
    pub(crate) fn set(&mut self, lane: usize, header: &[u8], layout: &Layout) {
        let long_enough = "invariant: a header was found to be well-formed";
        let header = &header[..usize::from(layout.header_len)];
        self.rows[0].0[lane] = first_block(header.first_chunk().expect(long_enough), layout);
        if let Ok(header) = <&[u8; commonest::HEADER_LEN]>::try_from(header) {
            let (_, rest) = header.split_first_chunk::<START>().expect(long_enough);
            let (second, third) = rest.split_first_chunk::<BLOCK>().expect(long_enough);
            let third = u64::from_le_bytes(*third.first_chunk().expect(long_enough));
            self.rows[1].0[lane] = *second;
            // The rest of it is the binding.
            self.rows[2].0[lane] = u128::from(third).to_le_bytes();
            self.lens[lane] = 3;
            return;
        }
        let rest = &header[START..];
        let (whole, tail) = rest.as_chunks::<BLOCK>();
        for (row, block) in self.rows[1..].iter_mut().zip(whole) {
            row.0[lane] = *block;
        }
        let mut len = 1 + whole.len();
        if !tail.is_empty() {
            let mut last = [0; BLOCK];
            for (to, from) in last.as_chunks_mut::<WORD>().0.iter_mut().zip(tail.as_chunks().0) {
                *to = *from;
            }
            self.rows[len].0[lane] = last;
            len += 1;
        }
        for place in &layout.places[..usize::from(layout.count)] {
            // It may begin in one block and end in the next, but words do not.
            let at = PREAMBLE + place.binding_at();
            for at in (at..at + BINDING_LEN).step_by(WORD) {
                let word = self.rows[at / BLOCK].0[lane][at % BLOCK..].first_chunk_mut::<WORD>();
                *word.expect("invariant: all of a header is in words") = [0; WORD];
            }
        }
        self.lens[lane] = len as u8;
    }

    /// Another capability of the same headers, in all lanes.
    pub(crate) fn set_index(&mut self, index: u8) {
        for block in &mut self.rows[0].0 {
            block[INDEX_AT] = index;
        }
    }

    /// The MACs under one key.
    pub(crate) fn macs_under(&self, key: &LongKey) -> Row {
        key.cbc_macs(&self.rows, &self.lens)
    }

    /// The MACs under these keys; zeros in lanes without a message.
    #[inline]
    pub(crate) fn macs(&self, keys: &Row) -> Row {
        cbc_macs(keys, &self.rows, &self.lens)
    }
}

/// Made of numbers and stored at once: whoever reads a block
/// back from bytes just written waits for them.
#[inline(always)]
fn first_block(start: &[u8; START], layout: &Layout) -> [u8; BLOCK] {
    let [a, b, c, _, rest @ ..] = *start;
    let [high, low] = layout.header_len.to_be_bytes();
    let preamble = u32::from_le_bytes([high, low, layout.pointer, b'B']);
    // Without the pointer.
    let first = u32::from_le_bytes([a, b, c, 0]);
    let rest = u64::from_le_bytes(rest);
    (u128::from(preamble) | u128::from(first) << 32 | u128::from(rest) << 64).to_le_bytes()
}

/// Three blocks with what stands before it.
const _: () = assert!(PREAMBLE + commonest::HEADER_LEN == 3 * BLOCK && POINTER_AT == 3);
/// Where the index of the capability is.
const INDEX_AT: usize = 2;
/// What of a header stands in the first block.
const START: usize = BLOCK - PREAMBLE;
/// All parts of a header have a whole number of these.
const WORD: usize = 4;
