//! Which party one is, what both parties are started with, and what their pools hold.

use crate::MpcError;
use crate::base_ot::COUNT;
use crate::triples::BATCH_WORDS;

/// Which of the two parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The exchange: it may have orders.
    One = 1,
    /// The neutral party.
    Two = 2,
}

impl Party {
    /// Its peer.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }
}

/// How many bits of a field's element SoftSpoken OT
/// works with: more make less traffic and more work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldBits {
    /// 16 bytes per triple of both parties together.
    Two,
    /// 8 bytes, and two to three times the work: for thin links.
    Four,
}

impl FieldBits {
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    pub(crate) fn trees(self) -> usize {
        COUNT / self.bits()
    }
}

/// What both parties must be started with alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Of the extension.
    pub field: FieldBits,
    /// Words of 64 triples of bits that the pool holds; 24 bytes each.
    pub bit_words: u32,
    /// Words of 64 triples of a bit and a vector that the pool holds; 2056 bytes each.
    pub vector_words: u32,
}

impl Parameters {
    /// The most words of bit triples: 0.4 GB; a pool that
    /// is refilled while idle has no use for more.
    pub const MAX_BIT_WORDS: u32 = 1 << 24;
    /// The most words of vector triples: 0.5 GB.
    pub const MAX_VECTOR_WORDS: u32 = 1 << 18;

    /// How many words of bits and vectors the pools must hold for runs that take so many: another
    /// batch must fit beside what is less than that.
    #[must_use]
    pub fn least_for([bits, vectors]: [u64; 2]) -> [u64; 2] {
        [bits, vectors].map(|words| words.max(1) + BATCH_WORDS - 1)
    }

    pub(crate) fn check(&self) -> Result<(), MpcError> {
        let pools =
            [(self.bit_words, Self::MAX_BIT_WORDS), (self.vector_words, Self::MAX_VECTOR_WORDS)];
        for ((words, most), what) in pools.into_iter().zip(POOLS) {
            let (least, most) = (BATCH_WORDS, u64::from(most));
            if !(least..=most).contains(&u64::from(words)) {
                return Err(MpcError::OutOfRange { what, least, most });
            }
        }
        Ok(())
    }
}

impl Default for Parameters {
    /// Bit triples for nine runs of the paper's largest circuit (R = 32, 768
    /// lanes: 13 thousand words), vectors for ten; or for a hundred rounds of the
    /// top class and 340 routes to export. 12 MB.
    fn default() -> Self {
        Self { field: FieldBits::Two, bit_words: 1 << 17, vector_words: 1 << 12 }
    }
}

/// What is in the pools, in words of 64 triples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stock {
    /// Of bits.
    pub bit_words: u64,
    /// Of a bit and a vector.
    pub vector_words: u64,
    /// Used since the session began.
    pub bit_words_used: u64,
    /// Used since the session began.
    pub vector_words_used: u64,
}

pub(crate) const POOLS: [&str; 2] =
    ["size of the pool of bit triples", "size of the pool of vector triples"];
