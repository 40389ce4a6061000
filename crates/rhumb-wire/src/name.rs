//! `Name`: the 32-byte address of everything, the SHA-256 of
//! canonical metadata (GDP paper, section 3.1).
//!
//! The text form is 52 characters of lower-case base32 without
//! padding: one DNS label, one spelling per name.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use serde::{Serialize, Serializer};

use crate::WireError;

/// A flat, location-independent address: SHA-256 of the metadata of what it names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub [u8; Name::LEN]);

impl Name {
    /// Bytes in a name.
    pub const LEN: usize = 32;
    /// Characters in the text form of a name.
    pub const TEXT_LEN: usize = 52;
    /// Characters of the short form, for logs of one's own: 50 bits.
    const SHORT_LEN: usize = 10;

    /// The first characters of the text form, for people who compare log lines; it proves nothing.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(Self::SHORT_LEN);
        text
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
