//! One lane after the other, by the `aes` crate.

use std::mem::ManuallyDrop;

use super::{LANES, Row};
use crate::prf::{AesKey, BLOCK, xor};

/// CBC-MAC of each lane's blocks under its key.
pub(super) fn cbc_macs(keys: &Row, rows: &[Row], lens: &[u8; LANES]) -> Row {
    let mut macs = Row::ZERO;
    for (lane, mac) in macs.0.iter_mut().enumerate() {
        let rows = &rows[..usize::from(lens[lane])];
        if !rows.is_empty() {
            *mac = of_lane(&keys.0[lane], rows.iter().map(|row| &row.0[lane]));
        }
    }
    macs
}

/// The same with one key for all lanes.
pub(super) fn cbc_macs_under(key: &[u8; BLOCK], rows: &[Row], lens: &[u8; LANES]) -> Row {
    cbc_macs(&Row([*key; LANES]), rows, lens)
}

fn of_lane<'a>(key: &[u8; BLOCK], blocks: impl Iterator<Item = &'a [u8; BLOCK]>) -> [u8; BLOCK] {
    // Not dropped: that would wipe round keys byte by byte, which takes longer than to use them.
    let key = ManuallyDrop::new(AesKey::new(key));
    let mut state = [0; BLOCK];
    for block in blocks {
        xor(&mut state, block);
        key.encrypt(&mut state);
    }
    state
}
