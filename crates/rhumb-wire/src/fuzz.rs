//! One property per parser, for the fuzzer and for tests: any
//! input is refused or re-emits to the same bytes.

use crate::accept::Accept;
use crate::admission::Admission;
use crate::bundle;
use crate::datagram::{Datagram, SessionParameters};
use crate::discovery::Discovery;
use crate::flow::FlowAccept;
use crate::folder::{FileSpan, Listing};
use crate::group::{GroupAccept, GroupRequest};
use crate::held::Held;
use crate::log::{Head, MapPath};
use crate::nack::Nack;
use crate::payload::PayloadHeader;
use crate::pdu::Frame;
use crate::rib::{RibRequest, RibResponse};
use crate::stream::{StreamFrame, StreamParameters};
use crate::transfer::{Offer, Unframer};
use crate::{Certificate, Metadata, Name, PublishedNames, WireError};

/// `Name::from_str`.
pub fn name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(name) = text.parse::<Name>() {
        assert_eq!(name.to_string(), text);
    }
}

/// `Admission::parse`.
pub fn admission(data: &[u8]) {
    if let Ok(message) = Admission::parse(data) {
        assert_eq!(message.emit(), data);
    }
}

/// `Metadata::parse` and `Metadata::parse_list`.
pub fn metadata(data: &[u8]) {
    if let Ok(metadata) = Metadata::parse(data) {
        assert_eq!(metadata.emit(), data);
    }
    if let Ok(list) = Metadata::parse_list(data)
        && !data.is_empty()
    {
        let mut out = Vec::new();
        Metadata::emit_list(&list, &mut out);
        assert_eq!(out, data);
    }
}

/// `Certificate::parse`, `Certificate::parse_list` and `PublishedNames::parse`.
pub fn certificate(data: &[u8]) {
    if let Ok(certificate) = Certificate::parse(data) {
        let mut out = Vec::new();
        certificate.emit(&mut out);
        assert_eq!(out, data);
    }
    if let Ok(published) = PublishedNames::parse(data) {
        let mut out = Vec::new();
        published.emit(&mut out);
        assert_eq!(out, data);
    }
    if let Ok(list) = Certificate::parse_list(data) {
        let mut out = Vec::new();
        Certificate::emit_list(&list, &mut out);
        assert_eq!(out, data);
    }
}

/// `Frame::parse`, and with it `Pdu::parse` and `LabelledPdu::parse`.
pub fn pdu(data: &[u8]) {
    let pdu = match Frame::parse(data) {
        Ok(Frame::Full(pdu)) => pdu,
        Ok(Frame::Labelled(pdu)) => {
            let mut out = Vec::new();
            pdu.header().emit(pdu.data(), &mut out).expect("what was parsed fits");
            assert_eq!(out, data);
            return;
        }
        Err(_) => return,
    };
    if let Ok(certificates) = pdu.certificates() {
        let mut out = Vec::new();
        pdu.header().emit(pdu.data(), &certificates, &mut out).expect("what was parsed fits");
        assert_eq!(out, data);
    }
}

/// `Nack::parse`, `Accept::parse`, `FlowAccept::parse`, `GroupAccept::parse`,
/// `GroupRequest::parse` and `PayloadHeader::parse`.
pub fn nack(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok((nack, metadata)) = Nack::parse_with_metadata(data) {
        nack.emit(&mut out);
        out.extend(metadata.iter().flat_map(Metadata::emit));
        assert_eq!(out, data);
    }
    out.clear();
    if let Ok(accept) = Accept::parse(data) {
        accept.emit(&mut out);
        assert_eq!(out, data);
    }
    if let Ok(accept) = FlowAccept::parse(data) {
        assert_eq!(accept.emit(), data);
    }
    if let Ok(accept) = GroupAccept::parse(data) {
        assert_eq!(accept.emit(), data);
    }
    out.clear();
    if let Ok(request) = GroupRequest::parse(data) {
        request.emit(&mut out);
        assert_eq!(out, data);
    }
    if let Ok((header, body)) = PayloadHeader::parse(data) {
        assert_eq!([&header.emit()[..], body].concat(), data);
    }
}

/// `RibRequest::parse` and `RibResponse::parse`.
pub fn rib(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok(request) = RibRequest::parse(data) {
        request.emit(&mut out);
        assert_eq!(out, data);
    }
    out.clear();
    if let Ok(response) = RibResponse::parse(data) {
        response.emit(&mut out);
        assert_eq!(out, data);
    }
}

/// `Head::parse` and `MapPath::parse`.
pub fn log(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok(head) = Head::parse(data) {
        head.emit(&mut out);
        assert_eq!(out, data);
    }
    out.clear();
    if let Ok(heads) = Head::parse_list(data) {
        Head::emit_list(&heads, &mut out);
        assert_eq!(out, data);
    }
    out.clear();
    if let Ok(path) = MapPath::parse(data) {
        assert_eq!(path.emitted_len(), data.len());
        path.emit(&mut out);
        assert_eq!(out, data);
    }
}

/// `Datagram::parse` and `Discovery::parse`.
pub fn datagram(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok(discovery) = Discovery::parse(data) {
        discovery.emit(&mut out);
        assert_eq!(out, data);
        return;
    }
    match Datagram::parse(data) {
        Ok(Datagram::Dtls(bytes)) => out.extend_from_slice(bytes),
        Ok(Datagram::Record(header)) => {
            out.extend_from_slice(&header.emit());
            out.extend_from_slice(&data[out.len()..]);
        }
        Ok(Datagram::Initial { token, inner }) => Datagram::emit_initial(token, inner, &mut out),
        Ok(Datagram::Retry { hello, token }) => Datagram::emit_retry(hello, token, &mut out),
        Err(_) => return,
    }
    assert_eq!(out, data);
}

/// `bundle::pdus`: put together again, they are the bundle.
pub fn bundle(data: &[u8]) {
    let Ok(pdus) = bundle::pdus(data) else { return };
    let mut out = Vec::new();
    for pdu in pdus {
        bundle::push(&mut out, &data[pdu]);
    }
    assert_eq!(out, data);
}

/// `SessionParameters::parse`.
pub fn session(data: &[u8]) {
    if let Ok(parameters) = SessionParameters::parse(data) {
        assert_eq!(parameters.emit(), data);
    }
}

/// `StreamParameters::split` and `StreamFrame::split`: what was taken is what would be sent, and
/// more of the stream changes nothing of it.
pub fn stream(data: &[u8]) {
    let mut at = 0;
    let mut out = Vec::new();
    match StreamParameters::split(data) {
        Ok(Some((parameters, len))) => {
            out.extend_from_slice(&parameters.emit());
            at = len;
        }
        Ok(None) => assert!(data.len() < StreamParameters::FRAME_LEN),
        Err(_) => {}
    }
    while let Ok(Some((frame, len))) = StreamFrame::split(&data[at..], MOST_IN_A_FRAME) {
        assert_eq!(
            StreamFrame::split(&data[at..at + len], MOST_IN_A_FRAME),
            Ok(Some((frame, len)))
        );
        assert_eq!(StreamFrame::split(&data[at..at + len - 1], MOST_IN_A_FRAME), Ok(None));
        frame.emit(&mut out);
        at += len;
    }
    assert_eq!(out, data[..at]);
}

/// `folder::Listing::parse`.
pub fn folder(data: &[u8]) {
    if let Ok(listing) = Listing::parse(data) {
        assert_eq!(&listing.emit()[Listing::HEAD_LEN..], data);
        for entry in listing.entries() {
            assert!(entry.path.split('/').all(|name| !matches!(name, "" | "." | "..")));
        }
    }
}

/// `held::Held::parse`, of as many files as the first byte says.
pub fn held(data: &[u8]) {
    let Some((&count, data)) = data.split_first() else { return };
    let span = |length: u8| FileSpan { at: 0, length: length.into(), sha256: [0; 32] };
    let files: Vec<_> = (0..count).map(span).collect();
    if let Ok(held) = Held::parse(data, &files) {
        let mut out = Vec::new();
        held.emit(&mut out);
        assert_eq!(out, data);
        assert_eq!(held.missing(&files).is_none(), (0..files.len()).all(|it| held.is_whole(it)));
    }
}

/// `transfer::Unframer::strip`: the same in one piece and in two, cut where the first byte says.
pub fn frames(data: &[u8]) {
    let Some((&cut, data)) = data.split_first() else { return };
    let cut = usize::from(cut).min(data.len());
    let strip = |unframer: &mut Unframer, data: &[u8]| {
        let mut bytes = data.to_vec();
        let len = unframer.strip(&mut bytes)?;
        bytes.truncate(len);
        Ok::<_, WireError>(bytes)
    };
    let mut whole = Unframer::default();
    let at_once = strip(&mut whole, data);
    let mut parts = Unframer::default();
    let first = strip(&mut parts, &data[..cut]);
    let both = first.and_then(|first| Ok([first, strip(&mut parts, &data[cut..])?].concat()));
    assert_eq!(at_once, both);
    if at_once.is_ok() {
        assert_eq!(whole.end(), parts.end());
    }
}

/// `transfer::Offer::parse`.
pub fn transfer(data: &[u8]) {
    if let Ok((id, offer)) = Offer::parse(data) {
        let mut out = Vec::new();
        offer.emit(id, &mut out);
        assert_eq!(out, data);
    }
}

/// Longer than any PDU of these inputs, and shorter than some lengths that they say.
const MOST_IN_A_FRAME: usize = 1424;
