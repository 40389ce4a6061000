//! The PDU: what one hop decrypts, reads and encrypts for the next (GDP paper, section 4.1).
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | magic `0x262A` |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | action |
//! | 4 | 1 | flags: bit 0, certificates follow the data |
//! | 5 | 1 | TTL, in router hops |
//! | 6 | 2 | data length |
//! | 8 | 4 | tag, chosen by the source; a NACK repeats it |
//! | 12 | 32 | source name |
//! | 44 | 32 | destination name |
//! | 76 | .. | data |
//! | .. | .. | certificates, as [`Certificate::parse_list`] reads them |
//!
//! The labelled form has flag bit 1, and at offset 12 a 4-byte label in place of both
//! names; data follow at 16, and no certificates. The receiver chose the label for
//! one flow of one session: see [`crate::flow`].
//!
//! [`Pdu`] and [`LabelledPdu`] are views whose construction checked everything above except the
//! inside of the certificates; their accessors cannot fail. [`PduHeader`] and
//! [`LabelledHeader`] are the meaning, and emit.

use std::ops::Range;

use crate::{Certificate, Name, WireError};

/// A PDU of either form.
#[derive(Clone, Copy)]
pub enum Frame<'a> {
    /// With both names.
    Full(Pdu<'a>),
    /// With a label in place of the names.
    Labelled(LabelledPdu<'a>),
}

impl<'a> Frame<'a> {
    /// Reads `bytes` as one PDU of either form.
    ///
    /// # Errors
    /// When the header is not ours or the lengths do not add up.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        match bytes.get(FLAGS) {
            Some(flags) if flags & FLAG_LABELLED != 0 => {
                LabelledPdu::parse(bytes).map(Self::Labelled)
            }
            _ => Pdu::parse(bytes).map(Self::Full),
        }
    }
}

/// A view over the bytes of one PDU in full form.
#[derive(Clone, Copy)]
pub struct Pdu<'a> {
    /// INVARIANT: passed `check`, so holds a header and the data it announces.
    bytes: &'a [u8],
    action: Action,
}

impl<'a> Pdu<'a> {
    /// Reads `bytes` as one PDU.
    ///
    /// # Errors
    /// When the header is not ours or the lengths do not add up.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let action = check(bytes)?;
        Ok(Self { bytes, action })
    }

    /// What the PDU asks for.
    #[inline]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Router hops it may still take.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes[TTL]
    }

    /// The source's own mark.
    #[inline]
    pub fn tag(&self) -> u32 {
        u32::from_be_bytes(self.field(TAG))
    }

    /// Who it is from.
    #[inline]
    pub fn source(&self) -> Name {
        Name(self.field(SOURCE))
    }

    /// Who it is for.
    #[inline]
    pub fn destination(&self) -> Name {
        Name(self.field(DESTINATION))
    }

    /// Source and destination as they stand, 64 bytes: what a flow is looked up by.
    #[inline]
    pub fn names(&self) -> &'a [u8; 64] {
        self.bytes[NAMES].first_chunk().expect("invariant: checked on construction")
    }

    /// All bytes of the PDU.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[PduHeader::LEN..self.data_end()]
    }

    /// Whether certificates follow the data.
    #[inline]
    pub fn has_certificates(&self) -> bool {
        self.bytes[FLAGS] & FLAG_CERTIFICATES != 0
    }

    /// The certificates that follow the data; none where the flag is not set.
    ///
    /// # Errors
    /// When the bytes there are not a list of certificates.
    pub fn certificates(&self) -> Result<Vec<Certificate>, WireError> {
        if !self.has_certificates() {
            return Ok(Vec::new());
        }
        Certificate::parse_list(&self.bytes[self.data_end()..])
    }

    /// The header's meaning.
    pub fn header(&self) -> PduHeader {
        PduHeader {
            action: self.action,
            ttl: self.ttl(),
            tag: self.tag(),
            source: self.source(),
            destination: self.destination(),
        }
    }

    #[inline]
    fn data_end(&self) -> usize {
        PduHeader::LEN + usize::from(u16::from_be_bytes(self.field(DATA_LEN)))
    }

    #[inline]
    fn field<const N: usize>(&self, range: Range<usize>) -> [u8; N] {
        *self.bytes[range].first_chunk().expect("invariant: checked on construction")
    }
}

/// A view over the bytes of one PDU in labelled form.
#[derive(Clone, Copy)]
pub struct LabelledPdu<'a> {
    /// INVARIANT: passed `check_labelled`, so holds a header and exactly the data it announces.
    bytes: &'a [u8],
    action: Action,
}

impl<'a> LabelledPdu<'a> {
    /// Reads `bytes` as one PDU in labelled form.
    ///
    /// # Errors
    /// When the header is not ours or the lengths do not add up.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let action = check_labelled(bytes)?;
        Ok(Self { bytes, action })
    }

    /// The flow, as the receiver numbers it.
    #[inline]
    pub fn label(&self) -> Label {
        Label(u32::from_be_bytes(self.field(LABEL)))
    }

    /// Router hops it may still take.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes[TTL]
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[LabelledHeader::LEN..]
    }

    /// The header's meaning.
    #[inline]
    pub fn header(&self) -> LabelledHeader {
        LabelledHeader {
            action: self.action,
            ttl: self.ttl(),
            tag: u32::from_be_bytes(self.field(TAG)),
            label: self.label(),
        }
    }

    #[inline]
    fn field<const N: usize>(&self, range: Range<usize>) -> [u8; N] {
        *self.bytes[range].first_chunk().expect("invariant: checked on construction")
    }
}

/// A flow of one session, as the receiver of its PDUs numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// The meaning of a labelled PDU's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelledHeader {
    /// Data, a ping, or a NACK about a label that is not known.
    pub action: Action,
    /// Router hops it may still take.
    pub ttl: u8,
    /// The source's own mark; a NACK repeats it.
    pub tag: u32,
    /// The flow.
    pub label: Label,
}

impl LabelledHeader {
    /// Bytes before the data.
    pub const LEN: usize = 16;

    /// Appends a PDU of this header and `data`.
    ///
    /// # Errors
    /// When the data exceed 65,535 bytes, or the action has no labelled form.
    pub fn emit(&self, data: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        out.extend_from_slice(&self.emit_before(data)?);
        out.extend_from_slice(data);
        Ok(())
    }

    /// The bytes that stand before `data`, for who has the data elsewhere.
    ///
    /// # Errors
    /// As [`LabelledHeader::emit`].
    pub fn emit_before(&self, data: &[u8]) -> Result<[u8; Self::LEN], WireError> {
        self.emit_before_bytes(data.len())
    }

    /// As [`LabelledHeader::emit_before`], for so many bytes that stand in several places.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn emit_before_bytes(&self, data_len: usize) -> Result<[u8; Self::LEN], WireError> {
        check_label_action(self.action)?;
        let data_len = data_len_of(data_len)?;
        let mut out = [0; Self::LEN];
        out[..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2..6].copy_from_slice(&[VERSION, self.action as u8, FLAG_LABELLED, self.ttl]);
        out[6..8].copy_from_slice(&data_len.to_be_bytes());
        out[TAG].copy_from_slice(&self.tag.to_be_bytes());
        out[LABEL].copy_from_slice(&self.label.0.to_be_bytes());
        Ok(out)
    }
}

/// Readdresses a PDU that [`LabelledPdu::parse`] accepted: takes one hop
/// off its TTL, and puts the next hop's label in.
///
/// # Panics
/// When `bytes` is shorter than a labelled header.
#[inline]
pub fn relabel(bytes: &mut [u8], label: Label) {
    decrement_ttl(bytes);
    bytes[LABEL].copy_from_slice(&label.0.to_be_bytes());
}

/// The meaning of a PDU's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PduHeader {
    /// What the PDU asks for.
    pub action: Action,
    /// Router hops it may still take.
    pub ttl: u8,
    /// The source's own mark; a NACK repeats it.
    pub tag: u32,
    /// Who it is from.
    pub source: Name,
    /// Who it is for.
    pub destination: Name,
}

impl PduHeader {
    /// Bytes before the data.
    pub const LEN: usize = 76;
    /// The TTL a source starts with.
    pub const INITIAL_TTL: u8 = 64;

    /// A header of full TTL and tag 0.
    pub fn new(action: Action, source: Name, destination: Name) -> Self {
        Self { action, ttl: Self::INITIAL_TTL, tag: 0, source, destination }
    }

    /// Appends a PDU of this header, `data` and `certificates`.
    ///
    /// # Errors
    /// When the data exceeds 65,535 bytes or there are too many certificates.
    pub fn emit(
        &self,
        data: &[u8],
        certificates: &[Certificate],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let data_len = data_len(data)?;
        if certificates.len() > crate::certificate::MAX_CHAIN {
            let limit = crate::certificate::MAX_CHAIN;
            return Err(WireError::TooLong { field: "certificates", limit });
        }
        let flags = if certificates.is_empty() { 0 } else { FLAG_CERTIFICATES };
        out.reserve(Self::LEN + data.len());
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&[VERSION, self.action as u8, flags, self.ttl]);
        out.extend_from_slice(&data_len.to_be_bytes());
        out.extend_from_slice(&self.tag.to_be_bytes());
        out.extend_from_slice(&self.source.0);
        out.extend_from_slice(&self.destination.0);
        out.extend_from_slice(data);
        if !certificates.is_empty() {
            Certificate::emit_list(certificates, out);
        }
        Ok(())
    }
}

/// What a PDU asks of whoever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Carry the data to the destination.
    Data = 1,
    /// A PDU of yours could not be carried: see [`crate::nack`].
    Nack = 2,
    /// Answer with a pong of the same data.
    Ping = 3,
    /// The answer to a ping.
    Pong = 4,
    /// The certificates authorise the next hop; nothing to deliver.
    Advertise = 5,
    /// An advertised name is accepted: see [`crate::accept`].
    Accept = 6,
    /// A question or an order to a RIB: see [`crate::rib`].
    RibRequest = 7,
    /// A RIB's answer.
    RibResponse = 8,
    /// A flow's PDUs may come in labelled form: see [`crate::flow`].
    FlowAccept = 9,
    /// To be a part of a group, or no longer: see [`crate::group`].
    GroupRequest = 10,
    /// The answer to it.
    GroupAccept = 11,
    /// Heads of RIBs' logs, from one router to the next: see [`crate::log`].
    Heads = 12,
}

impl Action {
    #[inline]
    fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            1 => Self::Data,
            2 => Self::Nack,
            3 => Self::Ping,
            4 => Self::Pong,
            5 => Self::Advertise,
            6 => Self::Accept,
            7 => Self::RibRequest,
            8 => Self::RibResponse,
            9 => Self::FlowAccept,
            10 => Self::GroupRequest,
            11 => Self::GroupAccept,
            12 => Self::Heads,
            value => return Err(WireError::UnknownVariant { field: "action", value }),
        })
    }
}

/// Takes one hop off the TTL of a PDU that [`Pdu::parse`] accepted.
///
/// # Panics
/// When `bytes` is shorter than a header.
#[inline]
pub fn decrement_ttl(bytes: &mut [u8]) {
    bytes[TTL] = bytes[TTL].saturating_sub(1);
}

fn data_len(data: &[u8]) -> Result<u16, WireError> {
    data_len_of(data.len())
}

#[inline]
fn data_len_of(len: usize) -> Result<u16, WireError> {
    u16::try_from(len)
        .map_err(|_| WireError::TooLong { field: "data", limit: usize::from(u16::MAX) })
}

/// Magic, version and action: what both forms begin with.
#[inline]
fn check_start<const N: usize>(header: &[u8; N]) -> Result<Action, WireError> {
    if u16::from_be_bytes([header[0], header[1]]) != MAGIC {
        return Err(WireError::BadMagic);
    }
    if header[2] != VERSION {
        return Err(WireError::UnknownVersion(header[2]));
    }
    Action::from_u8(header[3])
}

#[inline]
fn check_labelled(bytes: &[u8]) -> Result<Action, WireError> {
    let header: &[u8; LabelledHeader::LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
    let action = check_start(header)?;
    check_label_action(action)?;
    if header[FLAGS] != FLAG_LABELLED {
        return Err(WireError::NotCanonical("flags"));
    }
    let end = LabelledHeader::LEN + usize::from(u16::from_be_bytes([header[6], header[7]]));
    match bytes.len().cmp(&end) {
        std::cmp::Ordering::Less => Err(WireError::Truncated),
        std::cmp::Ordering::Equal => Ok(action),
        std::cmp::Ordering::Greater => Err(WireError::TrailingBytes),
    }
}

/// Only what flows has a labelled form, and the NACK that says that a label is not known.
#[inline]
fn check_label_action(action: Action) -> Result<(), WireError> {
    match action {
        Action::Data | Action::Ping | Action::Nack => Ok(()),
        _ => Err(WireError::NotCanonical("labelled action")),
    }
}

#[inline]
fn check(bytes: &[u8]) -> Result<Action, WireError> {
    let header: &[u8; PduHeader::LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
    let action = check_start(header)?;
    let flags = header[FLAGS];
    if flags & !FLAG_CERTIFICATES != 0 {
        return Err(WireError::NotCanonical("flags"));
    }
    let data_end = PduHeader::LEN + usize::from(u16::from_be_bytes([header[6], header[7]]));
    match (bytes.len().cmp(&data_end), flags & FLAG_CERTIFICATES != 0) {
        (std::cmp::Ordering::Less, _) | (std::cmp::Ordering::Equal, true) => {
            Err(WireError::Truncated)
        }
        (std::cmp::Ordering::Greater, false) => Err(WireError::TrailingBytes),
        _ => Ok(action),
    }
}

const MAGIC: u16 = 0x262A;
const VERSION: u8 = 1;
const FLAG_CERTIFICATES: u8 = 1;
const FLAG_LABELLED: u8 = 2;
const FLAGS: usize = 4;
const TTL: usize = 5;
const DATA_LEN: Range<usize> = 6..8;
const TAG: Range<usize> = 8..12;
const LABEL: Range<usize> = 12..16;
const SOURCE: Range<usize> = 12..44;
const DESTINATION: Range<usize> = 44..76;
const NAMES: Range<usize> = 12..76;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::tests::{any_certificate, any_name};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(action in 1u8..=8, ttl: u8, tag: u32, source in any_name(),
                                       destination in any_name(), data in prop::collection::vec(any::<u8>(), 0..300),
                                       certificates in prop::collection::vec(any_certificate(), 0..4)) {
            let header = PduHeader { action: Action::from_u8(action).unwrap(), ttl, tag, source, destination };
            let mut bytes = Vec::new();
            header.emit(&data, &certificates, &mut bytes).unwrap();
            let pdu = Pdu::parse(&bytes).unwrap();
            prop_assert_eq!(pdu.header(), header);
            prop_assert_eq!(pdu.data(), &data[..]);
            prop_assert_eq!(pdu.certificates(), Ok(certificates.clone()));
            prop_assert_eq!(&pdu.names()[..32], &source.0);
            let header_and_data = PduHeader::LEN + data.len();
            for cut in 0..=header_and_data.min(bytes.len() - 1) {
                prop_assert!(Pdu::parse(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn the_labelled_form_has_one_spelling() {
        let header =
            LabelledHeader { action: Action::Data, ttl: 9, tag: 7, label: Label(0x0102_0304) };
        let mut bytes = Vec::new();
        header.emit(b"data", &mut bytes).unwrap();
        assert_eq!(bytes.len(), LabelledHeader::LEN + 4);
        let Ok(Frame::Labelled(pdu)) = Frame::parse(&bytes) else { panic!("labelled") };
        assert_eq!((pdu.header(), pdu.data()), (header, &b"data"[..]));
        assert!(Pdu::parse(&bytes).is_err());
        for cut in 0..bytes.len() {
            assert!(Frame::parse(&bytes[..cut]).is_err());
        }
        relabel(&mut bytes, Label(5));
        let pdu = LabelledPdu::parse(&bytes).unwrap();
        assert_eq!((pdu.ttl(), pdu.label(), pdu.data()), (8, Label(5), &b"data"[..]));
        bytes[FLAGS] = FLAG_LABELLED | FLAG_CERTIFICATES;
        assert!(Frame::parse(&bytes).is_err());
        bytes[FLAGS] = FLAG_LABELLED;
        bytes[3] = Action::Advertise as u8;
        assert!(Frame::parse(&bytes).is_err());
        let unlabelled = LabelledHeader { action: Action::Pong, ..header };
        assert!(unlabelled.emit(b"", &mut Vec::new()).is_err());
    }

    #[test]
    fn nothing_may_follow_without_the_flag() {
        let header = PduHeader::new(Action::Data, Name([1; 32]), Name([2; 32]));
        let mut bytes = Vec::new();
        header.emit(b"x", &[], &mut bytes).unwrap();
        bytes.push(0);
        assert_eq!(Pdu::parse(&bytes).err(), Some(WireError::TrailingBytes));
        bytes[FLAGS] = 1;
        assert!(Pdu::parse(&bytes).is_ok(), "the view does not read certificates");
        assert_eq!(
            Pdu::parse(&bytes).unwrap().certificates(),
            Err(WireError::NotCanonical("certificate list"))
        );
        for flags in [2, 4, 128] {
            bytes[FLAGS] = flags;
            assert_eq!(Pdu::parse(&bytes).err(), Some(WireError::NotCanonical("flags")));
        }
    }

    #[test]
    fn ttl_stops_at_zero() {
        let mut bytes = Vec::new();
        let header =
            PduHeader { ttl: 1, ..PduHeader::new(Action::Ping, Name([1; 32]), Name([2; 32])) };
        header.emit(&[], &[], &mut bytes).unwrap();
        decrement_ttl(&mut bytes);
        decrement_ttl(&mut bytes);
        assert_eq!(Pdu::parse(&bytes).unwrap().ttl(), 0);
    }
}
