//! `Name`: the 32-byte address of everything, the SHA-256 of
//! canonical metadata (GDP paper, section 3.1).
//!
//! The text form is 52 characters of lower-case base32 without
//! padding: one DNS label, one spelling per name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use serde::{Serialize, Serializer};

use crate::WireError;

/// A flat, location-independent address: SHA-256 of the metadata of what it names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub [u8; Name::LEN]);

impl Name {
    /// Bytes in a name.
    pub const LEN: usize = 32;
    /// Characters in the text form of a name.
    pub const TEXT_LEN: usize = 52;
    /// Bytes of a name that its IPv6 address holds.
    pub const ADDRESS_LEN: usize = 15;
    /// Characters of the short form, for logs of one's own: 50 bits.
    pub const SHORT_LEN: usize = 10;

    /// The name as an IPv6 address: `fd` and the first [`Name::ADDRESS_LEN`] bytes of it. Who wants
    /// a second name for an address that is taken has to try 2^120 keys.
    pub fn address(&self) -> Ipv6Addr {
        let mut octets = [ADDRESS_PREFIX; 16];
        octets[1..].copy_from_slice(&self.beginning());
        octets.into()
    }

    /// What [`Name::address`] holds of the name.
    pub fn beginning(&self) -> [u8; Self::ADDRESS_LEN] {
        std::array::from_fn(|at| self.0[at])
    }

    /// The first of all names that begin so.
    pub fn first_of(beginning: [u8; Self::ADDRESS_LEN]) -> Self {
        Self(std::array::from_fn(|at| beginning.get(at).copied().unwrap_or(0)))
    }

    /// The first characters of the text form, for people who compare log lines; it proves nothing.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(Self::SHORT_LEN);
        text
    }
}

/// In two words: hashers of tables take a number at once, and bytes of some length by a call.
impl Hash for Name {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0.as_chunks::<16>().0 {
            state.write_u128(u128::from_ne_bytes(*word));
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&BASE32.encode(&self.0))
    }
}

impl Serialize for Name {
    /// As its text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.short())
    }
}

impl FromStr for Name {
    type Err = WireError;

    /// Accepts exactly what `Display` prints.
    fn from_str(text: &str) -> Result<Self, WireError> {
        if text.len() != Self::TEXT_LEN {
            return Err(WireError::BadNameText);
        }
        let bytes = BASE32.decode(text.as_bytes()).map_err(|_| WireError::BadNameText)?;
        Ok(Self(bytes.try_into().map_err(|_| WireError::BadNameText)?))
    }
}

/// Addresses that everybody may give himself, if they are random (RFC 4193).
const ADDRESS_PREFIX: u8 = 0xfd;

static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut spec = Specification::new();
    spec.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    spec.encoding().expect("invariant: 32 distinct symbols are a base32 alphabet")
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_has_one_spelling() {
        let name = Name([0xa5; 32]);
        let text = name.to_string();
        assert_eq!(text.len(), Name::TEXT_LEN);
        assert_eq!(text.parse(), Ok(name));
        assert_eq!(text.to_uppercase().parse::<Name>(), Err(WireError::BadNameText));
        // The last character carries one bit of the name and 4
        // that belong to no byte: those must be zero.
        let head = &text[..Name::TEXT_LEN - 1];
        let lasts: String = "abcdefghijklmnopqrstuvwxyz234567"
            .chars()
            .filter(|last| format!("{head}{last}").parse::<Name>().is_ok())
            .collect();
        assert_eq!(lasts, "aq");
    }

    #[test]
    fn an_address_is_the_beginning_of_a_name() {
        let name = Name(std::array::from_fn(|at| at as u8));
        assert_eq!(name.address().to_string(), "fd00:102:304:506:708:90a:b0c:d0e");
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes: [u8; 32]) {
            let name = Name(bytes);
            prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name));
        }

        #[test]
        fn any_text_parses_to_itself_or_not_at_all(text in "\\PC{0,60}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
