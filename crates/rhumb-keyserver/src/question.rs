//! The label that a key is asked by: `b32hex(waypoint |
//! principal | flags | window)`, one label under the zone.
//!
//! Base 32 with the extended hex alphabet (RFC 4648, section 7), in lower case, without padding:
//! letters may change their case on the way (0x20), the label is the same. 13 bytes for an IPv4
//! waypoint make 21 characters, 25 for IPv6 make 40.

use std::net::IpAddr;

use data_encoding::BASE32HEX_NOPAD;
use rhumb_capability::{Flags, Principal, Window};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyQuestion {
    /// The waypoint that takes the capability.
    pub waypoint: IpAddr,
    /// Whose capability.
    pub principal: Principal,
    /// Its flags.
    pub flags: Flags,
    /// For when.
    pub window: Window,
}

impl KeyQuestion {
    /// The label, in lower case.
    #[must_use]
    pub fn label(&self) -> String {
        let mut bytes = Vec::with_capacity(V6_LEN);
        match self.waypoint {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
        bytes.extend(self.principal.0.to_be_bytes());
        bytes.push(self.flags.bits());
        bytes.extend(self.window.0.to_be_bytes());
        BASE32HEX_NOPAD.encode(&bytes).to_ascii_lowercase()
    }

    /// Reads a label in any case; `None` when it is none.
    #[must_use]
    pub fn parse(label: &[u8]) -> Option<Self> {
        let bytes = BASE32HEX_NOPAD.decode(&label.to_ascii_uppercase()).ok()?;
        let (waypoint, rest) = match bytes.len() {
            V4_LEN => {
                let (address, rest) = bytes.split_first_chunk::<4>()?;
                (IpAddr::from(*address), rest)
            }
            V6_LEN => {
                let (address, rest) = bytes.split_first_chunk::<16>()?;
                (IpAddr::from(*address), rest)
            }
            _ => return None,
        };
        let (principal, rest) = rest.split_first_chunk()?;
        let (flags, window) = rest.split_first()?;
        Some(Self {
            waypoint,
            principal: Principal(u32::from_be_bytes(*principal)),
            flags: Flags::from_bits(*flags)?,
            window: Window(u32::from_be_bytes(window.try_into().ok()?)),
        })
    }
}

const V4_LEN: usize = 4 + 4 + 1 + 4;
const V6_LEN: usize = 16 + 4 + 1 + 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question(waypoint: IpAddr, principal: u32, window: u32) -> KeyQuestion {
        let (principal, window) = (Principal(principal), Window(window));
        KeyQuestion { waypoint, principal, flags: Flags::NONE, window }
    }

    #[test]
    fn a_label_is_as_written_in_the_documentation() {
        let v4 = question(IpAddr::from([192, 0, 2, 1]), 42, 878_906);
        assert_eq!(v4.label().len(), 21);
        let v6 = question("2001:db8::1".parse().unwrap(), 42, 878_906);
        assert_eq!(v6.label().len(), 40);
    }

    #[test]
    fn other_labels_are_none() {
        let label = question(IpAddr::from([192, 0, 2, 1]), 42, 878_906).label();
        for bad in ["", "revoked", &label[1..], &format!("{label}0"), &format!("{label}=")] {
            assert_eq!(KeyQuestion::parse(bad.as_bytes()), None, "{bad}");
        }
        // A flag that is reserved, and bits behind the last byte.
        let mut bytes = BASE32HEX_NOPAD.decode(label.to_ascii_uppercase().as_bytes()).unwrap();
        bytes[8] = 1;
        assert_eq!(KeyQuestion::parse(BASE32HEX_NOPAD.encode(&bytes).as_bytes()), None);
        let twin = format!("{}{}", &label[..20], if label.ends_with('0') { '1' } else { '0' });
        assert!(KeyQuestion::parse(twin.as_bytes()).is_none_or(|other| other.label() == twin));
    }

    proptest! {
        #[test]
        fn labels_read_back_in_any_case(
            waypoint: IpAddr, principal: u32, window: u32, cases: u64
        ) {
            let question = question(waypoint, principal, window);
            let label = question.label();
            prop_assert!(label.len() <= 63);
            let mixed: String = label.chars().enumerate().map(|(index, c)| {
                if cases >> index & 1 == 1 { c.to_ascii_uppercase() } else { c }
            }).collect();
            prop_assert_eq!(KeyQuestion::parse(mixed.as_bytes()), Some(question));
        }
    }
}
