//! What the two servers compute on shares: [`SelectBest`] (paper, section 5.5), with the
//! inputs that a party gives and the shares that it gets; and [`ExportAll`]
//! (section 5.4), the paper's, for comparison: announcers share keys so that nothing is
//! left to compute. [`oracle`] is the same in the clear.
//!
//! A lane is a member. Rows are words of 64 lanes, the first in the lowest bit ([`rows`]).
//!
//! | circuit, R places | ANDs per lane | rounds |
//! |---|---|---|
//! | Export-All | one vector per route | 1 |
//! | [`SelectBest::paper`] | 8R + 27 (R - 1), and R - 1 vectors | 1 + 5 log R |
//! | [`SelectBest::index`] | 31R - 39 | 1 + 6 log R |
//! | [`SelectBest::top_class`] | R + R/2 log R | 3 + log R |

mod export_all;
pub mod oracle;
mod select_best;

pub use export_all::{ExportAll, SharedRoute};
pub use select_best::{Candidate, Choice, Form, SelectBest};

/// Routes that a run compares: what an order of the engine holds.
/// No exchange has seen more than 27 to a prefix.
pub const MAX_ROUTES: usize = rhumb_mpc::MAX_ORDER;

/// Bits of a member's class: 16 of them, the highest the best.
/// Section 5.3 divides 8 bits of preference like this.
pub const CLASS_BITS: usize = 4;

/// Bits of the exchange's own preference, which decides among routes of one class.
pub const LOAD_BITS: usize = 4;

/// Numbers of `bits` bits, one per lane, as rows: the lowest bit's row first.
#[must_use]
pub fn rows(numbers: &[u8], bits: usize) -> Vec<Vec<u64>> {
    let row = |bit: usize| {
        let words = numbers.chunks(64).map(|lanes| {
            lanes.iter().rev().fold(0, |word, number| word << 1 | u64::from(number >> bit & 1))
        });
        words.collect()
    };
    (0..bits).map(row).collect()
}
