//! Messages to and from a RIB: the data of `RibRequest` and
//! `RibResponse` PDUs (GDP paper, section 3.2).
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | kind |
//! | 1 | 4 | identifier: of a request, chosen by who asks and repeated in the answer; of a change, the RIB's own |
//! | 5 | .. | by kind |
//!
//! | message | kind | what follows |
//! |---|---|---|
//! | request: look up a route | 1 | name |
//! | request: look up metadata | 2 | name |
//! | request: publish | 3 | metadata list, certificate list |
//! | request: acknowledge a change | 4 | nothing |
//! | request: which store | 5 | nothing |
//! | request: gone | 6 | name, sequence (8 bytes): the name that this route of sequence leads here is not here any more |
//! | request: look up an export | 7 | name |
//! | request: removals | 8 | the store that the last answer was of (16 bytes), and how far into it that went (8 bytes); zeros at first |
//! | request: look up another way | 9 | name, number (1 byte, 1 to 7): of the ways to a name that has several, from the second on |
//! | request: domains | 10 | revision (8 bytes), name: what is offered behind this domain, of this revision; zeros at first |
//! | request: look up an address | 11 | the beginning of a name, 15 bytes |
//! | request: publish names | 12 | metadata list, [list of names](crate::published) |
//! | request: look up names | 13 | name: whose list |
//! | request: prove | 14 | name: what the RIB's [log](crate::log) says of it |
//! | request: way back | 15 | when the log began (8 bytes), an epoch (8 bytes), a later one (8 bytes): that the head of the first is among those before the head of the second |
//! | response: found | 1 | name, metadata list, certificate list |
//! | response: absent | 2 | certificate list of one: an absence signed by the RIB |
//! | response: stored | 3 | nothing |
//! | response: refused | 4 | refusal (1 byte); after "superseded" a certificate list: the newer statement, or nothing where it is not known |
//! | response: changed | 5 | name, metadata list, certificate list, which is not empty |
//! | response: store | 6 | identity of the store (16 bytes) |
//! | response: found beyond | 7 | level (1 byte, 1 to 8), then as found |
//! | response: changed beyond | 8 | level (1 byte, 1 to 8), then as changed |
//! | response: removals | 9 | the store (16 bytes), how far into it this goes (8 bytes), a count (1 byte, at most 8), then for each a metadata list and a certificate list |
//! | response: domains | 10 | revision (8 bytes), whether nothing follows (1 byte, 0 or 1), a count (1 byte, at most 16), then for each the domain, a length (2 bytes) and an offer, by ascending names |
//! | response: names | 11 | metadata list, list of names |
//! | response: proof | 12 | a head, then a way through its map; or 3 (1 byte) while a change of the name waits for the next head |
//! | response: way back | 13 | a count (1 byte, at most 64), then as many hashes |
//!
//! The level is how many domains further out the answer was found: 0 in the RIB's own, which the
//! kinds without it say. A metadata list is a count (1 byte), then per item a length (2 bytes)
//! and the encoding. Certificates travel as in every PDU. Nothing in an
//! answer is to be believed before it is verified.

mod refusal;

use crate::log::{Hash, Head, MapPath};
use crate::offer::{Offered, emit_offered, read_offered};
use crate::reader::Reader;
use crate::{Certificate, Metadata, Name, PublishedNames, Statement, WireError};

pub use refusal::Refusal;

/// Pairs an answer with its question, or an acknowledgement with its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// Tells a RIB's store from others: who finds another one than before has to publish anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StoreId(pub [u8; 16]);

/// What a RIB is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RibRequest {
    /// Repeated in the answer.
    pub id: RequestId,
    /// The question or the order.
    pub body: RibRequestBody,
}

/// The question or the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RibRequestBody {
    /// The certificates that lead to a name, with the metadata of their issuers.
    LookUpRoute(Name),
    /// The metadata of a name.
    LookUpMetadata(Name),
    /// Statements to store: routes, locators and withdrawals, with
    /// the metadata of issuers that may be unknown.
    Publish {
        /// Metadata to know the issuers' keys by.
        metadata: Vec<Metadata>,
        /// What to store.
        certificates: Vec<Certificate>,
    },
    /// The [`RibResponseBody::Changed`] of this identifier has arrived.
    Acknowledge,
    /// Which store the RIB has.
    WhichStore,
    /// The certificates by which a name is known outside of the RIB's domain, as far as that.
    LookUpExport(Name),
    /// As [`Self::LookUpRoute`], by another way of several: the one of this number, counted from 0
    /// around and around.
    LookUpWay {
        /// The name.
        name: Name,
        /// From 1 to one less than [`MAX_WAYS`].
        number: u8,
    },
    /// The metadata of the name that begins so, the first one if there are several: what its IPv6
    /// address holds of it ([`Name::address`]). Of one that is absent, the answer says so of the
    /// name that goes on with zeros ([`Name::first_of`]).
    LookUpAddress([u8; Name::ADDRESS_LEN]),
    /// A list of names to store, with the metadata of its owner, who may be unknown.
    PublishNames {
        /// Metadata to know the owner's key by.
        metadata: Vec<Metadata>,
        /// What to store.
        published: PublishedNames,
    },
    /// What this name publishes under its own. Of one that publishes nothing, the metadata are
    /// found.
    LookUpNames(Name),
    /// Which domains the RIB's domain offers to who asks, a neighbour: those behind this one by
    /// name, if what is offered is still of this revision; otherwise all, from the first on.
    Domains {
        /// That of the last answer; 0 at first.
        revision: u64,
        /// The last domain of that; zeros at first, and when it was the end.
        after: Name,
    },
    /// A name is not at the router any more that its route leads to, who says so. Not answered.
    Gone {
        /// The name.
        name: Name,
        /// Of its route.
        sequence: u64,
    },
    /// Who was removed from the RIB's domain since; and to be told, from now on, of who is next.
    Removals(Mark),
    /// What the RIB's log says of a name.
    Prove(Name),
    /// That of two heads of the RIB's log the earlier one is among those before the later one.
    WayBack {
        /// Which log of the RIB's it is.
        began_ms: u64,
        /// The epoch of the earlier one.
        from: u64,
        /// That of the later one.
        to: u64,
    },
}

/// How far somebody has heard of removals: so many of those that a store was told. The number means
/// nothing for another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Which store.
    pub store: StoreId,
    /// The number of the last one heard of; 0 at first.
    pub position: u64,
}

/// A removal as it travels: metadata of the issuers, and certificates from the domain, by whom it
/// admitted to admit others, to the removal.
pub type RemovalLists = (Vec<Metadata>, Vec<Certificate>);

/// What a RIB answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RibResponse {
    /// The request's.
    pub id: RequestId,
    /// The answer.
    pub body: RibResponseBody,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RibResponseBody {
    /// What is known of the name.
    Found {
        /// The name that was asked for.
        name: Name,
        /// How many domains further out it was found: 0 in the RIB's own.
        level: u8,
        /// Metadata of the name and of the issuers below.
        metadata: Vec<Metadata>,
        /// The certificates that lead from the name outward.
        certificates: Vec<Certificate>,
    },
    /// Nothing is known: a [`crate::Statement::Absence`] signed by the RIB.
    Absent(Certificate),
    /// The order is carried out, durably.
    Stored,
    /// The order is refused; nothing of it was stored.
    Refused(Refusal),
    /// The order is refused as [`Refusal::Superseded`], by this statement:
    /// whoever signed it can go on from its sequence.
    Superseded(Certificate),
    /// What was answered about a name holds no longer. Sent
    /// without being asked, until it is acknowledged.
    Changed {
        /// Whose statements changed.
        name: Name,
        /// How many domains further out it is: 0 in the RIB's own.
        level: u8,
        /// Metadata of the issuers below.
        metadata: Vec<Metadata>,
        /// The certificates that lead from the name outward
        /// now, or the name's withdrawal; at least one.
        certificates: Vec<Certificate>,
    },
    /// The store that the RIB has: another one, whenever the one it
    /// had before may have been lost or replaced.
    Store(StoreId),
    /// The removals behind the mark that was asked with, as many as fit; none when there are no
    /// more. Sent without being asked, too, until it is acknowledged.
    Removals {
        /// How far these go.
        to: Mark,
        /// At most [`MAX_REMOVALS`].
        removals: Vec<RemovalLists>,
    },
    /// The domains that are offered to who asks, by ascending names, as many as fit; none, and the
    /// revision that was asked with, when there are no more.
    Domains {
        /// Another one whenever anything of what is offered is another.
        revision: u64,
        /// Whether nothing follows.
        is_end: bool,
        /// At most [`MAX_OFFERED`](crate::offer::MAX_OFFERED).
        offered: Vec<Offered>,
    },
    /// The newest list of the owner that was asked about, be it in force or not.
    Names {
        /// The owner's metadata, if there was room.
        metadata: Vec<Metadata>,
        /// The list.
        published: PublishedNames,
    },
    /// The newest head of the RIB's log, and what it says of the name that was asked about.
    Proof {
        /// Of the log as it was within the last second.
        head: Head,
        /// The way to the name; none while a change of the name waits for the next head.
        path: Option<MapPath>,
    },
    /// The way from a head back to an earlier one: at most [`MAX_WAY_BACK`] hashes.
    WayBack(Vec<Hash>),
}

impl RibRequest {
    /// The name whose way `data` asks for, if it does and is long enough, without a look at the
    /// rest: for who has memory come near before it answers.
    pub fn name_sought(data: &[u8]) -> Option<Name> {
        let (&[kind, _, _, _, _], rest) = data.split_first_chunk()?;
        let name = *rest.first_chunk()?;
        matches!(kind, 1 | 2 | 7 | 9).then_some(Name(name))
    }

    /// Parses the data of a `RibRequest` PDU.
    ///
    /// # Errors
    /// When `data` is not exactly one request.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let kind = reader.u8()?;
        let id = RequestId(reader.u32()?);
        let body = match kind {
            1 => RibRequestBody::LookUpRoute(reader.name()?),
            2 => RibRequestBody::LookUpMetadata(reader.name()?),
            3 => RibRequestBody::Publish {
                metadata: Metadata::read_list(&mut reader)?,
                certificates: Certificate::read_list(&mut reader)?,
            },
            4 => RibRequestBody::Acknowledge,
            5 => RibRequestBody::WhichStore,
            7 => RibRequestBody::LookUpExport(reader.name()?),
            9 => {
                let (name, number) = (reader.name()?, reader.u8()?);
                if !(1..MAX_WAYS).contains(&number) {
                    return Err(WireError::NotCanonical("way"));
                }
                RibRequestBody::LookUpWay { name, number }
            }
            6 => RibRequestBody::Gone { name: reader.name()?, sequence: reader.u64()? },
            8 => RibRequestBody::Removals(read_mark(&mut reader)?),
            11 => RibRequestBody::LookUpAddress(reader.array()?),
            10 => RibRequestBody::Domains { revision: reader.u64()?, after: reader.name()? },
            12 => RibRequestBody::PublishNames {
                metadata: Metadata::read_list(&mut reader)?,
                published: PublishedNames::read(&mut reader)?,
            },
            13 => RibRequestBody::LookUpNames(reader.name()?),
            14 => RibRequestBody::Prove(reader.name()?),
            15 => {
                let [began_ms, from, to] = [reader.u64()?, reader.u64()?, reader.u64()?];
                if from >= to {
                    return Err(WireError::NotCanonical("epochs"));
                }
                RibRequestBody::WayBack { began_ms, from, to }
            }
            value => return Err(WireError::UnknownVariant { field: "request", value }),
        };
        reader.finish()?;
        Ok(Self { id, body })
    }

    /// Appends the one encoding of this request.
    ///
    /// # Panics
    /// When a list has more than [`MAX_CHAIN`](crate::certificate::MAX_CHAIN) items.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match &self.body {
            RibRequestBody::LookUpRoute(name) => {
                emit_head(1, self.id, out);
                out.extend_from_slice(&name.0);
            }
            RibRequestBody::LookUpMetadata(name) => {
                emit_head(2, self.id, out);
                out.extend_from_slice(&name.0);
            }
            RibRequestBody::LookUpExport(name) => {
                emit_head(7, self.id, out);
                out.extend_from_slice(&name.0);
            }
            RibRequestBody::LookUpAddress(beginning) => {
                emit_head(11, self.id, out);
                out.extend_from_slice(beginning);
            }
            RibRequestBody::LookUpWay { name, number } => {
                emit_head(9, self.id, out);
                out.extend_from_slice(&name.0);
                out.push(*number);
            }
            RibRequestBody::Publish { metadata, certificates } => {
                emit_head(3, self.id, out);
                Metadata::emit_list(metadata, out);
                Certificate::emit_list(certificates, out);
            }
            RibRequestBody::PublishNames { metadata, published } => {
                emit_head(12, self.id, out);
                Metadata::emit_list(metadata, out);
                published.emit(out);
            }
            RibRequestBody::LookUpNames(name) => {
                emit_head(13, self.id, out);
                out.extend_from_slice(&name.0);
            }
            RibRequestBody::Acknowledge => emit_head(4, self.id, out),
            RibRequestBody::WhichStore => emit_head(5, self.id, out),
            RibRequestBody::Gone { name, sequence } => {
                emit_head(6, self.id, out);
                out.extend_from_slice(&name.0);
                out.extend_from_slice(&sequence.to_be_bytes());
            }
            RibRequestBody::Domains { revision, after } => {
                emit_head(10, self.id, out);
                out.extend_from_slice(&revision.to_be_bytes());
                out.extend_from_slice(&after.0);
            }
            RibRequestBody::Removals(since) => {
                emit_head(8, self.id, out);
                emit_mark(since, out);
            }
            RibRequestBody::Prove(name) => {
                emit_head(14, self.id, out);
                out.extend_from_slice(&name.0);
            }
            RibRequestBody::WayBack { began_ms, from, to } => {
                emit_head(15, self.id, out);
                for number in [began_ms, from, to] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
            }
        }
    }
}

impl RibResponse {
    /// Parses the data of a `RibResponse` PDU.
    ///
    /// # Errors
    /// When `data` is not exactly one response.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let kind = reader.u8()?;
        let id = RequestId(reader.u32()?);
        let body = match kind {
            1 | 7 => RibResponseBody::Found {
                level: if kind == 7 { read_level(&mut reader)? } else { 0 },
                name: reader.name()?,
                metadata: Metadata::read_list(&mut reader)?,
                certificates: Certificate::read_list(&mut reader)?,
            },
            2 => {
                let [absence] = <[Certificate; 1]>::try_from(Certificate::read_list(&mut reader)?)
                    .map_err(|_| WireError::NotCanonical("absence"))?;
                if !matches!(absence.statement, Statement::Absence { .. }) {
                    return Err(WireError::NotCanonical("absence"));
                }
                RibResponseBody::Absent(absence)
            }
            3 => RibResponseBody::Stored,
            4 => match Refusal::from_u8(reader.u8()?)? {
                Refusal::Superseded => {
                    let mut list = Certificate::read_list(&mut reader)?;
                    match (list.pop(), list.is_empty()) {
                        (None, _) => RibResponseBody::Refused(Refusal::Superseded),
                        (Some(newer), true) => RibResponseBody::Superseded(newer),
                        _ => return Err(WireError::NotCanonical("superseded")),
                    }
                }
                refusal => RibResponseBody::Refused(refusal),
            },
            5 | 8 => {
                let level = if kind == 8 { read_level(&mut reader)? } else { 0 };
                let name = reader.name()?;
                let metadata = Metadata::read_list(&mut reader)?;
                let certificates = Certificate::read_list(&mut reader)?;
                if certificates.is_empty() {
                    return Err(WireError::NotCanonical("change"));
                }
                RibResponseBody::Changed { name, level, metadata, certificates }
            }
            6 => RibResponseBody::Store(StoreId(reader.array()?)),
            10 => {
                let (revision, end) = (reader.u64()?, reader.u8()?);
                if end > 1 {
                    return Err(WireError::NotCanonical("end"));
                }
                let offered = read_offered(&mut reader)?;
                RibResponseBody::Domains { revision, is_end: end == 1, offered }
            }
            9 => RibResponseBody::Removals {
                to: read_mark(&mut reader)?,
                removals: read_removals(&mut reader)?,
            },
            11 => RibResponseBody::Names {
                metadata: Metadata::read_list(&mut reader)?,
                published: PublishedNames::read(&mut reader)?,
            },
            12 => RibResponseBody::Proof {
                head: Head::read(&mut reader)?,
                path: MapPath::read_if_told(&mut reader)?,
            },
            13 => RibResponseBody::WayBack(read_way_back(&mut reader)?),
            value => return Err(WireError::UnknownVariant { field: "response", value }),
        };
        reader.finish()?;
        Ok(Self { id, body })
    }

    /// Appends the one encoding of this response.
    ///
    /// # Panics
    /// When a list has more than [`MAX_CHAIN`](crate::certificate::MAX_CHAIN) items, or there are
    /// more than [`MAX_REMOVALS`] or [`MAX_WAY_BACK`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        match &self.body {
            RibResponseBody::Found { name, level, metadata, certificates }
            | RibResponseBody::Changed { name, level, metadata, certificates } => {
                let found = matches!(self.body, RibResponseBody::Found { .. });
                match (*level, found) {
                    (0, true) => emit_head(1, self.id, out),
                    (0, false) => emit_head(5, self.id, out),
                    (beyond, _) => {
                        emit_head(if found { 7 } else { 8 }, self.id, out);
                        out.push(beyond);
                    }
                }
                out.extend_from_slice(&name.0);
                Metadata::emit_list(metadata, out);
                Certificate::emit_list(certificates, out);
            }
            RibResponseBody::Absent(absence) => {
                emit_head(2, self.id, out);
                Certificate::emit_list(std::slice::from_ref(absence), out);
            }
            RibResponseBody::Stored => emit_head(3, self.id, out),
            RibResponseBody::Refused(refusal) => {
                emit_head(4, self.id, out);
                out.push(*refusal as u8);
                if *refusal == Refusal::Superseded {
                    Certificate::emit_list(&[], out);
                }
            }
            RibResponseBody::Store(StoreId(id)) => {
                emit_head(6, self.id, out);
                out.extend_from_slice(id);
            }
            RibResponseBody::Superseded(newer) => {
                emit_head(4, self.id, out);
                out.push(Refusal::Superseded as u8);
                Certificate::emit_list(std::slice::from_ref(newer), out);
            }
            RibResponseBody::Domains { revision, is_end, offered } => {
                emit_head(10, self.id, out);
                out.extend_from_slice(&revision.to_be_bytes());
                out.push(u8::from(*is_end));
                emit_offered(offered, out);
            }
            RibResponseBody::Names { metadata, published } => {
                emit_head(11, self.id, out);
                Metadata::emit_list(metadata, out);
                published.emit(out);
            }
            RibResponseBody::Proof { head, path } => {
                emit_head(12, self.id, out);
                head.emit(out);
                MapPath::emit_if_told(path.as_ref(), out);
            }
            RibResponseBody::WayBack(hashes) => {
                assert!(hashes.len() <= MAX_WAY_BACK, "more hashes than a way back has");
                emit_head(13, self.id, out);
                out.push(hashes.len() as u8);
                out.extend_from_slice(hashes.as_flattened());
            }
            RibResponseBody::Removals { to, removals } => {
                assert!(removals.len() <= MAX_REMOVALS, "more removals than an answer holds");
                emit_head(9, self.id, out);
                emit_mark(to, out);
                out.push(removals.len() as u8);
                for (metadata, certificates) in removals {
                    Metadata::emit_list(metadata, out);
                    Certificate::emit_list(certificates, out);
                }
            }
        }
    }
}

fn read_level(reader: &mut Reader<'_>) -> Result<u8, WireError> {
    match reader.u8()? {
        level @ 1..=MAX_LEVEL => Ok(level),
        _ => Err(WireError::NotCanonical("level")),
    }
}

fn read_mark(reader: &mut Reader<'_>) -> Result<Mark, WireError> {
    Ok(Mark { store: StoreId(reader.array()?), position: reader.u64()? })
}

fn emit_mark(mark: &Mark, out: &mut Vec<u8>) {
    out.extend_from_slice(&mark.store.0);
    out.extend_from_slice(&mark.position.to_be_bytes());
}

/// Each has a certificate at least.
fn read_removals(reader: &mut Reader<'_>) -> Result<Vec<RemovalLists>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > MAX_REMOVALS {
        return Err(WireError::TooLong { field: "removals", limit: MAX_REMOVALS });
    }
    (0..count)
        .map(|_| {
            let lists = (Metadata::read_list(reader)?, Certificate::read_list(reader)?);
            match lists.1.is_empty() {
                true => Err(WireError::NotCanonical("removal")),
                false => Ok(lists),
            }
        })
        .collect()
}

fn read_way_back(reader: &mut Reader<'_>) -> Result<Vec<Hash>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > MAX_WAY_BACK {
        return Err(WireError::TooLong { field: "way back", limit: MAX_WAY_BACK });
    }
    (0..count).map(|_| reader.array()).collect()
}

/// A hash for each level of the tree of all heads, of which there are fewer than 2^64.
pub const MAX_WAY_BACK: usize = 64;
/// The most removals in one answer: more than fit a datagram of 1,500 bytes.
pub const MAX_REMOVALS: usize = 8;
/// Most ways to one name, of which its issuers say that each is one of several.
pub const MAX_WAYS: u8 = 8;
/// As many domains as a chain could show on its way out.
pub const MAX_LEVEL: u8 = crate::certificate::MAX_CHAIN as u8;

fn emit_head(kind: u8, id: RequestId, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&id.0.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::MAX_CHAIN;
    use crate::certificate::tests::{any_certificate, any_name};
    use crate::log::tests::{any_head, any_path};
    use crate::metadata::MAX_LIST;
    use crate::offer::{MAX_OFFERED, tests::any_offer};
    use crate::published::tests::any_published;
    use crate::{PublicKey, Role};
    use proptest::prelude::*;

    fn any_metadata() -> impl Strategy<Value = Metadata> {
        (any::<[u8; 32]>(), any::<u64>()).prop_map(|(key, created_s)| {
            Metadata::new(Role::Node, PublicKey::Ed25519(key), created_s)
        })
    }

    fn lists() -> impl Strategy<Value = (Vec<Metadata>, Vec<Certificate>)> {
        (
            prop::collection::vec(any_metadata(), 0..=MAX_LIST),
            prop::collection::vec(any_certificate(), 0..=MAX_CHAIN),
        )
    }

    fn any_mark() -> impl Strategy<Value = Mark> {
        let mark = |(store, position)| Mark { store: StoreId(store), position };
        (any::<[u8; 16]>(), any::<u64>()).prop_map(mark)
    }

    fn any_removals() -> impl Strategy<Value = RibResponseBody> {
        let lists = (lists(), any_certificate()).prop_map(|((metadata, mut certificates), one)| {
            certificates.truncate(MAX_CHAIN - 1);
            certificates.push(one);
            (metadata, certificates)
        });
        let all = (any_mark(), prop::collection::vec(lists, 0..=MAX_REMOVALS));
        all.prop_map(|(to, removals)| RibResponseBody::Removals { to, removals })
    }

    fn any_offered() -> impl Strategy<Value = Vec<Offered>> {
        let offered = prop::collection::btree_map(any_name(), any_offer(), 0..=MAX_OFFERED);
        offered.prop_map(|offered| offered.into_iter().collect())
    }

    fn any_request() -> impl Strategy<Value = RibRequest> {
        let body = prop_oneof![
            any_name().prop_map(RibRequestBody::LookUpRoute),
            any_name().prop_map(RibRequestBody::LookUpMetadata),
            any_name().prop_map(RibRequestBody::LookUpExport),
            any::<[u8; Name::ADDRESS_LEN]>().prop_map(RibRequestBody::LookUpAddress),
            (any_name(), 1..MAX_WAYS)
                .prop_map(|(name, number)| RibRequestBody::LookUpWay { name, number }),
            lists().prop_map(|(metadata, certificates)| RibRequestBody::Publish {
                metadata,
                certificates
            }),
            Just(RibRequestBody::Acknowledge),
            Just(RibRequestBody::WhichStore),
            any_mark().prop_map(RibRequestBody::Removals),
            any_name().prop_map(RibRequestBody::LookUpNames),
            any_name().prop_map(RibRequestBody::Prove),
            (any::<u64>(), any::<u32>(), 1..=u32::MAX).prop_map(|(began_ms, from, more)| {
                let from = u64::from(from);
                RibRequestBody::WayBack { began_ms, from, to: from + u64::from(more) }
            }),
            (lists(), any_published()).prop_map(|((metadata, _), published)| {
                RibRequestBody::PublishNames { metadata, published }
            }),
            (any::<u64>(), any_name())
                .prop_map(|(revision, after)| RibRequestBody::Domains { revision, after }),
        ];
        (any::<u32>(), body).prop_map(|(id, body)| RibRequest { id: RequestId(id), body })
    }

    fn any_response() -> impl Strategy<Value = RibResponse> {
        let body = prop_oneof![
            (any_name(), 0..=MAX_LEVEL, lists()).prop_map(
                |(name, level, (metadata, certificates))| {
                    RibResponseBody::Found { name, level, metadata, certificates }
                }
            ),
            (any_certificate(), any_name()).prop_map(|(absence, subject)| {
                let statement = Statement::Absence { subject };
                RibResponseBody::Absent(Certificate { statement, ..absence })
            }),
            Just(RibResponseBody::Stored),
            any::<[u8; 16]>().prop_map(|id| RibResponseBody::Store(StoreId(id))),
            (1u8..=13).prop_map(|r| RibResponseBody::Refused(Refusal::from_u8(r).unwrap())),
            any_certificate().prop_map(RibResponseBody::Superseded),
            any_removals(),
            (any_head(), prop::option::of(any_path()))
                .prop_map(|(head, path)| RibResponseBody::Proof { head, path }),
            prop::collection::vec(any::<Hash>(), 0..=MAX_WAY_BACK)
                .prop_map(RibResponseBody::WayBack),
            (lists(), any_published()).prop_map(|((metadata, _), published)| {
                RibResponseBody::Names { metadata, published }
            }),
            (any::<u64>(), any::<bool>(), any_offered()).prop_map(|(revision, is_end, offered)| {
                RibResponseBody::Domains { revision, is_end, offered }
            }),
            (any_name(), 0..=MAX_LEVEL, lists(), any_certificate()).prop_map(
                |(name, level, (metadata, mut certificates), first)| {
                    certificates.truncate(MAX_CHAIN - 1);
                    certificates.push(first);
                    RibResponseBody::Changed { name, level, metadata, certificates }
                }
            ),
        ];
        (any::<u32>(), body).prop_map(|(id, body)| RibResponse { id: RequestId(id), body })
    }

    #[test]
    fn only_superseded_shows_a_statement_and_only_one() {
        let refused = |refusal: u8, rest: &[u8]| {
            RibResponse::parse(&[&[4, 0, 0, 0, 1, refusal], rest].concat()).map(|it| it.body)
        };
        assert_eq!(refused(7, &[0]), Ok(RibResponseBody::Refused(Refusal::Superseded)));
        assert_eq!(refused(7, &[]), Err(WireError::Truncated));
        let withdrawal = Certificate {
            sequence: 1,
            not_before_s: 0,
            not_after_s: 1,
            issuer: Name([7; 32]),
            statement: crate::Statement::Withdrawal,
            signature: [0; crate::certificate::SIGNATURE_LEN],
        };
        let mut two = Vec::new();
        Certificate::emit_list(&[withdrawal.clone(), withdrawal], &mut two);
        assert_eq!(refused(7, &two), Err(WireError::NotCanonical("superseded")));
        assert_eq!(refused(6, &[0]), Err(WireError::TrailingBytes));
    }

    #[test]
    fn a_change_to_nothing_is_refused() {
        let body = RibResponseBody::Changed {
            name: Name([7; 32]),
            level: 0,
            metadata: Vec::new(),
            certificates: Vec::new(),
        };
        let mut data = Vec::new();
        RibResponse { id: RequestId(1), body }.emit(&mut data);
        assert_eq!(RibResponse::parse(&data), Err(WireError::NotCanonical("change")));
    }

    #[test]
    fn a_level_of_none_or_of_more_than_a_chain_shows_is_refused() {
        let found = |level: u8| [&[7, 0, 0, 0, 1, level][..], &[7; 32], &[0, 0]].concat();
        assert!(RibResponse::parse(&found(MAX_LEVEL)).is_ok());
        for level in [0, MAX_LEVEL + 1] {
            let refused = RibResponse::parse(&found(level));
            assert_eq!(refused, Err(WireError::NotCanonical("level")));
        }
    }

    #[test]
    fn a_way_back_is_to_an_earlier_head() {
        let way = |from: u64, to: u64| {
            let epochs = [5, from, to].map(u64::to_be_bytes);
            RibRequest::parse(&[&[15, 0, 0, 0, 1], epochs.as_flattened()].concat())
        };
        assert!(way(3, 4).is_ok());
        for to in [2, 3] {
            assert_eq!(way(3, to), Err(WireError::NotCanonical("epochs")));
        }
        let too_long = WireError::TooLong { field: "way back", limit: MAX_WAY_BACK };
        assert_eq!(RibResponse::parse(&[13, 0, 0, 0, 1, 65]), Err(too_long));
    }

    #[test]
    fn an_answer_holds_eight_removals_and_none_without_a_certificate() {
        let answer = |count: u8, lists: &[u8]| {
            RibResponse::parse(&[&[9, 0, 0, 0, 1][..], &[7; 24], &[count], lists].concat())
        };
        assert!(answer(0, &[]).is_ok());
        let too_many = WireError::TooLong { field: "removals", limit: MAX_REMOVALS };
        assert_eq!(answer(9, &[]), Err(too_many));
        assert_eq!(answer(1, &[0, 0]), Err(WireError::NotCanonical("removal")));
    }

    proptest! {
        #[test]
        fn requests_round_trip(request in any_request()) {
            let mut data = Vec::new();
            request.emit(&mut data);
            prop_assert_eq!(RibRequest::parse(&data), Ok(request));
            for cut in 0..data.len() {
                prop_assert!(RibRequest::parse(&data[..cut]).is_err());
            }
        }

        #[test]
        fn responses_round_trip(response in any_response()) {
            let mut data = Vec::new();
            response.emit(&mut data);
            prop_assert_eq!(RibResponse::parse(&data), Ok(response));
            data.push(0);
            prop_assert!(RibResponse::parse(&data).is_err());
        }
    }
}
