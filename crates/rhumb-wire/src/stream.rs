//! Links over a stream: the frames in it, and the addresses that streams have in a
//! [`Batch`](crate::Batch) (`docs/spec.md`, section 4.7).
//!
//! A stream protects what it carries by itself, so its frames have no seal. In a batch a frame
//! stands as a sealed datagram would, between room for a header and room for a tag, so that
//! whoever forwards it treats both alike.
//!
//! INVARIANT: no datagram comes from a stream's address. Such an address is an IPv6 one whose flow
//! information has its first four bits set, which are none of the 28 that a packet has.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use crate::WireError;
use crate::datagram::{SessionIndex, SessionParameters};

/// What a stream carries once both ends have said their parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFrame<'a> {
    /// A PDU; a keep-alive when it is empty.
    Pdu(&'a [u8]),
    /// The session is over.
    Close,
}

impl<'a> StreamFrame<'a> {
    /// Bytes of the length, which counts what follows it.
    pub const LENGTH_LEN: usize = LENGTH_LEN;
    /// Bytes in front of the PDU: the length, and the type.
    pub const HEADER_LEN: usize = HEADER_LEN;

    /// The first frame of `bytes`, and where it ends; `None` while more has to come. `most` is the
    /// longest PDU to take.
    ///
    /// # Errors
    /// When no frame begins like this. What follows it in the stream means nothing then.
    #[inline]
    pub fn split(bytes: &'a [u8], most: usize) -> Result<Option<(Self, usize)>, WireError> {
        let Some((&[high, low, kind], rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return match bytes {
                [0, 0] => Err(WireError::NotCanonical("frame")),
                _ => Ok(None),
            };
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        let pdu_len = len.checked_sub(1).ok_or(WireError::NotCanonical("frame"))?;
        match kind {
            PDU if pdu_len > most => Err(WireError::TooLong { field: "frame", limit: most }),
            PDU => {
                let pdu = rest.get(..pdu_len);
                Ok(pdu.map(|pdu| (Self::Pdu(pdu), Self::HEADER_LEN + pdu_len)))
            }
            CLOSE if pdu_len > 0 => Err(WireError::TrailingBytes),
            CLOSE => Ok(Some((Self::Close, Self::HEADER_LEN))),
            value => Err(WireError::UnknownVariant { field: "frame", value }),
        }
    }

    /// Appends the frame. A PDU that no frame has room for is left out: sessions bound PDUs to
    /// less.
    #[inline]
    pub fn emit(&self, out: &mut Vec<u8>) {
        if let Some((header, pdu)) = self.parts() {
            out.extend_from_slice(&header);
            out.extend_from_slice(pdu);
        }
    }

    /// What the frame begins with, and the PDU behind it; `None` when no frame has room for that.
    #[inline]
    pub fn parts(&self) -> Option<([u8; HEADER_LEN], &'a [u8])> {
        let (kind, pdu) = match *self {
            Self::Pdu(pdu) => (PDU, pdu),
            Self::Close => (CLOSE, &[][..]),
        };
        let [high, low] = u16::try_from(pdu.len() + 1).ok()?.to_be_bytes();
        Some(([high, low, kind], pdu))
    }
}

/// What an end says of itself first on a stream: session parameters, of which the largest datagram
/// is all that means anything there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamParameters {
    /// The largest datagram it receives, in bytes of UDP payload, were it not a stream: frames hold
    /// PDUs that would fit one.
    pub max_datagram_len: u16,
}

impl StreamParameters {
    /// Bytes of the first frame.
    pub const FRAME_LEN: usize = LENGTH_LEN + SessionParameters::LEN;

    /// The first frame of a stream, and where it ends; `None` while more has to come.
    ///
    /// # Errors
    /// When a stream does not begin like this.
    pub fn split(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let expected = (SessionParameters::LEN as u16).to_be_bytes();
        let begun = bytes.len().min(LENGTH_LEN);
        if bytes[..begun] != expected[..begun] {
            return Err(WireError::NotCanonical("frame of session parameters"));
        }
        let Some(message) = bytes.get(LENGTH_LEN..Self::FRAME_LEN) else { return Ok(None) };
        let parameters = SessionParameters::parse(message)?;
        if parameters.lanes != 1 || parameters.index.as_u32() != 0 {
            return Err(WireError::NotCanonical("session parameters of a stream"));
        }
        let SessionParameters { max_datagram_len, .. } = parameters;
        Ok(Some((Self { max_datagram_len }, Self::FRAME_LEN)))
    }

    /// The frame.
    pub fn emit(&self) -> [u8; Self::FRAME_LEN] {
        let Self { max_datagram_len } = *self;
        let index = SessionIndex::new(0).expect("invariant: 0 has no more than 28 bits");
        let message = SessionParameters { index, lanes: 1, max_datagram_len }.emit();
        let mut frame = [0; Self::FRAME_LEN];
        frame[..LENGTH_LEN].copy_from_slice(&(SessionParameters::LEN as u16).to_be_bytes());
        frame[LENGTH_LEN..].copy_from_slice(&message);
        frame
    }
}

/// The address that the stream of session index `index` with `peer` has in batches.
pub fn address_of(index: SessionIndex, peer: SocketAddr) -> SocketAddr {
    let ip = match peer.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddrV6::new(ip, peer.port(), IS_STREAM | index.as_u32(), 0).into()
}

/// The session index of the stream that has this address; `None` when it is no stream's.
#[inline]
pub fn index_of(address: &SocketAddr) -> Option<SessionIndex> {
    match address {
        SocketAddr::V6(address) if address.flowinfo() & IS_STREAM == IS_STREAM => {
            SessionIndex::new(address.flowinfo() & !IS_STREAM)
        }
        _ => None,
    }
}

/// Whether `address` is a stream's, and no socket's.
#[inline]
pub fn is_address(address: &SocketAddr) -> bool {
    index_of(address).is_some()
}

const LENGTH_LEN: usize = 2;
const HEADER_LEN: usize = LENGTH_LEN + 1;
/// As the first byte of a sealed PDU.
const PDU: u8 = 0x80;
/// As the first byte of a sealed close.
const CLOSE: u8 = 0xB0;
const IS_STREAM: u32 = 0xF000_0000;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_follow_each_other_however_they_are_cut() {
        let frames = [StreamFrame::Pdu(b"ab"), StreamFrame::Pdu(b""), StreamFrame::Close];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut bytes));
        assert_eq!(bytes, [0, 3, 0x80, b'a', b'b', 0, 1, 0x80, 0, 1, 0xB0]);
        let ends = [5, 8, 11];
        for cut in 0..=bytes.len() {
            let (mut at, mut seen) = (0, 0);
            while let Some((frame, len)) = StreamFrame::split(&bytes[at..cut], 2).unwrap() {
                assert_eq!(frame, frames[seen]);
                at += len;
                seen += 1;
                assert_eq!(at, ends[seen - 1]);
            }
            assert_eq!(seen, ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_as_soon_as_that_is_clear() {
        fn split(bytes: &[u8]) -> Result<Option<(StreamFrame<'_>, usize)>, WireError> {
            StreamFrame::split(bytes, 4)
        }
        for bytes in
            [&[0, 0][..], &[0, 0, 0x80], &[0, 1, 0xD0], &[0, 1, 0], &[0, 2, 0xB0], &[0, 6, 0x80]]
        {
            assert!(split(bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(split(&[0, 5, 0x80]), Ok(None), "as long as may be");
        let mut out = Vec::new();
        StreamFrame::Pdu(&[0; 1 << 16]).emit(&mut out);
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_or_what_would_be_sent(
            good in any::<bool>(),
            pdu in vec(any::<u8>(), 0..40),
            rest in vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = Vec::new();
            if good {
                bytes.extend(StreamParameters { max_datagram_len: 1452 }.emit());
                StreamFrame::Pdu(&pdu).emit(&mut bytes);
            }
            bytes.extend(rest);
            crate::fuzz::stream(&bytes);
        }
    }

    #[test]
    fn parameters_have_one_form() {
        let parameters = StreamParameters { max_datagram_len: 1452 };
        let bytes = parameters.emit();
        assert_eq!(StreamParameters::split(&bytes), Ok(Some((parameters, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(StreamParameters::split(&bytes[..cut]), Ok(None), "{cut}");
        }
        for (at, value) in [(0, 1), (1, 11), (2, b'X'), (4, 2), (5, 8), (9, 1)] {
            let mut other = bytes;
            other[at] = value;
            assert!(StreamParameters::split(&other).is_err(), "{at}");
        }
    }

    #[test]
    fn a_streams_address_is_nobody_elses() {
        let index = SessionIndex::new(0x0ABC_DEF8).unwrap();
        for peer in ["192.0.2.1:443", "[2001:db8::1]:443"] {
            let peer: SocketAddr = peer.parse().unwrap();
            let address = address_of(index, peer);
            assert_eq!(index_of(&address), Some(index));
            assert_eq!(address.ip().to_canonical(), peer.ip());
            assert!(is_address(&address) && !is_address(&peer));
            assert_ne!(address, SocketAddr::new(address.ip(), address.port()));
        }
        // All that a packet can say of its flow.
        let flow = SocketAddrV6::new([0; 16].into(), 1, 0x0FFF_FFFF, 0);
        assert!(!is_address(&flow.into()));
    }
}
