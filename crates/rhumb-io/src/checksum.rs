//! The ones' complement sum of IP, UDP and TCP. Source: RFC 1071.

/// Sum of the 16-bit words in the order of this machine, which the ones' complement sum does not
/// care about, not folded yet. An odd byte at the end counts as the first of a word. Eight bytes at
/// a time, each half to a sum of its own, which takes wide registers and no rearranging in them.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let halves = |word: u64| [word & 0xFFFF_FFFF, word >> 32];
    let whole = eights.iter().fold([0_u64; 2], |sums, eight| {
        let [first, second] = halves(u64::from_ne_bytes(*eight));
        [sums[0] + first, sums[1] + second]
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = halves(u64::from_ne_bytes(last));
    whole[0] + whole[1] + last[0] + last[1]
}

/// The sum in 16 bits. Of bytes that hold their own right checksum it is all ones.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The header checksum of an IPv4 header, in which the place of the checksum counts as zero.
pub(crate) fn ipv4_header(header: &[u8]) -> [u8; 2] {
    (!fold(sum(&header[..10]) + sum(&header[12..]))).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3, and an odd byte.
    #[test]
    fn the_sum_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
        assert_eq!(fold(sum(&bytes)).to_ne_bytes(), [0xDD, 0xF2]);
        assert_eq!(fold(sum(&[0x12])).to_ne_bytes(), [0x12, 0]);
    }

    proptest::proptest! {
        /// Word by word, as it is defined.
        #[test]
        fn it_is_the_sum_of_all_words(bytes in proptest::collection::vec(0u8.., 0..100)) {
            let words = bytes.chunks(2).map(|word| {
                u64::from(u16::from_ne_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
            });
            proptest::prop_assert_eq!(fold(sum(&bytes)), fold(words.sum()));
        }
    }
}
