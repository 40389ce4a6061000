//! Invitations: a code that lets one host join a network, once, and the proofs by which keeper and
//! joiner show each other that they know its secret.
//!
//! A code is, in letters and digits, five at a time:
//!
//! | size | field |
//! |---|---|
//! | 1 | version, 1, in the upper half; in the lower 4: IPv4, 6: IPv6, 1: a host's name |
//! | 4, 16, or 1 and text | where the keeper is |
//! | 2 | its TCP port |
//! | 16 | the secret |
//! | 2 | of the SHA-256 of all that: a typing error is seen before anything is sent |
//!
//! 1. Both ends have a channel whose ends have proven a name each, of which neither was known.
//! 2. The joiner says the invitation's id, which tells nothing of its secret.
//! 3. The keeper proves that it knows the secret; then the joiner does. A proof is a MAC over who
//!    says it, both names, and the channel's own secret ([`Meeting`]): it is worth nothing on
//!    another channel, between other names, or from the other end.
//!
//! INVARIANT: a secret leaves its holder in a code and in nothing else. The keeper holds an
//! [`InvitationKey`] that was derived from it, and no code can be made of that.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand;
use data_encoding::{Encoding, Specification};
use rhumb_wire::Name;
use rhumb_wire::admission::is_host;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::TrustError;

/// What somebody is given who is to join.
#[derive(Debug)]
pub struct Invitation {
    /// Where the keeper is.
    pub host: Host,
    /// Its TCP port.
    pub port: u16,
    secret: Secret,
}

/// Where a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// At this address.
    Address(IpAddr),
    /// Where the resolver says.
    Named(String),
}

/// 128 bits that nobody guesses.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Secret([u8; SECRET_LEN]);

/// What the keeper stores of an invitation: its id, and the key of the proofs.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct InvitationKey {
    #[zeroize(skip)]
    id: [u8; ID_LEN],
    key: [u8; KEY_LEN],
}

/// Which channel a proof is about.
#[derive(Debug, Clone, Copy)]
pub struct Meeting {
    /// The name that the keeper's end has proven.
    pub keeper: Name,
    /// The name that the joiner's end has proven.
    pub joiner: Name,
    /// What the channel's two ends know, and nobody else.
    pub binding: [u8; 32],
}

/// Whose word a proof is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The keeper's.
    Keeper,
    /// The joiner's.
    Joiner,
}

/// Why a text is no invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvitationError {
    /// A character that no code has.
    #[error("`{0}` is in no code")]
    Character(char),
    /// Part of it is missing, or was typed wrongly.
    #[error("it is mistyped, or a part of it is missing")]
    Mistyped,
    /// A later version made it.
    #[error("it is of version {0}, and this rhumb reads 1")]
    Version(u8),
}

impl Invitation {
    /// A new one, to whom the keeper answers at `port` of `host`.
    ///
    /// # Errors
    /// When the system's generator fails.
    pub fn generate(host: Host, port: u16) -> Result<Self, TrustError> {
        let mut secret = Secret([0; SECRET_LEN]);
        rand::fill(&mut secret.0).map_err(|_| TrustError::Crypto)?;
        Ok(Self { host, port, secret })
    }

    /// What both ends prove by.
    pub fn key(&self) -> InvitationKey {
        let secret = hmac::Key::new(HMAC_SHA256, &self.secret.0);
        let id = hmac::sign(&secret, b"rhumb invitation 1 id");
        let key = hmac::sign(&secret, b"rhumb invitation 1 key");
        let first = id.as_ref().first_chunk().expect("invariant: SHA-256 is 32 bytes");
        let key = key.as_ref().try_into().expect("invariant: SHA-256 is 32 bytes");
        InvitationKey { id: *first, key }
    }

    /// The code: letters and digits, five at a time. It holds the secret.
    pub fn code(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST));
        let kind = match &self.host {
            Host::Address(IpAddr::V4(_)) => IPV4,
            Host::Address(IpAddr::V6(_)) => IPV6,
            Host::Named(_) => NAMED,
        };
        bytes.push(VERSION << 4 | kind);
        match &self.host {
            Host::Address(IpAddr::V4(address)) => bytes.extend_from_slice(&address.octets()),
            Host::Address(IpAddr::V6(address)) => bytes.extend_from_slice(&address.octets()),
            Host::Named(name) => {
                bytes.push(name.len() as u8);
                bytes.extend_from_slice(name.as_bytes());
            }
        }
        bytes.extend_from_slice(&self.port.to_be_bytes());
        bytes.extend_from_slice(&self.secret.0);
        let check = check_of(&bytes);
        bytes.extend_from_slice(&check);
        let letters = Zeroizing::new(LETTERS.encode(&bytes));
        let mut code = Zeroizing::new(String::with_capacity(letters.len() * 2));
        for (at, letter) in letters.chars().enumerate() {
            if at > 0 && at % GROUP == 0 {
                code.push('-');
            }
            code.push(letter);
        }
        code
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, check) = bytes.split_last_chunk::<CHECK_LEN>()?;
        if check_of(body) != *check {
            return None;
        }
        let (first, rest) = body.split_first()?;
        let (address, rest) = match first & 0x0f {
            IPV4 => {
                let (octets, rest) = rest.split_first_chunk::<4>()?;
                (Host::Address(Ipv4Addr::from(*octets).into()), rest)
            }
            IPV6 => {
                let (octets, rest) = rest.split_first_chunk::<16>()?;
                (Host::Address(Ipv6Addr::from(*octets).into()), rest)
            }
            NAMED => {
                let (len, rest) = rest.split_first()?;
                let (name, rest) = rest.split_at_checked((*len).into())?;
                let name = std::str::from_utf8(name).ok().filter(|name| is_host(name))?;
                (Host::Named(name.to_owned()), rest)
            }
            _ => return None,
        };
        let (port, secret) = rest.split_first_chunk::<2>()?;
        let secret = Secret(secret.try_into().ok()?);
        Some(Self { host: address, port: u16::from_be_bytes(*port), secret })
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;

    /// Whatever the case, with or without dashes and spaces; O is taken for 0, I and L for 1.
    fn from_str(text: &str) -> Result<Self, InvitationError> {
        let mut letters = Zeroizing::new(String::with_capacity(text.len()));
        for letter in text.chars().filter(|it| !it.is_whitespace() && *it != '-') {
            letters.push(match letter.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                letter if letter.is_ascii_alphanumeric() && letter != 'U' => letter,
                _ => return Err(InvitationError::Character(letter)),
            });
        }
        let bytes = LETTERS.decode(letters.as_bytes()).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| InvitationError::Mistyped)?;
        let invitation = Self::parse(&bytes).ok_or(InvitationError::Mistyped);
        match bytes.first().map(|first| first >> 4) {
            Some(VERSION) => invitation,
            // Another version may have another check.
            Some(version) if version > VERSION && invitation.is_ok() => {
                Err(InvitationError::Version(version))
            }
            _ => Err(InvitationError::Mistyped),
        }
    }
}

impl Host {
    /// An address, or else the name of a host.
    ///
    /// # Errors
    /// When it can be neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
        match bare.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) if is_host(text) && !text.contains(':') => Ok(Self::Named(text.to_owned())),
            Err(_) => Err(format!(
                "`{text}` is no address and no host; give one like 203.0.113.5 or home.example.net"
            )),
        }
    }

    /// The host and a port of it, as sockets take it.
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            _ => format!("{self}:{port}"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Named(name) => name.fmt(f),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl InvitationKey {
    /// As it was stored.
    pub fn from_parts(id: [u8; ID_LEN], key: [u8; KEY_LEN]) -> Self {
        Self { id, key }
    }

    /// A key that nobody has, for an id that nobody was given: whoever asks about it gets a proof
    /// as for any other, and learns nothing from that.
    ///
    /// # Errors
    /// When the system's generator fails.
    pub fn of_nobody(id: [u8; ID_LEN]) -> Result<Self, TrustError> {
        let mut key = [0; KEY_LEN];
        rand::fill(&mut key).map_err(|_| TrustError::Crypto)?;
        Ok(Self { id, key })
    }

    /// By which the keeper finds it.
    pub fn id(&self) -> [u8; ID_LEN] {
        self.id
    }

    /// What is stored. It is a secret.
    pub fn secret_bytes(&self) -> &[u8; KEY_LEN] {
        &self.key
    }

    /// That `side` of `meeting` knows the secret.
    pub fn prove(&self, side: Side, meeting: &Meeting) -> [u8; 32] {
        let tag = hmac::sign(&self.mac_key(), &self.said(side, meeting));
        tag.as_ref().try_into().expect("invariant: SHA-256 is 32 bytes")
    }

    /// Whether `proof` is that of `side` in `meeting`. Takes as long whatever it is.
    pub fn is_proven(&self, side: Side, meeting: &Meeting, proof: &[u8; 32]) -> bool {
        hmac::verify(&self.mac_key(), &self.said(side, meeting), proof).is_ok()
    }

    fn mac_key(&self) -> hmac::Key {
        hmac::Key::new(HMAC_SHA256, &self.key)
    }

    /// All parts are of fixed lengths, so no two meetings are the same bytes.
    fn said(&self, side: Side, meeting: &Meeting) -> Vec<u8> {
        let side: &[u8; 6] = match side {
            Side::Keeper => b"keeper",
            Side::Joiner => b"joiner",
        };
        let Meeting { keeper, joiner, binding } = meeting;
        [PROOF_CONTEXT, &side[..], &self.id[..], &keeper.0[..], &joiner.0[..], &binding[..]]
            .concat()
    }
}

impl fmt::Debug for InvitationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvitationKey(..)")
    }
}

fn check_of(body: &[u8]) -> [u8; CHECK_LEN] {
    let hash = digest(&SHA256, &[CHECK_CONTEXT, body].concat());
    *hash.as_ref().first_chunk().expect("invariant: SHA-256 is 32 bytes")
}

/// Bytes of an invitation's id.
pub const ID_LEN: usize = 8;
/// Bytes of the key that the keeper stores.
pub const KEY_LEN: usize = 32;
const SECRET_LEN: usize = 16;
/// One typing error in 65,536 is not seen; then the keeper's proof does not fit.
const CHECK_LEN: usize = 2;
const VERSION: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const NAMED: u8 = 1;
const LONGEST: usize = 1 + 1 + 255 + 2 + SECRET_LEN + CHECK_LEN;
/// So many letters can be kept in mind until they are typed.
const GROUP: usize = 5;
const CHECK_CONTEXT: &[u8] = b"rhumb invitation 1 check";
const PROOF_CONTEXT: &[u8] = b"rhumb invitation 1 proof";
/// Crockford's: no letter that is taken for a digit, and none of two cases. In capitals, so that a
/// QR code is small.
static LETTERS: LazyLock<Encoding> = LazyLock::new(|| {
    let mut letters = Specification::new();
    letters.symbols.push_str("0123456789ABCDEFGHJKMNPQRSTVWXYZ");
    letters.encoding().expect("invariant: 32 letters that differ")
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn invitation(host: &str) -> Invitation {
        Invitation::generate(Host::parse(host).unwrap(), 7462).unwrap()
    }

    fn meeting(keeper: u8, joiner: u8, binding: u8) -> Meeting {
        let name = |byte| Name([byte; 32]);
        Meeting { keeper: name(keeper), joiner: name(joiner), binding: [binding; 32] }
    }

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        for host in ["203.0.113.5", "2001:db8::1", "[::1]", "home.example.net"] {
            let invitation = invitation(host);
            let code = invitation.code();
            let plain = code.replace('-', "");
            let spaced = format!(" {} ", code.replace('-', " ").to_lowercase());
            let mistaken = code.replace('0', "o").replace('1', "l");
            for typed in [code.as_str(), &plain, &spaced, &mistaken] {
                let read: Invitation = typed.parse().unwrap();
                assert_eq!((&read.host, read.port), (&invitation.host, 7462));
                assert_eq!(read.key().secret_bytes(), invitation.key().secret_bytes());
            }
        }
        // Eight groups of five.
        assert_eq!(invitation("203.0.113.5").code().len(), 47);
    }

    #[test]
    fn a_typing_error_is_told_as_one() {
        let code = invitation("203.0.113.5").code();
        let mut seen = 0;
        for (at, letter) in code.char_indices().filter(|(_, letter)| *letter != '-') {
            let other = if letter == '7' { '8' } else { '7' };
            let typed = format!("{}{other}{}", &code[..at], &code[at + 1..]);
            // The check is of 16 bits: of forty errors none is missed, or one in 1,600 runs.
            seen +=
                usize::from(matches!(typed.parse::<Invitation>(), Err(InvitationError::Mistyped)));
        }
        assert!(seen >= 39, "{seen}");
        for cut in ["", "7", &code[..46], &code[1..]] {
            assert_eq!(cut.parse::<Invitation>().unwrap_err(), InvitationError::Mistyped, "{cut}");
        }
        assert_eq!("abcu".parse::<Invitation>().unwrap_err(), InvitationError::Character('u'));
        assert_eq!("ab\u{e4}".parse::<Invitation>().unwrap_err(), InvitationError::Character('ä'));
    }

    #[test]
    fn a_host_is_an_address_or_a_name() {
        assert_eq!(Host::parse("[::1]").unwrap().with_port(9), "[::1]:9");
        assert_eq!(Host::parse("a.example").unwrap().with_port(9), "a.example:9");
        for bad in ["", "1.2.3.4:7", "a b", "http://a", "x:y", "a@b"] {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_proof_is_worth_nothing_anywhere_else() {
        let key = invitation("203.0.113.5").key();
        let here = meeting(1, 2, 3);
        let proof = key.prove(Side::Joiner, &here);
        assert!(key.is_proven(Side::Joiner, &here, &proof));
        // From the other end, as in a reflection.
        assert!(!key.is_proven(Side::Keeper, &here, &proof));
        // Between other names, as by somebody in the middle; on another channel, as in a replay.
        for there in [meeting(9, 2, 3), meeting(1, 9, 3), meeting(2, 1, 3), meeting(1, 2, 9)] {
            assert!(!key.is_proven(Side::Joiner, &there, &proof));
        }
        let other = invitation("203.0.113.5").key();
        assert!(!other.is_proven(Side::Joiner, &here, &proof));
        // By whoever knows the id alone.
        let guessed = InvitationKey::from_parts(key.id(), *other.secret_bytes());
        assert!(!key.is_proven(Side::Joiner, &here, &guessed.prove(Side::Joiner, &here)));
    }

    #[test]
    fn nothing_of_the_secret_is_shown() {
        let invitation = invitation("203.0.113.5");
        let shown = format!("{invitation:?} {:?}", invitation.key());
        assert!(shown.contains("Secret(..)") && shown.contains("InvitationKey(..)"), "{shown}");
        // What the keeper stores is not what a code is made of.
        assert!(!invitation.key().secret_bytes().starts_with(&invitation.secret.0));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_an_invitation(text in ".{0,80}", letters in "[0-9A-Z]{0,80}") {
            for text in [text, letters] {
                if let Ok(invitation) = text.parse::<Invitation>() {
                    let again: Invitation = invitation.code().parse().unwrap();
                    prop_assert_eq!(again.host, invitation.host);
                }
            }
        }
    }
}
