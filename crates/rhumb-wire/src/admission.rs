//! What the keeper of a network and whoever joins it, or is a member, say to each other over a
//! channel. One message is one frame; all numbers are big-endian.
//!
//! | type | message | from | fields behind the type |
//! |---|---|---|---|
//! | 1 | claim | who joins | the invitation's id (8) |
//! | 2 | proof | both | a MAC (32) |
//! | 3 | renew | a member | - |
//! | 4 | welcome | the keeper | [`Welcome`] |
//! | 5 | refusal | the keeper | reason (1), a role (1) or 0 |
//! | 6 | ask | who has no invitation | a label (a length in one byte, and text) |
//! | 7 | offer | the keeper | the network's label (as above), its domain (32), whether it has members besides its keeper's host (1), a commitment (32) |
//! | 8 | reveal | both | a nonce (32): of who asks first, and then that which the keeper committed to |
//! | 9 | agree | who asks | - |
//!
//! A welcome is: the time (8), the network's label, the keeper's host, the member's label (each a
//! length in one byte, and text), ports of router, RIB and keeper (2 each), names of router and RIB
//! (32 each), the membership (a length of 2, and bytes), a count of members (2), and for each, by
//! strictly ascending labels, its label and its name.
//!
//! Nothing in it is to be believed before whoever says it has proven to be the keeper:
//! `rhumb-trust` has the proofs.

use std::collections::BTreeMap;

use crate::reader::Reader;
use crate::{Name, PublishedLabel, Role, WireError};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// I have the invitation of this id.
    Claim([u8; 8]),
    /// I know its secret: a MAC over both names, the channel, and who says so.
    Proof([u8; 32]),
    /// I am a member: how is the network now?
    Renew,
    /// You are a member.
    Welcome(Box<Welcome>),
    /// You are none.
    Refusal(Refusal),
    /// Let me in, whom nobody has invited, and call me so.
    Ask(PublishedLabel),
    /// Into this network; people have to agree.
    Offer(Offer),
    /// My part of the number that people compare.
    Reveal([u8; 32]),
    /// My people have compared the numbers, and want to be in this network.
    Agree,
}

/// What a keeper says that takes such requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What the keeper calls the network.
    pub network: PublishedLabel,
    /// The trust domain that it is.
    pub domain: Name,
    /// Whether it has members besides its keeper's host.
    pub has_members: bool,
    /// To the keeper's nonce, which it shows last.
    pub commitment: [u8; 32],
}

/// All that a member needs to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The keeper's clock, in seconds since 1970.
    pub now_s: u64,
    /// What the keeper calls the network.
    pub network: PublishedLabel,
    /// Where router, RIB and keeper are: an IP address or a host's name.
    pub host: String,
    /// What the member is called.
    pub label: PublishedLabel,
    /// The router's UDP port.
    pub router_port: u16,
    /// The RIB's UDP port.
    pub rib_port: u16,
    /// The keeper's TCP port.
    pub keeper_port: u16,
    /// Who has to answer as the router.
    pub router: Name,
    /// Who has to answer as the RIB.
    pub rib: Name,
    /// The membership's encoding, which `rhumb-trust` reads.
    pub membership: Vec<u8>,
    /// What all members are called.
    pub members: BTreeMap<PublishedLabel, Name>,
}

/// Why somebody is not admitted, who has proven to know the secret, or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The invitation is over.
    Expired,
    /// Another name has used the invitation.
    Used,
    /// The name is no member, or no longer.
    NoMember,
    /// The invitation is for a key of this role.
    OtherRole(Role),
    /// The name is a member already, by another invitation.
    Member,
    /// The keeper cannot store or sign it now.
    Failed,
    /// Nobody is admitted here without an invitation.
    Closed,
    /// As many ask already as are listened to.
    Busy,
    /// Nobody there has let it in.
    NotLetIn,
    /// Somebody there has said no.
    Declined,
}

impl Admission {
    /// Most bytes of a message that a keeper takes.
    pub const MAX_ASKED_LEN: usize = 64;
    /// Most bytes of a message that a member takes: a [`Welcome`] at its bounds.
    pub const MAX_TOLD_LEN: usize = 128 << 10;

    /// Parses a message that fills `bytes`.
    ///
    /// # Errors
    /// When `bytes` are not exactly one message in its one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            CLAIM => Self::Claim(reader.array()?),
            PROOF => Self::Proof(reader.array()?),
            RENEW => Self::Renew,
            WELCOME => Self::Welcome(Box::new(Welcome::read(&mut reader)?)),
            REFUSAL => Self::Refusal(Refusal::read(&mut reader)?),
            ASK => Self::Ask(read_label(&mut reader)?),
            OFFER => Self::Offer(Offer::read(&mut reader)?),
            REVEAL => Self::Reveal(reader.array()?),
            AGREE => Self::Agree,
            value => return Err(WireError::UnknownVariant { field: "message", value }),
        };
        reader.finish()?;
        Ok(message)
    }

    /// The one encoding of this message.
    ///
    /// # Panics
    /// When a welcome is beyond its bounds.
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Claim(id) => [&[CLAIM][..], id].concat(),
            Self::Proof(mac) => [&[PROOF][..], mac].concat(),
            Self::Renew => vec![RENEW],
            Self::Welcome(welcome) => {
                let mut out = vec![WELCOME];
                welcome.emit(&mut out);
                out
            }
            Self::Refusal(refusal) => {
                let [reason, role] = refusal.as_bytes();
                vec![REFUSAL, reason, role]
            }
            Self::Ask(label) => {
                let mut out = vec![ASK];
                emit_text(label.as_str(), &mut out);
                out
            }
            Self::Offer(offer) => {
                let mut out = vec![OFFER];
                offer.emit(&mut out);
                out
            }
            Self::Reveal(nonce) => [&[REVEAL][..], nonce].concat(),
            Self::Agree => vec![AGREE],
        }
    }
}

impl Offer {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (network, domain) = (read_label(reader)?, reader.name()?);
        let has_members = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(WireError::NotCanonical("offer")),
        };
        Ok(Self { network, domain, has_members, commitment: reader.array()? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        emit_text(self.network.as_str(), out);
        out.extend_from_slice(&self.domain.0);
        out.push(self.has_members.into());
        out.extend_from_slice(&self.commitment);
    }
}

impl Welcome {
    /// Most members of a network that is made by invitations.
    pub const MAX_MEMBERS: usize = 1000;
    /// Most bytes of a host's name. Source: RFC 1035, section 2.3.4.
    pub const MAX_HOST_LEN: usize = 253;
    /// Most bytes of a membership: four certificates and their issuers' metadata.
    pub const MAX_MEMBERSHIP_LEN: usize = 4096;

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let now_s = reader.u64()?;
        let network = read_label(reader)?;
        let host = read_host(reader)?;
        let label = read_label(reader)?;
        let (router_port, rib_port, keeper_port) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let (router, rib) = (reader.name()?, reader.name()?);
        let len = usize::from(reader.u16()?);
        if len > Self::MAX_MEMBERSHIP_LEN {
            let limit = Self::MAX_MEMBERSHIP_LEN;
            return Err(WireError::TooLong { field: "membership", limit });
        }
        let membership = reader.take(len)?.to_vec();
        let count = usize::from(reader.u16()?);
        if count > Self::MAX_MEMBERS {
            return Err(WireError::TooLong { field: "members", limit: Self::MAX_MEMBERS });
        }
        let mut members = BTreeMap::new();
        for _ in 0..count {
            let label = read_label(reader)?;
            if members.last_key_value().is_some_and(|(last, _)| *last >= label) {
                return Err(WireError::NotCanonical("order of members"));
            }
            members.insert(label, reader.name()?);
        }
        Ok(Self {
            now_s,
            network,
            host,
            label,
            router_port,
            rib_port,
            keeper_port,
            router,
            rib,
            membership,
            members,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        assert!(self.members.len() <= Self::MAX_MEMBERS, "more members than a network has");
        assert!(self.membership.len() <= Self::MAX_MEMBERSHIP_LEN, "no membership is so long");
        assert!(is_host(&self.host), "no host");
        out.extend_from_slice(&self.now_s.to_be_bytes());
        for text in [self.network.as_str(), &self.host, self.label.as_str()] {
            emit_text(text, out);
        }
        for port in [self.router_port, self.rib_port, self.keeper_port] {
            out.extend_from_slice(&port.to_be_bytes());
        }
        out.extend_from_slice(&self.router.0);
        out.extend_from_slice(&self.rib.0);
        out.extend_from_slice(&(self.membership.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.membership);
        out.extend_from_slice(&(self.members.len() as u16).to_be_bytes());
        for (label, name) in &self.members {
            emit_text(label.as_str(), out);
            out.extend_from_slice(&name.0);
        }
    }
}

impl Refusal {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (reason, role) = (reader.u8()?, reader.u8()?);
        let refusal = match reason {
            1 => Self::Expired,
            2 => Self::Used,
            3 => Self::NoMember,
            4 => {
                let unknown = WireError::UnknownVariant { field: "role", value: role };
                let known = [Role::Node, Role::Router].into_iter().find(|it| *it as u8 == role);
                Self::OtherRole(known.ok_or(unknown)?)
            }
            5 => Self::Member,
            6 => Self::Failed,
            7 => Self::Closed,
            8 => Self::Busy,
            9 => Self::NotLetIn,
            10 => Self::Declined,
            value => return Err(WireError::UnknownVariant { field: "refusal", value }),
        };
        match refusal.as_bytes() == [reason, role] {
            true => Ok(refusal),
            false => Err(WireError::NotCanonical("refusal")),
        }
    }

    fn as_bytes(self) -> [u8; 2] {
        match self {
            Self::Expired => [1, 0],
            Self::Used => [2, 0],
            Self::NoMember => [3, 0],
            Self::OtherRole(role) => [4, role as u8],
            Self::Member => [5, 0],
            Self::Failed => [6, 0],
            Self::Closed => [7, 0],
            Self::Busy => [8, 0],
            Self::NotLetIn => [9, 0],
            Self::Declined => [10, 0],
        }
    }
}

/// Whether `text` can be a host: letters, digits, `-`, `.`, and `:` of IPv6 addresses.
pub fn is_host(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte);
    let begins_well =
        text.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric() || it == b':');
    begins_well && text.len() <= Welcome::MAX_HOST_LEN && text.bytes().all(is_fit)
}

fn read_text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let len = usize::from(reader.u8()?);
    std::str::from_utf8(reader.take(len)?).map_err(|_| WireError::NotCanonical("text"))
}

fn read_label(reader: &mut Reader<'_>) -> Result<PublishedLabel, WireError> {
    read_text(reader)?.parse()
}

fn read_host(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let text = read_text(reader)?;
    if is_host(text) { Ok(text.to_owned()) } else { Err(WireError::NotCanonical("host")) }
}

/// Labels and hosts are at most 253 bytes long.
fn emit_text(text: &str, out: &mut Vec<u8>) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

const CLAIM: u8 = 1;
const PROOF: u8 = 2;
const RENEW: u8 = 3;
const WELCOME: u8 = 4;
const REFUSAL: u8 = 5;
const ASK: u8 = 6;
const OFFER: u8 = 7;
const REVEAL: u8 = 8;
const AGREE: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz;

    fn welcome(members: usize) -> Welcome {
        let label = |number: usize| format!("{number:032}").parse().unwrap();
        Welcome {
            now_s: 7,
            network: "home".parse().unwrap(),
            host: "h".repeat(Welcome::MAX_HOST_LEN),
            label: "alice".parse().unwrap(),
            router_port: 1,
            rib_port: 2,
            keeper_port: 3,
            router: Name([1; 32]),
            rib: Name([2; 32]),
            membership: vec![9; Welcome::MAX_MEMBERSHIP_LEN],
            members: (0..members).map(|number| (label(number), Name([3; 32]))).collect(),
        }
    }

    fn all() -> Vec<Admission> {
        let refusals = [
            Refusal::Expired,
            Refusal::Used,
            Refusal::NoMember,
            Refusal::OtherRole(Role::Router),
            Refusal::OtherRole(Role::Node),
            Refusal::Member,
            Refusal::Failed,
            Refusal::Closed,
            Refusal::Busy,
            Refusal::NotLetIn,
            Refusal::Declined,
        ];
        let network: PublishedLabel = "n".repeat(PublishedLabel::MAX_LEN).parse().unwrap();
        let (domain, commitment) = (Name([5; 32]), [6; 32]);
        let offer =
            |has_members| Offer { network: network.clone(), domain, has_members, commitment };
        let mut all = vec![
            Admission::Ask(network.clone()),
            Admission::Offer(offer(false)),
            Admission::Offer(offer(true)),
            Admission::Reveal([7; 32]),
            Admission::Agree,
            Admission::Claim([1; 8]),
            Admission::Proof([2; 32]),
            Admission::Renew,
            Admission::Welcome(Box::new(welcome(0))),
            Admission::Welcome(Box::new(welcome(Welcome::MAX_MEMBERS))),
        ];
        all.extend(refusals.map(Admission::Refusal));
        all
    }

    #[test]
    fn messages_are_what_they_were_and_nothing_shorter_or_longer_is_one() {
        for message in all() {
            let bytes = message.emit();
            assert_eq!(Admission::parse(&bytes), Ok(message));
            assert!(Admission::parse(&[&bytes[..], &[0]].concat()).is_err());
            for len in (0..bytes.len()).rev().take(200) {
                assert!(Admission::parse(&bytes[..len]).is_err(), "{len}");
            }
            let is_asked = matches!(bytes[0], CLAIM | PROOF | RENEW | ASK | REVEAL | AGREE);
            let most = if is_asked { Admission::MAX_ASKED_LEN } else { Admission::MAX_TOLD_LEN };
            assert!(bytes.len() <= most, "{}", bytes.len());
        }
    }

    #[test]
    fn whatever_is_changed_in_a_message_is_refused_or_another_message() {
        for bytes in all().iter().map(Admission::emit) {
            for at in 0..bytes.len().min(400) {
                let mut changed = bytes.clone();
                changed[at] ^= 0x41;
                fuzz::admission(&changed);
            }
        }
    }

    #[test]
    fn a_host_is_nothing_that_a_file_of_settings_would_take_for_more() {
        for good in ["203.0.113.5", "2001:db8::1", "::1", "host.example.net", "a"] {
            assert!(is_host(good), "{good}");
        }
        let long = "h".repeat(Welcome::MAX_HOST_LEN + 1);
        for bad in ["", "-x", "a b", "a\"", "a\n", "a@b", "[::1]", "ä", &long] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
