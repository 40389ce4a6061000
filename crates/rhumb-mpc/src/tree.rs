//! Trees of seeds of which one leaf is missing (a punctured pseudorandom function after Goldreich,
//! Goldwasser and Micali). Who grows the tree knows all leaves; the other, by one transfer per
//! level, all but the one that it chose.
//!
//! Invariant: the place of the missing leaf shows in no
//! branch and no index of the party that knows it.

use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::cipher::children;

/// Leaves from the root's left to its right, and per level
/// below the first what lets the other party follow.
pub(crate) fn grow(pairs: &[[u128; 2]], corrections: &mut Vec<[u128; 2]>) -> Zeroizing<Vec<u128>> {
    let mut nodes = Zeroizing::new(Vec::new());
    for (level, pair) in pairs.iter().enumerate() {
        if level == 0 {
            nodes.extend_from_slice(pair);
            continue;
        }
        let below = children(&nodes);
        let mut correction = *pair;
        for child in below.iter() {
            correction[0] ^= child[0];
            correction[1] ^= child[1];
        }
        corrections.push(correction);
        nodes = Zeroizing::new(below.concat());
    }
    nodes
}

/// All leaves but leaf `missing`, which is zero. Of the pair of each level,
/// `chosen` is the one that does not lead there.
pub(crate) fn grow_punctured(
    chosen: &[u128],
    missing: u32,
    corrections: &[[u128; 2]],
) -> Zeroizing<Vec<u128>> {
    let depth = chosen.len();
    let mut nodes = Zeroizing::new(vec![0_u128; 2]);
    for (level, key) in chosen.iter().enumerate() {
        let path = missing >> (depth - 1 - level);
        let side = !path & 1;
        if level == 0 {
            for (index, node) in nodes.iter_mut().enumerate() {
                *node = key & equal_mask(index as u32, side);
            }
            continue;
        }
        let parent = path >> 1;
        let mut below = Zeroizing::new(Vec::with_capacity(2 * nodes.len()));
        let correction = &corrections[level - 1];
        let mut sibling = key ^ select(correction, side);
        for (index, pair) in children(&nodes).iter().enumerate() {
            let known = !equal_mask(index as u32, parent);
            let pair = pair.map(|child| child & known);
            sibling ^= select(&pair, side);
            below.extend_from_slice(&pair);
        }
        let at = 2 * parent + side;
        for (index, child) in below.iter_mut().enumerate() {
            *child |= sibling & equal_mask(index as u32, at);
        }
        nodes = below;
    }
    nodes
}

/// All ones where they are equal, in constant time.
#[inline]
pub(crate) fn equal_mask(left: u32, right: u32) -> u128 {
    0_u128.wrapping_sub(u128::from(left.ct_eq(&right).unwrap_u8()))
}

fn select(pair: &[u128; 2], side: u32) -> u128 {
    u128::conditional_select(&pair[0], &pair[1], ((side & 1) as u8).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leaves_but_the_missing_one_are_the_same() {
        for depth in 1..=6_u32 {
            let pairs: Vec<[u128; 2]> =
                (0..depth).map(|level| [0, 1].map(|side| u128::from(100 * level + side))).collect();
            let mut corrections = Vec::new();
            let leaves = grow(&pairs, &mut corrections);
            assert_eq!(leaves.len(), 1 << depth);
            for missing in 0..1 << depth {
                let chosen: Vec<u128> = (0..depth)
                    .map(|level| {
                        let side = !(missing >> (depth - 1 - level)) & 1;
                        pairs[level as usize][side as usize]
                    })
                    .collect();
                let punctured = grow_punctured(&chosen, missing, &corrections);
                for (index, leaf) in leaves.iter().enumerate() {
                    let expected = if index == missing as usize { 0 } else { *leaf };
                    assert_eq!(punctured[index], expected, "depth {depth}, missing {missing}");
                }
            }
        }
    }
}
