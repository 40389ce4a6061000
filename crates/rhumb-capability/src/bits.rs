//! Addresses as numbers, for the hot path: an `IpAddr` has 17 bytes, and
//! comparing or moving one stalls on its odd layout.
//!
//! Invariant: an IPv4 address stands in the upper 32 bits, so a prefix of
//! `len` bits has the same mask in both families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Family;

/// An address of a family that is known from elsewhere.
///
/// Two numbers and not one of 128 bits: that would be read at once after its
/// halves were written one by one, and waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits {
    high: u64,
    low: u64,
}

impl PartialEq for Bits {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        (self.high ^ other.high) | (self.low ^ other.low) == 0
    }
}

impl Eq for Bits {}

impl Bits {
    pub(crate) const ZERO: Self = Self { high: 0, low: 0 };

    #[inline(always)]
    pub(crate) fn v4(octets: [u8; 4]) -> Self {
        Self { high: u64::from(u32::from_be_bytes(octets)) << 32, low: 0 }
    }

    #[inline(always)]
    pub(crate) fn v6(octets: [u8; 16]) -> Self {
        let whole = u128::from_be_bytes(octets);
        Self { high: (whole >> 64) as u64, low: whole as u64 }
    }

    /// The first bytes of a slice that is long enough.
    #[inline(always)]
    pub(crate) fn read(family: Family, bytes: &[u8]) -> Self {
        let whole = "invariant: an address has 4 or 16 bytes";
        match family {
            Family::V4 => Self::v4(*bytes.first_chunk().expect(whole)),
            Family::V6 => Self::v6(*bytes.first_chunk().expect(whole)),
        }
    }

    #[inline(always)]
    pub(crate) fn octets_v4(self) -> [u8; 4] {
        ((self.high >> 32) as u32).to_be_bytes()
    }

    #[inline(always)]
    pub(crate) fn octets_v6(self) -> [u8; 16] {
        (u128::from(self.high) << 64 | u128::from(self.low)).to_be_bytes()
    }

    pub(crate) fn address(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::from(self.octets_v4()).into(),
            Family::V6 => Ipv6Addr::from(self.octets_v6()).into(),
        }
    }

    /// Whether it can be one host's: neither nobody, a group, all,
    /// loopback, nor of one link only (RFC 1122, 3.2.1.3).
    #[inline(always)]
    pub(crate) fn is_host(self, family: Family) -> bool {
        let Self { high, low } = self;
        match family {
            Family::V4 => {
                let (first, two) = (high >> 56, high >> 48);
                first != 0 && first != 127 && first < 224 && two != 0xA9FE
            }
            // ::, ::1, ff00::/8, fe80::/10, and ::ffff:0:0/96, which is IPv4 in disguise.
            Family::V6 => {
                let first = high >> 48;
                let is_special = high == 0 && (low <= 1 || low >> 32 == 0xFFFF);
                !is_special && first < 0xFF00 && first & 0xFFC0 != 0xFE80
            }
        }
    }

    /// Its first `len` bits.
    #[inline(always)]
    pub(crate) fn prefix(self, len: u8) -> Self {
        let mask = |bits: u32| u64::MAX.checked_shl(64 - bits.min(64)).unwrap_or(0);
        let len = u32::from(len);
        Self { high: self.high & mask(len), low: self.low & mask(len.saturating_sub(64)) }
    }
}

impl From<IpAddr> for Bits {
    #[inline]
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::v4(v4.octets()),
            IpAddr::V6(v6) => Self::v6(v6.octets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for (text, is_host) in [
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("223.255.255.255", true),
            ("0.0.0.1", false),
            ("127.0.0.1", false),
            ("169.254.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2001:db8::1", true),
            ("fc00::1", true),
            ("::2", true),
            ("::", false),
            ("::1", false),
            ("fe80::1", false),
            ("febf::1", false),
            ("ff02::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(Bits::from(address).is_host(Family::of(address)), is_host, "{text}");
        }
    }

    #[test]
    fn addresses_survive_and_prefixes_are_alike_in_both_families() {
        for text in ["192.0.2.1", "0.0.0.0", "2001:db8::1", "::"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(Bits::from(address).address(Family::of(address)), address);
        }
        let v4 = Bits::v4([10, 20, 30, 40]);
        assert_eq!(v4.prefix(16), Bits::v4([10, 20, 0, 0]));
        assert_eq!((v4.prefix(0), v4.prefix(32)), (Bits::v4([0; 4]), v4));
        assert_eq!(Bits::v6([0xFF; 16]).prefix(128), Bits::v6([0xFF; 16]));
        for len in 0..=128 {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            assert_eq!(Bits::v6([0xFF; 16]).prefix(len), Bits::v6(mask.to_be_bytes()), "{len}");
        }
    }
}
