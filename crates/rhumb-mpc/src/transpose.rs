//! A square of 128 x 128 bits, turned over its diagonal.

/// Bit `j` of row `i` becomes bit `i` of row `j`. Swaps ever smaller squares (Hacker's Delight, section 7-3).
#[inline]
pub(crate) fn transpose(rows: &mut [u128; 128]) {
    swap::<64>(rows, 0x0000_0000_0000_0000_ffff_ffff_ffff_ffff);
    swap::<32>(rows, 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff);
    swap::<16>(rows, 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff);
    swap::<8>(rows, 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff);
    swap::<4>(rows, 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f);
    swap::<2>(rows, 0x3333_3333_3333_3333_3333_3333_3333_3333);
    swap::<1>(rows, 0x5555_5555_5555_5555_5555_5555_5555_5555);
}

#[inline(always)]
fn swap<const SIDE: usize>(rows: &mut [u128; 128], low: u128) {
    for pair in rows.chunks_exact_mut(2 * SIDE) {
        let (upper, lower) = pair.split_at_mut(SIDE);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            let exchanged = ((*upper >> SIDE) ^ *lower) & low;
            *lower ^= exchanged;
            *upper ^= exchanged << SIDE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_where_it_belongs() {
        let mut state = 1_u128;
        let rows: [u128; 128] = std::array::from_fn(|_| {
            state = state.wrapping_mul(0xda94_2042_e4dd_58b5_2360_ed05_1fc6_5a45).wrapping_add(1);
            state ^ state >> 61
        });
        let mut turned = rows;
        transpose(&mut turned);
        for (i, row) in rows.iter().enumerate() {
            for (j, column) in turned.iter().enumerate() {
                assert_eq!(row >> j & 1, column >> i & 1);
            }
        }
    }
}
