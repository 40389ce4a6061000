//! Certificates: signed statements about names, in fixed
//! binary layouts (GDP paper, sections 3.1 and 3.2).
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | type: 1 route, 2 locator, 3 withdrawal, 4 absence, 5 service, 6 member, 7 removal; 8 is a list of names, which is [no certificate](crate::published) |
//! | 2 | 1 | scope of a route: 0 any peer, 1 one destination, 2 by a domain, 3 any peer by one way of several; of a service: 0, or 3 for one of several; of a member: a bit each, 1 one destination, 2 inside of the domain; otherwise 0 |
//! | 3 | 1 | zero |
//! | 4 | 8 | sequence; of two statements by one issuer about one thing the higher is in force |
//! | 12 | 8 | not before, seconds since 1970 |
//! | 20 | 8 | not after, seconds since 1970 |
//! | 28 | 32 | issuer |
//! | 60 | 32 | route: the router that may carry; absence: the name that is not here; service: who answers; member: who belongs; removal: who does no longer |
//! | 60 | 18 | locator: IPv6 address (IPv4 mapped) and UDP port |
//! | 92 | 32 | route of scope 1: the destination; of scope 2: the outermost domain in which it is known, or zeros |
//! | 92 | 12 | member: its rights, a bit each; most names; most 1000 bits a second; 4 bytes each |
//! | 104 | 32 | member of scope 1 or 3: the one destination |
//! | end - 64 | 64 | signature by the issuer's key: ECDSA r and s, or Ed25519 |
//!
//! What is signed is [`SIGNING_CONTEXT`], then everything before the signature. The type byte is
//! under the signature, so no certificate can be read as another kind. Certificates carry names,
//! never keys: metadata is found elsewhere and checked against the name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::reader::Reader;
use crate::{Limits, Metadata, Name, Rights, WireError};

/// Prefixed to the bytes of a certificate before signing, so
/// that no signature made for another purpose fits.
pub const SIGNING_CONTEXT: &[u8] = b"rhumb certificate v1\0";

/// A signed statement by the holder of a name. Parsed, not verified: `rhumb-trust` does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Orders statements of one issuer about one thing; newer
    /// supersedes. Issuers use milliseconds since 1970.
    pub sequence: u64,
    /// First second in which the statement holds.
    pub not_before_s: u64,
    /// Last second in which the statement holds.
    pub not_after_s: u64,
    /// Who says so, and whose key signs.
    pub issuer: Name,
    /// What is said.
    pub statement: Statement,
    /// The signature, unverified.
    pub signature: [u8; SIGNATURE_LEN],
}

/// What a certificate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statement {
    /// `RtCert(issuer -> via)`: `via` may carry traffic to and from the issuer, within the scope.
    Route {
        /// Who may carry.
        via: Name,
        /// For which peers.
        scope: Scope,
    },
    /// `RtCert(issuer -> locator)`: the issuer is reachable at this address.
    Locator(Locator),
    /// Whatever the issuer said before about its routes and locators no longer holds.
    Withdrawal,
    /// `AdCert(issuer -> server)`: `server` may answer for the issuer, a
    /// data object or a name whose key stays at home.
    Service {
        /// Who answers.
        server: Name,
        /// Whether others may answer, too: as in [`Scope::Several`].
        several: bool,
    },
    /// By a RIB: it knows no route to `subject`, until the statement ends.
    Absence {
        /// The name that was asked for.
        subject: Name,
    },
    /// `DomainCert(issuer -> member)`: `member` belongs to the issuer's trust domain, and may do so
    /// much in it (GDP paper, section 6.1).
    Member {
        /// Who belongs to it.
        member: Name,
        /// What it may do.
        rights: Rights,
        /// How much of it.
        limits: Limits,
    },
    /// Whatever membership the issuer, or anybody below it, gave `member` at this certificate's
    /// sequence or earlier counts no longer.
    Removal {
        /// Who was a member.
        member: Name,
    },
}

impl Statement {
    /// Whom the statement hands its issuer's traffic on to: the router
    /// that may carry it, or the server that answers.
    pub fn hands_on_to(&self) -> Option<Name> {
        match *self {
            Self::Route { via, .. } => Some(via),
            Self::Service { server, .. } => Some(server),
            Self::Locator(_)
            | Self::Withdrawal
            | Self::Absence { .. }
            | Self::Member { .. }
            | Self::Removal { .. } => None,
        }
    }

    /// Whether others of its issuer's that are one of several stay in force beside it.
    pub fn is_one_of_several(&self) -> bool {
        matches!(
            self,
            Self::Route { scope: Scope::Several | Scope::ByNeighbour { .. }, .. }
                | Self::Service { several: true, .. }
        )
    }

    /// The domain by which its issuer is known outside of it, by an export.
    pub fn exports_by(&self) -> Option<Name> {
        match *self {
            Self::Route { via, scope: Scope::ByDomain { .. } | Scope::ByNeighbour { .. } } => {
                Some(via)
            }
            _ => None,
        }
    }

    /// Whether it says how its issuer is reached inside of its domain: by a router, or a server.
    pub fn is_way(&self) -> bool {
        self.hands_on_to().is_some() && self.exports_by().is_none()
    }

    /// The narrowest scope of traffic that the statement leaves.
    pub fn scope(&self) -> Scope {
        match *self {
            Self::Route { scope, .. } => scope,
            _ => Scope::Any,
        }
    }
}

/// For which peers a route may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Traffic with anyone.
    Any,
    /// Traffic with one other name only.
    Destination(Name),
    /// By way of a trust domain, which is whom the route names: it may
    /// carry the issuer's traffic to and from its outside.
    ByDomain {
        /// The outermost domain in which this may be known and used; `None` for everywhere.
        up_to: Option<Name>,
    },
    /// As [`Scope::ByDomain`], by one neighbour of several of a domain, whose other statements of
    /// this kind stay in force beside it.
    ByNeighbour {
        /// The outermost domain in which this may be known and used; `None` for everywhere.
        up_to: Option<Name>,
    },
    /// Traffic with anyone, by one way of several: the issuer's other statements of this kind stay
    /// in force beside it.
    Several,
}

/// A UDP address that a packet can be sent to: a unicast address and a port that is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Locator(SocketAddr);

impl Locator {
    /// `None` when nobody in particular is at `address`: port 0, an
    /// unspecified, a multicast or the broadcast address.
    pub fn new(address: SocketAddr) -> Option<Self> {
        let ip = address.ip().to_canonical();
        let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        // IPv4 has one way to be written, which is not
        // `::a.b.c.d` (deprecated, RFC 4291, section 2.5.5.1).
        let compatible =
            matches!(ip, IpAddr::V6(ip) if ip.segments()[..6] == [0; 6] && !ip.is_loopback());
        let usable = address.port() != 0
            && !ip.is_unspecified()
            && !ip.is_multicast()
            && !broadcast
            && !compatible;
        usable.then(|| Self(SocketAddr::new(ip, address.port())))
    }

    /// The address.
    pub fn address(self) -> SocketAddr {
        self.0
    }
}

impl Certificate {
    /// The largest certificate: a member's that sends to one destination.
    pub const MAX_LEN: usize = ISSUER_END + 2 * Name::LEN + MAY_LEN + SIGNATURE_LEN;

    /// Parses one certificate that fills `bytes`.
    ///
    /// # Errors
    /// When `bytes` are not exactly one certificate in its one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let certificate = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(certificate)
    }

    /// Parses a list: a count, then certificates back to back, filling `bytes`.
    ///
    /// # Errors
    /// As [`Certificate::parse`]; an empty list or more than [`MAX_CHAIN`] is refused too.
    pub fn parse_list(bytes: &[u8]) -> Result<Vec<Self>, WireError> {
        let mut reader = Reader::new(bytes);
        let certificates = Self::read_list(&mut reader)?;
        reader.finish()?;
        match certificates.is_empty() {
            true => Err(WireError::NotCanonical("certificate list")),
            false => Ok(certificates),
        }
    }

    pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        let count = usize::from(reader.u8()?);
        if count > MAX_CHAIN {
            return Err(WireError::TooLong { field: "certificates", limit: MAX_CHAIN });
        }
        (0..count).map(|_| Self::read(reader)).collect()
    }

    /// Parses a metadata list and a certificate list behind it, which fill `bytes`: certificates
    /// with what their issuers' names are the hashes of.
    ///
    /// # Errors
    /// When `bytes` are not exactly these in their one encoding.
    pub fn parse_with_issuers(bytes: &[u8]) -> Result<(Vec<Metadata>, Vec<Self>), WireError> {
        let mut reader = Reader::new(bytes);
        let issuers = Metadata::read_list(&mut reader)?;
        let certificates = Self::read_list(&mut reader)?;
        reader.finish()?;
        Ok((issuers, certificates))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u8()? {
            VERSION => {}
            version => return Err(WireError::UnknownVersion(version)),
        }
        let kind = reader.u8()?;
        let scope = reader.u8()?;
        reader.zero("certificate")?;
        let sequence = reader.u64()?;
        let not_before_s = reader.u64()?;
        let not_after_s = reader.u64()?;
        if not_before_s > not_after_s {
            return Err(WireError::NotCanonical("validity window"));
        }
        let issuer = reader.name()?;
        let statement = match (kind, scope) {
            (1, 0) => Statement::Route { via: reader.name()?, scope: Scope::Any },
            (1, 1) => {
                Statement::Route { via: reader.name()?, scope: Scope::Destination(reader.name()?) }
            }
            (1, 2) => {
                let (via, up_to) = (reader.name()?, reader.name()?);
                let up_to = (up_to != NO_DOMAIN).then_some(up_to);
                Statement::Route { via, scope: Scope::ByDomain { up_to } }
            }
            (1, 3) => Statement::Route { via: reader.name()?, scope: Scope::Several },
            (1, 4) => {
                let (via, up_to) = (reader.name()?, reader.name()?);
                let up_to = (up_to != NO_DOMAIN).then_some(up_to);
                Statement::Route { via, scope: Scope::ByNeighbour { up_to } }
            }
            (1, value) => return Err(WireError::UnknownVariant { field: "scope", value }),
            (5, 0) => Statement::Service { server: reader.name()?, several: false },
            (5, 3) => Statement::Service { server: reader.name()?, several: true },
            (2..=5 | 7, 1..) | (6, 4..) => return Err(WireError::NotCanonical("scope")),
            (2, 0) => Statement::Locator(read_locator(reader)?),
            (3, 0) => Statement::Withdrawal,
            (4, 0) => Statement::Absence { subject: reader.name()? },
            (6, scope) => {
                let (member, bits) = (reader.name()?, reader.u32()?);
                let rights = Rights::from_bits(bits).ok_or(WireError::NotCanonical("rights"))?;
                let (names, kbit_per_s) = (reader.u32()?, reader.u32()?);
                let only_to = (scope & ONE_DESTINATION != 0).then(|| reader.name()).transpose()?;
                let inside_only = scope & INSIDE != 0;
                let limits = Limits { names, kbit_per_s, inside_only, only_to };
                Statement::Member { member, rights, limits }
            }
            (7, 0) => Statement::Removal { member: reader.name()? },
            (value, _) => {
                return Err(WireError::UnknownVariant { field: "certificate type", value });
            }
        };
        let signature = reader.array()?;
        Ok(Self { sequence, not_before_s, not_after_s, issuer, statement, signature })
    }

    /// Bytes that [`Certificate::emit`] appends.
    pub fn emitted_len(&self) -> usize {
        let body = match self.statement {
            Statement::Route { scope: Scope::Any | Scope::Several, .. }
            | Statement::Absence { .. }
            | Statement::Service { .. }
            | Statement::Removal { .. } => Name::LEN,
            Statement::Route {
                scope: Scope::Destination(_) | Scope::ByDomain { .. } | Scope::ByNeighbour { .. },
                ..
            } => 2 * Name::LEN,
            Statement::Locator(_) => LOCATOR_LEN,
            Statement::Withdrawal => 0,
            Statement::Member { limits: Limits { only_to, .. }, .. } => {
                Name::LEN + MAY_LEN + only_to.map_or(0, |_| Name::LEN)
            }
        };
        ISSUER_END + body + SIGNATURE_LEN
    }

    /// Appends the one encoding of this certificate.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_unsigned(out);
        out.extend_from_slice(&self.signature);
    }

    /// Appends a count and the certificates: the form that [`Certificate::parse_list`] reads.
    ///
    /// # Panics
    /// When there are more than [`MAX_CHAIN`].
    pub fn emit_list(certificates: &[Self], out: &mut Vec<u8>) {
        assert!(certificates.len() <= MAX_CHAIN, "more certificates than a list can hold");
        out.push(certificates.len() as u8);
        for certificate in certificates {
            certificate.emit(out);
        }
    }

    /// The bytes that the signature is over: the context, then all but the signature.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SIGNING_CONTEXT.len() + Self::MAX_LEN);
        out.extend_from_slice(SIGNING_CONTEXT);
        self.emit_unsigned(&mut out);
        out
    }

    fn emit_unsigned(&self, out: &mut Vec<u8>) {
        let (kind, scope) = match self.statement {
            Statement::Route { scope: Scope::Any, .. } => (1, 0),
            Statement::Route { scope: Scope::Destination(_), .. } => (1, 1),
            Statement::Route { scope: Scope::ByDomain { .. }, .. } => (1, 2),
            Statement::Route { scope: Scope::Several, .. } => (1, 3),
            Statement::Route { scope: Scope::ByNeighbour { .. }, .. } => (1, 4),
            Statement::Locator(_) => (2, 0),
            Statement::Withdrawal => (3, 0),
            Statement::Absence { .. } => (4, 0),
            Statement::Service { several: false, .. } => (5, 0),
            Statement::Service { several: true, .. } => (5, 3),
            Statement::Member { limits: Limits { inside_only, only_to, .. }, .. } => {
                let one = only_to.map_or(0, |_| ONE_DESTINATION);
                (6, one | if inside_only { INSIDE } else { 0 })
            }
            Statement::Removal { .. } => (7, 0),
        };
        out.extend_from_slice(&[VERSION, kind, scope, 0]);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.not_before_s.to_be_bytes());
        out.extend_from_slice(&self.not_after_s.to_be_bytes());
        out.extend_from_slice(&self.issuer.0);
        match self.statement {
            Statement::Route { via, scope } => {
                out.extend_from_slice(&via.0);
                match scope {
                    Scope::Any | Scope::Several => {}
                    Scope::Destination(name) => out.extend_from_slice(&name.0),
                    Scope::ByDomain { up_to } | Scope::ByNeighbour { up_to } => {
                        out.extend_from_slice(&up_to.unwrap_or(NO_DOMAIN).0);
                    }
                }
            }
            Statement::Locator(locator) => emit_locator(locator, out),
            Statement::Withdrawal => {}
            Statement::Absence { subject: name }
            | Statement::Service { server: name, .. }
            | Statement::Removal { member: name } => out.extend_from_slice(&name.0),
            Statement::Member { member, rights, limits } => {
                out.extend_from_slice(&member.0);
                for number in [rights.bits(), limits.names, limits.kbit_per_s] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                limits.only_to.iter().for_each(|name| out.extend_from_slice(&name.0));
            }
        }
    }
}

pub(crate) fn read_locator(reader: &mut Reader<'_>) -> Result<Locator, WireError> {
    let ip = Ipv6Addr::from(reader.array::<16>()?);
    let address = SocketAddr::new(IpAddr::V6(ip).to_canonical(), reader.u16()?);
    Locator::new(address).ok_or(WireError::NotCanonical("locator"))
}

pub(crate) fn emit_locator(locator: Locator, out: &mut Vec<u8>) {
    let ip = match locator.0.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&locator.0.port().to_be_bytes());
}

/// Reads how something of this type begins that is signed as certificates are and is none: zeros
/// stand where those have their scope and what else they need.
pub(crate) fn read_beginning(
    reader: &mut Reader<'_>,
    own_type: u8,
    field: &'static str,
) -> Result<(), WireError> {
    match reader.u8()? {
        VERSION => {}
        version => return Err(WireError::UnknownVersion(version)),
    }
    let found = reader.u8()?;
    if found != own_type {
        return Err(WireError::UnknownVariant { field: "certificate type", value: found });
    }
    reader.zero("scope")?;
    reader.zero(field)
}

/// Bytes in a signature of either algorithm.
pub const SIGNATURE_LEN: usize = 64;
/// The longest chain anybody verifies; also the most certificates one message carries.
pub const MAX_CHAIN: usize = 8;

pub(crate) const VERSION: u8 = 1;
/// Where a route by a domain names no outermost one: no metadata are known to hash to this.
const NO_DOMAIN: Name = Name([0; Name::LEN]);
const ISSUER_END: usize = 60;
const LOCATOR_LEN: usize = 18;
/// What a member may do, and how much of it.
const MAY_LEN: usize = 12;
/// Bits of the scope of a member.
const ONE_DESTINATION: u8 = 1;
const INSIDE: u8 = 2;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_name() -> impl Strategy<Value = Name> {
        any::<[u8; 32]>().prop_map(Name)
    }

    fn any_limits() -> impl Strategy<Value = Limits> {
        (any::<[u32; 2]>(), any::<bool>(), proptest::option::of(any_name())).prop_map(
            |([names, kbit_per_s], inside_only, only_to)| Limits {
                names,
                kbit_per_s,
                inside_only,
                only_to,
            },
        )
    }

    fn any_statement() -> impl Strategy<Value = Statement> {
        prop_oneof![
            any_name().prop_map(|via| Statement::Route { via, scope: Scope::Any }),
            (any_name(), any_name())
                .prop_map(|(via, to)| Statement::Route { via, scope: Scope::Destination(to) }),
            (any_name(), proptest::option::of(any_name())).prop_map(|(via, up_to)| {
                Statement::Route { via, scope: Scope::ByDomain { up_to } }
            }),
            (any::<IpAddr>(), any::<u16>())
                .prop_filter_map("usable", |(ip, port)| Locator::new(SocketAddr::new(ip, port)))
                .prop_map(Statement::Locator),
            Just(Statement::Withdrawal),
            any_name().prop_map(|subject| Statement::Absence { subject }),
            any_name().prop_map(|via| Statement::Route { via, scope: Scope::Several }),
            (any_name(), proptest::option::of(any_name())).prop_map(|(via, up_to)| {
                Statement::Route { via, scope: Scope::ByNeighbour { up_to } }
            }),
            (any_name(), any::<bool>())
                .prop_map(|(server, several)| Statement::Service { server, several }),
            (any_name(), 1u32..32, any_limits()).prop_map(|(member, bits, limits)| {
                let rights = Rights::from_bits(bits).expect("bits of known rights");
                Statement::Member { member, rights, limits }
            }),
            any_name().prop_map(|member| Statement::Removal { member }),
        ]
    }

    pub(crate) fn any_certificate() -> impl Strategy<Value = Certificate> {
        let signature = any::<[[u8; 32]; 2]>()
            .prop_map(|halves| halves.concat().try_into().expect("two halves of 32"));
        (any::<u64>(), any::<u64>(), any::<u64>(), any_name(), any_statement(), signature).prop_map(
            |(sequence, a, b, issuer, statement, signature)| Certificate {
                sequence,
                not_before_s: a.min(b),
                not_after_s: a.max(b),
                issuer,
                statement,
                signature,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(certificate in any_certificate()) {
            let mut bytes = Vec::new();
            certificate.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), certificate.emitted_len());
            prop_assert!(bytes.len() <= Certificate::MAX_LEN);
            prop_assert_eq!(Certificate::parse(&bytes), Ok(certificate));
            for cut in 0..bytes.len() {
                prop_assert!(Certificate::parse(&bytes[..cut]).is_err());
            }
            bytes.push(0);
            prop_assert_eq!(Certificate::parse(&bytes), Err(WireError::TrailingBytes));
        }

        #[test]
        fn statements_of_two_kinds_never_share_signed_bytes(a in any_certificate(), b in any_certificate()) {
            prop_assert_eq!(a.signed_bytes() == b.signed_bytes(), Certificate { signature: b.signature, ..a } == b);
        }
    }

    #[test]
    fn useless_locators_are_refused() {
        for text in [
            "0.0.0.0:1",
            "127.0.0.1:0",
            "224.0.0.1:5",
            "[::]:1",
            "[ff02::1]:9",
            "[::ffff:0.0.0.0]:1",
            "[::192.0.2.1]:1",
            "[::2]:1",
        ] {
            assert_eq!(Locator::new(text.parse().unwrap()), None, "{text}");
        }
        let mapped = Locator::new("[::ffff:10.0.0.1]:7".parse().unwrap()).unwrap();
        assert_eq!(mapped.address(), "10.0.0.1:7".parse().unwrap());
    }
}
