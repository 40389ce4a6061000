//! The ones' complement sum of IP, UDP and TCP. Source: RFC 1071.

/// Sum of the 16-bit words in the order of this machine, which the ones' complement sum does not
/// care about, not folded yet. An odd byte at the end counts as the first of a word. Four words at
/// a time, so that it is done in wide registers.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let whole: u64 = words
        .by_ref()
        .map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    whole + u64::from(u32::from_ne_bytes(last))
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
}
