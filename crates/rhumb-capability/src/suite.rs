//! How bindings are computed, and how capabilities are
//! delegated: one byte and four bits on the wire.

use std::fmt;
use std::str::FromStr;

use crate::CapabilityError;

/// How a packet's bindings, and all secrets below them, are
/// computed. One for all capabilities of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Suite {
    /// 1: the header, AES-128 CBC-MAC with the length first. The default.
    #[default]
    HeaderAes,
    /// 2: the header, SipHash-2-4 with 128 bits of output, for places without AES.
    HeaderSip,
    /// 3: header and payload, POLYVAL then AES-128: the paper's meaning of a binding.
    PacketPolyval,
}

/// How a capability is delegated. Part of what its secret is
/// derived from, so a scheme's weakness stays its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheme {
    /// 1: a chain of caveats, each a prefix and an id, at most three. The default.
    #[default]
    CaveatChain,
    /// 2: reference only. Chaining delegation of the paper's Table 2, IPv4: sub-delegates share an
    /// id, and a delegation of the empty prefix gives the secret away.
    BitChain,
    /// 3: reference only. XOR delegation of the paper's Table 2, IPv4: delegates who work together,
    /// and some who do not, make capabilities that nobody gave them.
    Xor,
}

impl Suite {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::HeaderAes, Self::HeaderSip, Self::PacketPolyval];

    /// The byte on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::HeaderAes => 1,
            Self::HeaderSip => 2,
            Self::PacketPolyval => 3,
        }
    }

    /// The suite of a byte on the wire.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::HeaderAes),
            2 => Some(Self::HeaderSip),
            3 => Some(Self::PacketPolyval),
            _ => None,
        }
    }

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeaderAes => "header-aes",
            Self::HeaderSip => "header-sip",
            Self::PacketPolyval => "packet-polyval",
        }
    }

    /// Whether bindings prove the payload, too. Where they do not, whoever is
    /// on the way can put another one in its place.
    pub const fn covers_payload(self) -> bool {
        matches!(self, Self::PacketPolyval)
    }

    /// Its place in tables of all suites.
    pub(crate) const fn index(self) -> usize {
        self.number() as usize - 1
    }
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CaveatChain, Self::BitChain, Self::Xor];

    /// The four bits on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::CaveatChain => 1,
            Self::BitChain => 2,
            Self::Xor => 3,
        }
    }

    /// The scheme of four bits on the wire.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::CaveatChain),
            2 => Some(Self::BitChain),
            3 => Some(Self::Xor),
            _ => None,
        }
    }

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CaveatChain => "caveat-chain",
            Self::BitChain => "reference-bit-chain",
            Self::Xor => "reference-xor",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Suite {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let found = Self::ALL.into_iter().find(|suite| suite.name() == text);
        found.ok_or(CapabilityError::UnknownText("suite"))
    }
}

impl FromStr for Scheme {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let found = Self::ALL.into_iter().find(|scheme| scheme.name() == text);
        found.ok_or(CapabilityError::UnknownText("scheme"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_one_to_one() {
        for byte in 0..=u8::MAX {
            assert_eq!(Suite::from_number(byte).map_or(byte, Suite::number), byte);
            assert_eq!(Scheme::from_number(byte).map_or(byte, Scheme::number), byte);
        }
        for (at, suite) in Suite::ALL.into_iter().enumerate() {
            assert_eq!(Suite::from_number(suite.number()), Some(suite));
            assert_eq!((suite.name().parse(), suite.index()), (Ok(suite), at));
        }
        for scheme in Scheme::ALL {
            assert_eq!(Scheme::from_number(scheme.number()), Some(scheme));
            assert_eq!(scheme.name().parse(), Ok(scheme));
        }
        assert_eq!("aes".parse::<Suite>(), Err(CapabilityError::UnknownText("suite")));
    }
}
