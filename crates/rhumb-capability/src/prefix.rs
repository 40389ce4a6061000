//! A prefix of IP addresses in its one form: no bits beyond its length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::CapabilityError;

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// A prefix of `len` bits.
    ///
    /// # Errors
    /// When `address` has bits beyond `len`, or fewer than `len`.
    pub fn new(address: IpAddr, len: u8) -> Result<Self, CapabilityError> {
        Self::canonical(address, len).ok_or(CapabilityError::NotAPrefix { address, len })
    }

    /// The prefix of exactly one address.
    pub fn host(address: IpAddr) -> Self {
        Self { address, len: width(address) }
    }

    #[inline]
    pub(crate) fn canonical(address: IpAddr, len: u8) -> Option<Self> {
        let fits = len <= width(address) && masked(address, len) == address;
        fits.then_some(Self { address, len })
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Bits that are fixed.
    #[expect(clippy::len_without_is_empty, reason = "a length in bits, not a number of items")]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether it is one address alone.
    pub fn is_host(&self) -> bool {
        self.len == width(self.address)
    }

    /// Whether `address` is in it. False for the other family.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.len) == self.address
    }

    /// Whether all of `inner` is in it.
    #[inline]
    pub fn contains_prefix(&self, inner: &Self) -> bool {
        self.len <= inner.len && self.contains(inner.address)
    }

    /// Bit `number`, from 1 for the first, as the paper counts.
    pub(crate) fn bit(&self, number: u8) -> u8 {
        let shifted = match self.address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) >> (32 - number),
            IpAddr::V6(v6) => v6.to_bits() >> (128 - number),
        };
        (shifted & 1) as u8
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[inline]
fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = CapabilityError;

    /// `ADDRESS/LENGTH`, or an address alone for a prefix of one.
    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let malformed = CapabilityError::Malformed("prefix");
        let Some((address, len)) = text.split_once('/') else {
            return text.parse().map(Self::host).map_err(|_| malformed);
        };
        match (address.parse(), len.parse()) {
            (Ok(address), Ok(len)) => Self::new(address, len),
            _ => Err(malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_one_form() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/32", "::/0", "::1/128"]
        {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1/8", "10.0.0.0/33", "::1/0", "::/129", "10.0.0.0/", "x/1", ""] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
        assert!("192.0.2.1".parse::<Prefix>().unwrap().is_host());
    }

    #[test]
    fn it_contains_what_begins_alike() {
        let prefix: Prefix = "10.64.0.0/10".parse().unwrap();
        for (address, inside) in
            [("10.64.0.0", true), ("10.127.255.255", true), ("10.128.0.0", false), ("::", false)]
        {
            assert_eq!(prefix.contains(address.parse().unwrap()), inside, "{address}");
        }
        let contains = |inner: &str| prefix.contains_prefix(&inner.parse().unwrap());
        assert!(contains("10.64.0.0/10") && contains("10.65.0.0/16"));
        assert!(!contains("10.0.0.0/9") && !contains("10.128.0.0/10") && !contains("::/10"));
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().contains_prefix(&prefix));
        assert_eq!((prefix.bit(1), prefix.bit(5), prefix.bit(10)), (0, 1, 1));
    }
}
